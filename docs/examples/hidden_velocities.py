"""CartPole without its velocities: one observation does not tell where cart and pole are going.

The id is HiddenCartPole-v1, in this module: `--env hidden_velocities:HiddenCartPole-v1`.
"""

import gymnasium as gym
import numpy as np

LIMITS = np.array([2.4, 0.2095], np.float32)  # beyond them an episode ends


class PositionsOnly(gym.ObservationWrapper):
    """Shows the position of the cart and the angle of the pole, both as a share of their limits."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gym.spaces.Box(-2, 2, (2,), np.float32)

    def observation(self, observation):
        return observation[[0, 2]] / LIMITS


gym.register("HiddenCartPole-v1", lambda: PositionsOnly(gym.make("CartPole-v1")))
