"""A gymnasium wrapper: one decision, several steps."""

from typing import Any

import gymnasium as gym


class RepeatAction(gym.Wrapper):
    def __init__(self, env: gym.Env, times: int):
        super().__init__(env)
        self.times = times

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        total = 0.0
        for _ in range(self.times):
            obs, rew, terminated, truncated, info = self.env.step(action)
            total += rew
            if terminated or truncated:
                break
        return obs, total, terminated, truncated, info
