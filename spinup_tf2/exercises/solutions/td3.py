"""The targets and losses of TD3 (Fujimoto et al. 2018)."""

import tensorflow as tf


def smoothed_action(
    act: tf.Tensor, noise: tf.Tensor, sigma: float, noise_clip: float, limit: float
) -> tf.Tensor:
    epsilon = tf.clip_by_value(sigma * noise, -noise_clip, noise_clip)
    return tf.clip_by_value(act + epsilon, -limit, limit)


def backup(
    rew: tf.Tensor, terminated: tf.Tensor, next_q1: tf.Tensor, next_q2: tf.Tensor, gamma: float
) -> tf.Tensor:
    next_val = tf.minimum(next_q1, next_q2)
    return tf.stop_gradient(rew + gamma * (1 - terminated) * next_val)


def q_loss(q1: tf.Tensor, q2: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean((q1 - y) ** 2) + tf.reduce_mean((q2 - y) ** 2)


def pi_loss(q1_pi: tf.Tensor) -> tf.Tensor:
    return -tf.reduce_mean(q1_pi)
