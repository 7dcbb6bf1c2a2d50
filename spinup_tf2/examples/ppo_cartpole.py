"""PPO in a hundred lines: a cart learns to balance a pole.

    python -m spinup_tf2.examples.ppo_cartpole --steps 100000 --seed 0

Everything that happens is in this file. One network has a body and two heads: the policy head says
which way to push, the value head how long the pole will stand. Read `train` first: it plays 20
steps in a few environments, calls `update`, and does so again.

With seeds 0, 1 and 2 the mean return is 500, the most there is, for the first time after 64,000,
48,000 and 48,000 steps, and stays there.
"""

import argparse

import gymnasium as gym
import keras
import numpy as np
import tensorflow as tf

NUM_ENVS = 8  # carts; their experiences differ, and that makes the gradient's direction reliable
HORIZON = 20  # steps of each between two updates
PASSES = 3  # gradient steps on the same experience; PPO's clipping makes more than one possible

GAMMA = 0.99  # a reward counts half after 69 steps: time to drift off the track, which ends it
LAM = 0.95  # how much an advantage trusts the rewards (1) rather than the value head (0)
CLIP_RATIO = 0.2
LEARNING_RATE = 3e-3  # falls to 0 over the run: large steps first, then no more wobbling
VALUE_COEF = 0.5
ENTROPY_COEF = 0.01
REWARD_SCALE = 0.05  # values up to 1/(1 - GAMMA) = 100 would drown the policy in the shared body


def make_network() -> keras.Model:
    """From observations [batch, 4] to logits of the two pushes, [batch, 2], and values [batch]."""
    obs = keras.Input((4,))
    body = keras.layers.Dense(64, activation="tanh")(obs)
    body = keras.layers.Dense(64, activation="tanh")(body)
    logits = keras.layers.Dense(2)(body)
    val = keras.layers.Reshape(())(keras.layers.Dense(1)(body))  # [batch, 1] would broadcast
    return keras.Model(obs, [logits, val])


def gae(rew, val, next_val, terminated, ended) -> tf.Tensor:
    """Advantages: sums of surprises, of which later ones count less. All [T, n], 1 for yes.

    Nothing follows a fall (terminated). At the time limit the pole still stands: what would have
    followed is worth V(s_{t+1}), though the next row is of another episode in both cases (ended).
    """
    # delta_t = r_t + gamma V(s_{t+1}) - V(s_t)
    delta = rew + GAMMA * (1 - terminated) * next_val - val
    # A_t = delta_t + gamma lambda A_{t+1}
    adv = [delta[-1]]
    for t in reversed(range(len(delta) - 1)):
        adv.append(delta[t] + GAMMA * LAM * (1 - ended[t]) * adv[-1])
    return tf.stack(adv[::-1])


def log_prob(logits: tf.Tensor, act: tf.Tensor) -> tf.Tensor:
    """log pi(a|s) of the pushes taken: [batch, 2] and [batch] to [batch]."""
    return tf.gather(tf.nn.log_softmax(logits), act, batch_dims=1)


def ppo_loss(logits, val, act, logp_old, adv, ret) -> tf.Tensor:
    """-L_clip + VALUE_COEF L_value - ENTROPY_COEF H. `logits` are [batch, 2], the rest [batch]."""
    # L_clip = mean(min(r A, clip(r, 1 - eps, 1 + eps) A)),  r = pi(a|s) / pi_old(a|s)
    ratio = tf.exp(log_prob(logits, act) - logp_old)
    clipped = tf.clip_by_value(ratio, 1 - CLIP_RATIO, 1 + CLIP_RATIO)
    surrogate = tf.reduce_mean(tf.minimum(ratio * adv, clipped * adv))
    # L_value = mean((V(s) - R)^2)
    value_loss = tf.reduce_mean((val - ret) ** 2)
    # H = mean(-sum_a pi(a|s) log pi(a|s)): a policy that is sure too early learns nothing more
    entropy = -tf.reduce_mean(tf.reduce_sum(tf.nn.softmax(logits) * tf.nn.log_softmax(logits), -1))
    return -surrogate + VALUE_COEF * value_loss - ENTROPY_COEF * entropy


def train(steps: int, seed: int) -> list[float]:
    """Train for about `steps` steps; return the episodes' returns, in the order they ended."""
    keras.utils.set_random_seed(seed)  # initial weights and pushes
    envs = [gym.make("CartPole-v1") for _ in range(NUM_ENVS)]
    net = make_network()
    rollouts = max(1, steps // (HORIZON * NUM_ENVS))
    falling = keras.optimizers.schedules.PolynomialDecay(LEARNING_RATE, rollouts * PASSES, 0.0)
    adam = keras.optimizers.Adam(falling)
    adam.build(net.trainable_variables)  # inside a tf.function its variables could not be created

    @tf.function  # compiled at the first call; run line by line, it would take ten times as long
    def choose(obs):  # [n, 4] to [n]
        return tf.random.categorical(net(obs)[0], num_samples=1)[:, 0]

    @tf.function
    def update(obs, act, rew, next_obs, terminated, ended):  # each [T, n, ...]
        flat_obs, flat_act = tf.reshape(obs, [-1, 4]), tf.reshape(act, [-1])
        logits, val = net(flat_obs)
        next_val = net(tf.reshape(next_obs, [-1, 4]))[1]
        val_grid, next_grid = tf.reshape(val, rew.shape), tf.reshape(next_val, rew.shape)
        adv = gae(rew, val_grid, next_grid, terminated, ended)
        adv = tf.reshape(adv, [-1])
        ret = adv + val  # what V(s) should have been
        adv = (adv - tf.reduce_mean(adv)) / (tf.math.reduce_std(adv) + 1e-8)
        logp_old = log_prob(logits, flat_act)  # the network has not changed since it acted
        for _ in range(PASSES):
            with tf.GradientTape() as tape:
                loss = ppo_loss(*net(flat_obs), flat_act, logp_old, adv, ret)
            gradients = tape.gradient(loss, net.trainable_variables)
            adam.apply(gradients, net.trainable_variables)

    returns, running = [], np.zeros(NUM_ENVS)
    obs = np.stack([env.reset(seed=seed * NUM_ENVS + i)[0] for i, env in enumerate(envs)])
    for rollout in range(rollouts):
        rows = []
        for _ in range(HORIZON):
            act = choose(tf.constant(obs)).numpy()
            results = [env.step(a) for env, a in zip(envs, act, strict=True)]
            next_obs, rew, terminated, truncated, _ = map(np.array, zip(*results, strict=True))
            ended = terminated | truncated
            # A row holds where the step led; the next one may start elsewhere, after a reset.
            numbers = [np.float32(x) for x in (REWARD_SCALE * rew, next_obs, terminated, ended)]
            rows.append((obs, act, *numbers))
            running += rew
            obs = next_obs.copy()
            for i in np.flatnonzero(ended):
                returns.append(float(running[i]))
                running[i], obs[i] = 0.0, envs[i].reset()[0]
        update(*(tf.constant(np.stack(column)) for column in zip(*rows, strict=True)))
        if (rollout + 1) % 50 == 0 or rollout + 1 == rollouts:
            done = (rollout + 1) * HORIZON * NUM_ENVS
            print(f"{done:7d} steps   mean of the last 20 returns {np.mean(returns[-20:]):6.1f}")
    return returns


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="PPO on CartPole-v1.")
    parser.add_argument("--steps", type=int, default=100_000, help="of all carts together")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    train(args.steps, args.seed)
