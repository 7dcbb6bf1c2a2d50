"""Acting with a memory: what a policy remembers of the episode of each environment."""

from collections.abc import Callable, Mapping

import numpy as np

from spinup_tf2.core.nets.acting import Actor
from spinup_tf2.core.nets.actor_critic import BaseActorCritic
from spinup_tf2.core.nets.recurrent_acting import RecurrentStep
from spinup_tf2.core.rollout.vector_env import VectorEnv

# note(which, first, state), of a step of the environments `which`: whether it begins an episode
# `[n]`, and what was remembered before it `[n, size]`, there still of the episode before.
Note = Callable[[slice, np.ndarray, np.ndarray], None]


class RecurrentActor:
    """An Actor that remembers the present episode of each environment, and nothing before it.

    Attributes:
        state: What is remembered, `[n, size]`.
        note: Is told of every step, if it is not None.

    Args:
        step: The networks.
        envs: Those that are acted in. They know where episodes begin (`elapsed`).
    """

    def __init__(self, step: RecurrentStep, envs: VectorEnv):
        self.step, self.envs = step, envs
        self.note: Note | None = None
        self.state = self.kept = np.zeros((0, step.size), np.float32)
        self.restart()

    def acting_in(self, envs: VectorEnv) -> "RecurrentActor":
        """The same policy in other environments, whose episodes have not begun."""
        return RecurrentActor(self.step, envs)

    def refresh(self) -> None:
        self.step.refresh()

    def __call__(
        self, obs: np.ndarray, noise: np.ndarray, which: slice = slice(None)
    ) -> tuple[np.ndarray, np.ndarray]:
        """Actions and values for the environments `which`, as an Actor gives them."""
        state, first = self.state[which], self.envs.elapsed[which] == 0
        if self.note is not None:
            self.note(which, first, state)
        state = np.where(first[:, None], np.float32(0), state)
        act, val, self.state[which] = self.step(obs, noise, state)
        return act, val

    # What a checkpoint holds is what was remembered when `keep` was called last: a batch that is
    # broken off is collected again.

    def keep(self) -> None:
        """Keep what is remembered now, for `recall` and for checkpoints."""
        self.kept = self.state.copy()

    def recall(self) -> None:
        """Remember what was kept, and nothing since."""
        self.state = self.kept.copy()

    def restart(self) -> None:
        """All environments begin new episodes."""
        self.state = np.zeros((self.envs.num_envs, self.step.size), np.float32)
        self.keep()

    def env_state(self, i: int) -> dict[str, np.ndarray]:
        return dict(state=self.kept[i])

    def set_env_state(self, i: int, state: Mapping[str, np.ndarray]) -> None:
        self.state[i] = self.kept[i] = state["state"]


Policy = Actor | RecurrentActor


def actor_for(ac: BaseActorCritic, envs: VectorEnv) -> Policy:
    """What acts for an actor-critic in these environments."""
    return Actor(ac) if ac.memory is None else RecurrentActor(RecurrentStep(ac.memory), envs)
