"""Train for so many epochs in all, going on from where an earlier start of this script stopped."""

import sys

import gymnasium as gym

from spinup_tf2 import ppo
from spinup_tf2.errors import Interrupted


def make_env():
    return gym.wrappers.TransformReward(gym.make("CartPole-v1"), lambda rew: rew / 10)


if __name__ == "__main__":
    try:
        ppo(
            make_env,
            epochs=int(sys.argv[1]),
            resume=True,
            logger_kwargs=dict(output_dir="data/resume/resume_s0", exp_name="resume"),
        )
    except Interrupted as stop:
        sys.exit(stop.status)
