"""Train PPO on CartPole in this process, and ask it for an action."""

import gymnasium as gym

from spinup_tf2 import ppo


def make_env():
    return gym.make("CartPole-v1")


if __name__ == "__main__":
    ac = ppo(
        make_env,
        ac_kwargs=dict(hidden_sizes=(32, 32)),
        seed=0,
        epochs=5,
        logger_kwargs=dict(output_dir="data/train/train_s0", exp_name="train"),
    )
    obs, _ = make_env().reset(seed=0)
    print("action:", ac.act(obs, deterministic=True))
