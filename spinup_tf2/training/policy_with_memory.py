"""Saved policies, without and with a memory. Imports no TensorFlow."""

from collections.abc import Callable
from typing import Any

import numpy as np

from spinup_tf2.errors import UserError


class Policy:
    """`policy(obs)` returns an action, and `policy.logp(obs, action)` its log-probability.

    `policy` also takes the observations of a vector environment, `[n, ...]`, and returns n actions.
    """

    def __init__(self, step: Callable[..., Any], logp: Callable[[Any, Any], float]):
        self.step, self.logp = step, logp

    def __call__(self, obs: Any) -> Any:
        return self.step(obs)[0]


class PolicyWithMemory:
    """`policy(obs, state)` returns an action and the state for the next step of the episode.

        state = None                           # an episode begins
        action, state = policy(obs, state)

    `policy.logp(obs, action, state)` is the log-probability of an action.

    Args:
        step: Function `step(obs, state)` that returns the action and the next state; both states
            are `[1, size]`.
        size: Length of the state.
        log_prob: Function `log_prob(obs, action, state)`; None if `logp` is not used.
    """

    def __init__(
        self,
        step: Callable[..., tuple[Any, np.ndarray]],
        size: int,
        log_prob: Callable[..., float] | None = None,
    ):
        self.step, self.size, self.log_prob = step, size, log_prob

    def __call__(self, obs: Any, state: np.ndarray | None = None) -> tuple[Any, np.ndarray]:
        action, next_state = self.step(obs, self._checked(state))
        return action, next_state[0]

    def logp(self, obs: Any, action: Any, state: np.ndarray | None = None) -> float:
        """Return the log-probability of an action of the environment."""
        assert self.log_prob is not None
        return self.log_prob(obs, action, self._checked(state))

    def _checked(self, state):
        if state is None:
            state = np.zeros(self.size, np.float32)
        if np.shape(state) != (self.size,):
            raise UserError(
                f"state has shape {np.shape(state)}, and this policy's is {(self.size,)}; give "
                "what the step before has returned, or None where an episode begins."
            )
        return np.asarray(state, np.float32)[None]


def in_episode(get_action: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return a function `act(obs)` for the steps of one episode, which begins now."""
    if not isinstance(get_action, PolicyWithMemory):
        return get_action
    state = None

    def act(obs):
        nonlocal state
        action, state = get_action(obs, state)
        return action

    return act
