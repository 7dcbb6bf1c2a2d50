"""PPO on a pendulum that is pushed by a rule in the first half of every second episode."""

import gymnasium as gym
import numpy as np

from spinup_tf2 import ppo


class Pump:
    """Pushes in the direction in which the pendulum swings, which adds energy."""

    def __init__(self, steps):
        self.steps = steps
        self.episode = -1

    def __call__(self, t, obs):
        if t == 0:
            self.episode += 1
        if self.episode % 2 or t >= self.steps:
            return None  # the policy acts
        angular_velocity = obs[2]
        return np.array([2.0 * np.sign(angular_velocity)], np.float32)


if __name__ == "__main__":
    ppo(
        lambda: gym.make("Pendulum-v1"),
        behavior_policy=Pump(steps=100),
        epochs=5,
        logger_kwargs=dict(output_dir="data/demonstrations/demonstrations_s0"),
    )
