"""PPO with continuous actions, in one file: a pendulum learns to swing up and stand.

    python -m spinup_tf2.examples.ppo_pendulum --steps 200000 --seed 0

Everything that happens is in this file. Two networks: the actor gives the mean of a Gaussian from
which the torque is drawn, the critic guesses what is still to come. Read `train` first: it plays a
few whole episodes, adds up what followed each action, and calls `update`.

With seeds 0, 1 and 2 the mean return rises above -400 after 64,000, 80,000 and 80,000 steps, and is
-202, -180 and -179 at the end.
"""

import argparse

import gymnasium as gym
import keras
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

NUM_ENVS = 8  # pendulums that are played at the same time
EPISODE = 200  # steps; Pendulum-v1 has no other end than this time limit
MAX_TORQUE = 2.0  # what the environment can apply, in either direction
VARIANCE = 0.5  # of the policy, fixed: it explores forever, and cannot stop too early

GAMMA = 0.9  # a pendulum forgets quickly: 10 steps, half a second, are enough foresight
REWARD_SCALE = 0.1  # rewards are 0 to -16; scaled, the returns are of the order of 10, not 100
CLIP_RATIO = 0.2
PASSES = 20  # gradient steps of each network on a batch
ACTOR_LR = 1e-3
CRITIC_LR = 3e-3


def make_network() -> keras.Model:
    """From observations [batch, 3] (cosine, sine, angular velocity) to one number, [batch, 1]."""
    return keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(64, activation="tanh"),
            keras.layers.Dense(64, activation="tanh"),
            keras.layers.Dense(1),
        ]
    )


def gaussian(mean: tf.Tensor) -> tfp.distributions.Distribution:
    """pi(a|s) = N(mean(s), VARIANCE): the covariance is a constant, only the mean is learned."""
    return tfp.distributions.MultivariateNormalDiag(loc=mean, scale_diag=[VARIANCE**0.5])


def rewards_to_go(rew: np.ndarray, last_val: np.ndarray, gamma: float) -> np.ndarray:
    """G_t = r_t + gamma G_{t+1} for rewards [T, n]; after the last step, G_T = last_val [n].

    The episodes were stopped by a clock that the agent does not see. The pendulum would have swung
    on, so what follows is worth the critic's guess, not 0.
    """
    ret = np.zeros_like(rew)
    future = last_val
    for t in reversed(range(len(rew))):
        future = rew[t] + gamma * future
        ret[t] = future
    return ret


def actor_loss(logp: tf.Tensor, logp_old: tf.Tensor, adv: tf.Tensor) -> tf.Tensor:
    """-mean(min(r A, clip(r, 1 - eps, 1 + eps) A)) with r = pi(a|s) / pi_old(a|s). All [batch]."""
    ratio = tf.exp(logp - logp_old)
    clipped = tf.clip_by_value(ratio, 1 - CLIP_RATIO, 1 + CLIP_RATIO)
    return -tf.reduce_mean(tf.minimum(ratio * adv, clipped * adv))


def critic_loss(val: tf.Tensor, ret: tf.Tensor) -> tf.Tensor:
    """mean((V(s) - G)^2). Both [batch]; were one [batch, 1], this would be [batch, batch]."""
    return tf.reduce_mean((val - ret) ** 2)


def train(steps: int, seed: int) -> list[float]:
    """Train for about `steps` steps; return the episodes' returns, in the order of play."""
    keras.utils.set_random_seed(seed)  # initial weights and torques
    envs = gym.make_vec("Pendulum-v1", num_envs=NUM_ENVS, vectorization_mode="sync")
    actor, critic = make_network(), make_network()
    actor_adam, critic_adam = keras.optimizers.Adam(ACTOR_LR), keras.optimizers.Adam(CRITIC_LR)
    actor_adam.build(actor.trainable_variables)  # inside a tf.function they could not be created
    critic_adam.build(critic.trainable_variables)

    @tf.function  # compiled at the first call; run line by line, it would take ten times as long
    def act(obs):
        return gaussian(actor(obs)).sample()  # [n, 3] to [n, 1]

    @tf.function
    def update(obs, act, ret):  # [batch, 3], [batch, 1], [batch]
        # Better or worse than expected? A = G - V(s), of the critic that has not seen the batch
        # yet. With mean 0 and deviation 1 the size of a step does not depend on the rewards'.
        adv = ret - critic(obs)[:, 0]
        adv = (adv - tf.reduce_mean(adv)) / (tf.math.reduce_std(adv) + 1e-8)
        logp_old = gaussian(actor(obs)).log_prob(act)  # the actor has not changed since it acted
        for _ in tf.range(PASSES):
            with tf.GradientTape() as tape:
                loss = actor_loss(gaussian(actor(obs)).log_prob(act), logp_old, adv)
            gradients = tape.gradient(loss, actor.trainable_variables)
            actor_adam.apply(gradients, actor.trainable_variables)
            with tf.GradientTape() as tape:
                loss = critic_loss(critic(obs)[:, 0], ret)
            gradients = tape.gradient(loss, critic.trainable_variables)
            critic_adam.apply(gradients, critic.trainable_variables)

    returns = []
    obs_batch = np.zeros((EPISODE, NUM_ENVS, 3), np.float32)
    act_batch = np.zeros((EPISODE, NUM_ENVS, 1), np.float32)
    rew_batch = np.zeros((EPISODE, NUM_ENVS), np.float32)
    batches = max(1, steps // (EPISODE * NUM_ENVS))
    for batch in range(batches):
        obs, _ = envs.reset(seed=seed if batch == 0 else None)  # later episodes start elsewhere
        for t in range(EPISODE):
            obs_batch[t] = obs
            act_batch[t] = act(tf.constant(obs)).numpy()
            # A Gaussian has no bounds, the motor has. The batch keeps the torque that was drawn:
            # its density is what log_prob gives. That of the clipped one is not a Gaussian's.
            torque = np.clip(act_batch[t], -MAX_TORQUE, MAX_TORQUE)
            obs, rew_batch[t], _, _, _ = envs.step(torque)
        returns.extend(rew_batch.sum(axis=0).tolist())

        last_val = critic(obs).numpy()[:, 0]
        ret = rewards_to_go(REWARD_SCALE * rew_batch, last_val, GAMMA)
        # Time and pendulums become one axis: the losses do not care which step came when.
        arrays = obs_batch.reshape(-1, 3), act_batch.reshape(-1, 1), ret.reshape(-1)
        update(*(tf.constant(array) for array in arrays))
        if (batch + 1) % 10 == 0 or batch + 1 == batches:
            done = (batch + 1) * EPISODE * NUM_ENVS
            print(f"{done:7d} steps   mean of the last 20 returns {np.mean(returns[-20:]):8.1f}")
    envs.close()
    return returns


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="PPO on Pendulum-v1.")
    parser.add_argument("--steps", type=int, default=200_000, help="of all pendulums together")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    train(args.steps, args.seed)
