"""A gymnasium wrapper: one decision, several steps.

At 60 frames per second, an agent need not decide in each frame. The wrapper takes an action, passes
it to the environment `times` times, and returns the overall result:

- the observation and the info after the last of these steps,
- the sum of their rewards,
- terminated and truncated as the last of these steps returned them.

If a step ends the episode, no further step follows: an environment is never stepped after its end.
"""

from typing import Any

import gymnasium as gym


class RepeatAction(gym.Wrapper):
    """Takes every action `times` times.

    Args:
        env: The environment.
        times: Number of steps that an action lasts, at least 1.
    """

    def __init__(self, env: gym.Env, times: int):
        super().__init__(env)
        self.times = times

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        """Return observation, sum of rewards, terminated, truncated and info."""
        raise NotImplementedError
