"""PPO with the networks of wide_networks.py."""

import gymnasium as gym
from wide_networks import WideActorCritic

from spinup_tf2 import ppo

if __name__ == "__main__":
    ppo(
        lambda: gym.make("CartPole-v1"),
        actor_critic=WideActorCritic,
        ac_kwargs=dict(width=64),
        epochs=2,
        logger_kwargs=dict(output_dir="data/wide/wide_s0", exp_name="wide"),
    )
