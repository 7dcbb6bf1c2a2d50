"""PPO on the quadruped, to which a trot is shown in every second episode of its first epochs."""

import gymnasium as gym

from spinup_tf2 import ppo
from spinup_tf2.experiments.presets import load
from spinup_tf2.utils.run_utils import EnvFn


class Trot:
    """Every second episode is a demonstration, until so many steps have been shown."""

    def __init__(self, steps):
        self.robot = gym.make("QuadrupedWalk-v0").unwrapped  # one to ask, which is never stepped
        self.robot.reset()
        self.steps, self.shown, self.episode = steps, 0, -1

    def __call__(self, t, obs):
        self.episode += t == 0
        if self.episode % 2 or self.shown >= self.steps:
            return None  # the policy acts
        self.shown += 1
        return self.robot.target_policy(t * self.robot.dt)


if __name__ == "__main__":
    preset = load("ppo", "quadruped-walk")
    ppo(
        EnvFn(preset.env, preset.env_kwargs),
        **preset.settings | dict(epochs=2, num_test_episodes=0),
        behavior_policy=Trot(steps=4000),
        logger_kwargs=dict(output_dir="data/quadruped_trot/quadruped_trot_s0"),
    )
