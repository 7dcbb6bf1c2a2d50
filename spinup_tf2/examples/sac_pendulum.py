"""SAC in one file: a pendulum learns to swing up and stand, from few steps.

    python -m spinup_tf2.examples.sac_pendulum --steps 8000 --seed 0

Read `train` first. Arguments and results of functions are [batch], unless noted otherwise.

With seeds 0, 1 and 2 the mean return rises above -400 after 5,000, 4,000 and 5,000 steps, and is
-99, -145 and -126 at the end.
"""

import argparse

import gymnasium as gym
import keras
import numpy as np
import tensorflow as tf

MAX_TORQUE = 2.0  # the policy's actions lie in (-1, 1), and are scaled to this
TARGET_ENTROPY = -1.0  # minus the number of the action's dimensions
RANDOM_STEPS, BATCH = 1000, 128  # random actions at first; then a batch for each step
GAMMA, POLYAK, LEARNING_RATE = 0.99, 0.995, 1e-3


def make_network(inputs: int, outputs: int) -> keras.Model:
    hidden = [keras.layers.Dense(64, activation="relu") for _ in range(2)]
    return keras.Sequential([keras.Input((inputs,)), *hidden, keras.layers.Dense(outputs)])


def sample(output, noise) -> tuple[tf.Tensor, tf.Tensor]:
    """a = tanh(u), u ~ N(mu, sigma), [batch, 1]; and log pi(a|s) = log N(u) - log(1 - a^2)."""
    mu, log_std = tf.split(output, 2, axis=-1)  # of the policy's output, [batch, 2]
    log_std = tf.clip_by_value(log_std, -20.0, 2.0)
    u = mu + tf.exp(log_std) * noise  # noise: standard normal, [batch, 1]
    gaussian = -0.5 * (noise**2 + np.log(2 * np.pi)) - log_std  # log N(u)
    squeezed = 2 * (np.log(2) - u - tf.nn.softplus(-2 * u))  # log(1 - tanh(u)^2), at any u
    return tf.tanh(u), tf.reduce_sum(gaussian - squeezed, axis=-1)


def backup(rew, terminated, next_q1, next_q2, next_logp, alpha) -> tf.Tensor:
    """y = r + gamma (1 - terminated) (min(Q1, Q2)(s', a') - alpha log pi(a'|s'))."""
    next_val = tf.minimum(next_q1, next_q2) - alpha * next_logp
    return tf.stop_gradient(rew + GAMMA * (1 - terminated) * next_val)


def q_loss(q1, q2, y) -> tf.Tensor:
    """mean((Q1(s, a) - y)^2) + mean((Q2(s, a) - y)^2)."""
    return tf.reduce_mean((q1 - y) ** 2) + tf.reduce_mean((q2 - y) ** 2)


def policy_loss(q1, q2, logp, alpha) -> tf.Tensor:
    """mean(alpha log pi(a|s) - min(Q1, Q2)(s, a)), for actions of the policy."""
    return tf.reduce_mean(alpha * logp - tf.minimum(q1, q2))


def temperature_loss(log_alpha, logp) -> tf.Tensor:
    """-log(alpha) mean(log pi(a|s) + TARGET_ENTROPY): alpha rises while the entropy is too low."""
    return -log_alpha * tf.stop_gradient(tf.reduce_mean(logp) + TARGET_ENTROPY)


def train(steps: int, seed: int) -> list[float]:
    """Train for `steps` steps; return the returns of the episodes that have ended."""
    keras.utils.set_random_seed(seed)  # initial weights and noise
    env, rng = gym.make("Pendulum-v1"), np.random.default_rng(seed)  # first actions and batches
    policy, q1, q2, target1, target2 = (make_network(*size) for size in [(3, 2)] + 4 * [(4, 1)])
    target1.set_weights(q1.get_weights())
    target2.set_weights(q2.get_weights())
    log_alpha = keras.Variable(0.0)
    q_variables = q1.trainable_variables + q2.trainable_variables
    pi_variables = [*policy.trainable_variables, log_alpha]
    q_adam, pi_adam = (keras.optimizers.Adam(LEARNING_RATE) for _ in range(2))
    q_adam.build(q_variables)  # inside a tf.function its variables could not be created
    pi_adam.build(pi_variables)

    def q(network, obs, act):  # [batch, 1] would broadcast against [batch]
        return network(tf.concat([obs, act], axis=-1))[:, 0]

    choose = tf.function(lambda obs, noise: sample(policy(obs), noise)[0])

    @tf.function  # compiled at the first call; run line by line, it would take ten times as long
    def update(obs, act, rew, next_obs, terminated, noise, next_noise):
        alpha = tf.exp(log_alpha)
        next_act, next_logp = sample(policy(next_obs), next_noise)
        next_q1, next_q2 = q(target1, next_obs, next_act), q(target2, next_obs, next_act)
        y = backup(rew, terminated, next_q1, next_q2, next_logp, alpha)
        with tf.GradientTape() as tape:
            loss = q_loss(q(q1, obs, act), q(q2, obs, act), y)
        q_adam.apply(tape.gradient(loss, q_variables), q_variables)
        with tf.GradientTape() as tape:  # alpha is outside of it, and so a constant
            new_act, logp = sample(policy(obs), noise)
            loss = policy_loss(q(q1, obs, new_act), q(q2, obs, new_act), logp, alpha)
            loss += temperature_loss(log_alpha, logp)
        pi_adam.apply(tape.gradient(loss, pi_variables), pi_variables)
        for slow, fast in zip(target1.variables + target2.variables, q_variables, strict=True):
            slow.assign(POLYAK * slow + (1 - POLYAK) * fast)

    obs, returns, running = env.reset(seed=seed)[0], [], 0.0
    columns = [np.zeros((steps, *shape), np.float32) for shape in ((3,), (1,), (), (3,), ())]
    for step in range(steps):
        if step < RANDOM_STEPS:
            act = rng.uniform(-1, 1, 1).astype(np.float32)
        else:
            act = choose(obs[None], tf.random.normal([1, 1])).numpy()[0]
        next_obs, rew, terminated, truncated, _ = env.step(MAX_TORQUE * act)
        # That the clock ends an episode (truncated) is not stored: the pendulum would swing on.
        for column, value in zip(columns, (obs, act, rew, next_obs, terminated), strict=True):
            column[step] = value
        obs, running = next_obs, running + float(rew)
        if terminated or truncated:
            returns.append(running)
            obs, running = env.reset()[0], 0.0
        if step >= RANDOM_STEPS:
            rows = rng.integers(step + 1, size=BATCH)
            update(*(column[rows] for column in columns), *tf.random.normal([2, BATCH, 1]))
        if (step + 1) % 1000 == 0:
            print(f"{step + 1:6d} steps   mean of the last 5 returns {np.mean(returns[-5:]):8.1f}")
    return returns


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="SAC on Pendulum-v1.")
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--seed", type=int, default=0)
    train(**vars(parser.parse_args()))
