"""Saved policies with a memory, which need to know where an episode begins. No TensorFlow."""

from collections.abc import Callable
from typing import Any

import numpy as np

from spinup_tf2.errors import UserError


class PolicyWithMemory:
    """`policy(obs, state)`: the action, and the state for the next step of the episode.

        state = None                           # an episode begins
        action, state = policy(obs, state)

    Args:
        step: `step(obs, state)`, with a state `[1, size]`, and the next one like it.
        size: How many numbers the state has.
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
    """`get_action(obs)` for the steps of one episode that begins now."""
    if not isinstance(get_action, PolicyWithMemory):
        return get_action
    state = None

    def act(obs):
        nonlocal state
        action, state = get_action(obs, state)
        return action

    return act
