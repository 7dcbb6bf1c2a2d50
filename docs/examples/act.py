"""Ask a saved policy for an action; give its tf2_save."""

import sys

import gymnasium as gym
from spinup_tf2.training.saved_policy import load_policy

if __name__ == "__main__":
    get_action = load_policy(sys.argv[1], deterministic=False, seed=0)
    obs, _ = gym.make("CartPole-v1").reset(seed=0)
    print("action:", get_action(obs))
