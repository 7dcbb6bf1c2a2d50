"""Acting with a recurrent policy: its state in the episode of each environment."""

from collections.abc import Callable, Mapping

import numpy as np

from spinup_tf2.core.nets.acting import Actor
from spinup_tf2.core.nets.actor_critic import BaseActorCritic
from spinup_tf2.core.nets.recurrent_acting import RecurrentStep
from spinup_tf2.core.vector_env import VectorEnv

# note(which, first, state), called in a step of the environments `which`: whether it begins an
# episode `[n]`, and the state before it `[n, size]`, which is then still that of the last episode.
Note = Callable[[slice, np.ndarray, np.ndarray], None]


class RecurrentActor:
    """An Actor with a recurrent state for each environment, which is cleared between episodes.

    Attributes:
        state: The state of each environment, `[n, size]`.
        note: Function that is called in every step, unless it is None.

    Args:
        step: The networks.
        envs: The environments in which to act. They know where episodes begin (`elapsed`).
    """

    def __init__(self, step: RecurrentStep, envs: VectorEnv):
        self.step, self.envs = step, envs
        self.note: Note | None = None
        self.state = self.kept = np.zeros((0, step.size), np.float32)
        self.restart()

    def acting_in(self, envs: VectorEnv) -> "RecurrentActor":
        """Return an actor with the same networks for other environments, with an empty state."""
        return RecurrentActor(self.step, envs)

    def refresh(self) -> None:
        self.step.refresh()

    def __call__(
        self, obs: np.ndarray, noise: np.ndarray, which: slice = slice(None)
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return actions and values for the environments `which`, as an Actor does."""
        state, first = self.state[which], self.envs.elapsed[which] == 0
        if self.note is not None:
            self.note(which, first, state)
        state = np.where(first[:, None], np.float32(0), state)
        act, val, self.state[which] = self.step(obs, noise, state)
        return act, val

    # Checkpoints hold the state at the last call of `keep`, because a batch that is interrupted is
    # collected again.

    def keep(self) -> None:
        """Keep a copy of the present state, for `recall` and for checkpoints."""
        self.kept = self.state.copy()

    def recall(self) -> None:
        """Return to the state that was kept last."""
        self.state = self.kept.copy()

    def restart(self) -> None:
        """Clear the state, because all environments begin new episodes."""
        self.state = np.zeros((self.envs.num_envs, self.step.size), np.float32)
        self.keep()

    def env_state(self, i: int) -> dict[str, np.ndarray]:
        return dict(state=self.kept[i])

    def set_env_state(self, i: int, state: Mapping[str, np.ndarray]) -> None:
        self.state[i] = self.kept[i] = state["state"]


Policy = Actor | RecurrentActor


def actor_for(ac: BaseActorCritic, envs: VectorEnv) -> Policy:
    """Return the Actor, or with a memory the RecurrentActor, of an actor-critic."""
    return Actor(ac) if ac.memory is None else RecurrentActor(RecurrentStep(ac.memory), envs)
