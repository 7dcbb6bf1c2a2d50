"""Saved policies with a memory, which is passed from step to step. Imports no TensorFlow."""

from collections.abc import Callable
from typing import Any

import numpy as np

from spinup_tf2.errors import UserError


class PolicyWithMemory:
    """`policy(obs, state)` returns an action and the state for the next step of the episode.

        state = None                           # an episode begins
        action, state = policy(obs, state)

    Args:
        step: Function `step(obs, state)` that returns the action and the next state; both states
            are `[1, size]`.
        size: Length of the state.
    """

    def __init__(self, step: Callable[..., tuple[Any, np.ndarray]], size: int):
        self.step, self.size = step, size

    def __call__(self, obs: Any, state: np.ndarray | None = None) -> tuple[Any, np.ndarray]:
        if state is None:
            state = np.zeros(self.size, np.float32)
        if np.shape(state) != (self.size,):
            raise UserError(
                f"state has shape {np.shape(state)}, and this policy's is {(self.size,)}; give "
                "what the step before has returned, or None where an episode begins."
            )
        action, next_state = self.step(obs, np.asarray(state, np.float32)[None])
        return action, next_state[0]


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
