"""Train in an environment that cannot be described in a file, and build it again."""

import gymnasium as gym
from gymnasium.wrappers import TransformReward

from spinup_tf2 import ppo
from spinup_tf2.utils.test_policy import load_policy_and_env, run_policy


def make_env():
    return TransformReward(gym.make("CartPole-v1"), lambda rew: rew / 2)


if __name__ == "__main__":
    run_dir = "data/own_function/own_function_s0"
    logger_kwargs = dict(output_dir=run_dir, exp_name="own_function")
    ppo(make_env, epochs=2, logger_kwargs=logger_kwargs)

    env, get_action = load_policy_and_env(run_dir)  # prints why env is None
    run_policy(env or make_env(), get_action, num_episodes=3, render=False)
