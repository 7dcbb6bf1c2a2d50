"""CartPole without its velocities: one observation does not tell where cart and pole are going.

The id is HiddenCartPole-v1, in this module: `--env hidden_velocities:HiddenCartPole-v1`.
"""

import gymnasium as gym
import numpy as np


class PositionsOnly(gym.ObservationWrapper):
    """Of the position and velocity of the cart, and the angle and angular velocity of the pole,
    only the position and the angle.
    """

    def __init__(self, env):
        super().__init__(env)
        low, high = self.observation(env.observation_space.low), env.observation_space.high
        self.observation_space = gym.spaces.Box(low, self.observation(high), dtype=np.float32)

    def observation(self, observation):
        return observation[[0, 2]]


gym.register(
    "HiddenCartPole-v1",
    lambda **kwargs: PositionsOnly(gym.make("CartPole-v1", **kwargs)),
)
