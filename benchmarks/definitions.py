"""How much two other definitions change the advantages of 4,000 steps of a trained agent."""

from pathlib import Path

import gymnasium as gym
import keras
import numpy as np

from spinup_tf2.core.trajectories import gae, mixture, normalized
from spinup_tf2.training.saved_policy import load_networks

STEPS = 4000

keras.utils.set_random_seed(0)

ac = load_networks(f"{Path(__file__).parents[1]}/data/ppo_cartpole/ppo_cartpole_s0/tf2_save").ac
env = gym.make("CartPole-v1")
obs, _ = env.reset(seed=0)
seen, led_to, rew, terminated, truncated = [], [], [], [], []
for _ in range(STEPS):
    seen.append(obs)
    obs, *answer = env.step(ac.act(obs))
    led_to.append(obs)
    for kept, x in zip((rew, terminated, truncated), answer, strict=False):
        kept.append([x])
    if terminated[-1][0] or truncated[-1][0]:
        obs, _ = env.reset()
truncated[-1] = [not terminated[-1][0]]  # the epoch ends
val, next_val = (np.array(ac.v(np.array(x)))[:, None] for x in (seen, led_to))
rew, terminated, truncated = map(np.array, (rew, terminated, truncated))


def advantages(lam, last_val=1.0):
    """`last_val` 0: the future is worth nothing where an episode is cut off."""
    future = np.where(truncated, last_val * next_val, next_val)
    return gae(rew, val, future, terminated, truncated, 0.99, lam)[0]


def compare(name, ours, theirs):
    change = abs(theirs - ours)
    print(f"{name}: by {change.mean():.2f} on average, at most {change.max():.2f}")


compare("last_val 0", normalized(advantages(0.97)), normalized(advantages(0.97, last_val=0.0)))
ours = mixture([advantages(0.97), advantages(0.93)], (0.5, 0.5))
compare("normalized again", ours, normalized(ours))
