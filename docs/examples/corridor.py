"""An environment of your own, registered when this module is imported."""

import gymnasium as gym
from gymnasium import spaces


class Corridor(gym.Env):
    """Walk to the right end of a corridor; each step costs a little."""

    def __init__(self, length=8):
        self.length = length
        self.observation_space = spaces.Discrete(length)
        self.action_space = spaces.Discrete(2)  # 0: left, 1: right

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = int(self.np_random.integers(self.length - 1))
        return self.position, {}

    def step(self, action):
        self.position = max(0, self.position + (1 if action == 1 else -1))
        terminated = self.position == self.length - 1
        return self.position, 1.0 if terminated else -0.1, terminated, False, {}


gym.register("Corridor-v0", entry_point=Corridor, max_episode_steps=50)
