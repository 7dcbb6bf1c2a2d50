"""How a quadruped walks: which of its feet are on the ground, and how often. Give its run."""

import sys
from collections import Counter

import gymnasium as gym

import spinup_tf2  # noqa: F401 (registers the environment)
from spinup_tf2.core.runs.saved_policy import load_policy

if __name__ == "__main__":
    get_action = load_policy(f"{sys.argv[1]}/tf2_save", deterministic=True)
    # A step is 2 ms here, as feet come and go within the 50 ms of an action.
    env = gym.make("QuadrupedWalk-v0", straight=True, action_repeat=1, max_episode_steps=5000)
    obs, _ = env.reset(seed=0)
    down = Counter()
    for t in range(5000):
        if t % 25 == 0:
            action = get_action(obs)
        obs, *_ = env.step(action)
        down[tuple(env.unwrapped.feet_on_ground)] += t >= 500  # the first second is a start
    for feet, steps in down.most_common(6):
        names = [name for name, here in zip(("FR", "FL", "RR", "RL"), feet, strict=True) if here]
        print(f"{' '.join(names) or 'none':12}{steps / 4500:4.0%}")
