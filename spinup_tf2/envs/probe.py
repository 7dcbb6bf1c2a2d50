"""Environments so small that the solution is known, for tests and for debugging algorithms."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class ProbeReward(gym.Env):
    """Constant observation, reward 1 whatever the action, and episodes that only a time limit ends.

    Because a time limit is not a terminal state, the value of every policy is 1 / (1 - gamma).
    An algorithm that treats the limit as a termination learns a smaller value.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (gymnasium's convention)

    def __init__(self):
        self.observation_space = spaces.Box(-1, 1, shape=(1,), dtype=np.float32)
        self.action_space = spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        return np.zeros(1, np.float32), 1.0, False, False, {}


class ProbeGoal(gym.Env):
    """Corridor of nine cells with a goal at one end; both parts of the Dict observation are needed.

    Observation: `position`, Discrete(9), and `goal`, Box(1), which is -1 or +1 for the left or
    right end of the corridor. Actions: 0 is left, 1 is right. Episodes begin in the middle. Each
    step costs 0.1, except the last, which gives 1 at the goal and -1 at the other end; both ends
    are terminal. The best return is 1 - 0.1 * 3 = 0.7.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (gymnasium's convention)
    length = 9

    def __init__(self):
        self.observation_space = spaces.Dict(
            goal=spaces.Box(-1, 1, shape=(1,), dtype=np.float32),
            position=spaces.Discrete(self.length),
        )
        self.action_space = spaces.Discrete(2)

    def _observation(self):
        return {"goal": np.array([self.goal], np.float32), "position": self.position}

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]:
        super().reset(seed=seed)
        self.position = self.length // 2
        self.goal = float(self.np_random.choice([-1, 1]))
        return self._observation(), {}

    def step(self, action: int) -> tuple[dict, float, bool, bool, dict]:
        self.position += 1 if action == 1 else -1
        at_end = self.position in (0, self.length - 1)
        reward = -0.1
        if at_end:
            right_end = self.position == self.length - 1
            reward = 1.0 if right_end == (self.goal > 0) else -1.0
        return self._observation(), reward, at_end, False, {}
