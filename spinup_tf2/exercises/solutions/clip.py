"""The clipped objective of PPO (Schulman et al. 2017, eq. 7)."""

import tensorflow as tf


def clipped_loss(
    logp: tf.Tensor, logp_old: tf.Tensor, adv: tf.Tensor, clip_ratio: float
) -> tf.Tensor:
    ratio = tf.exp(logp - logp_old)
    clipped = tf.clip_by_value(ratio, 1 - clip_ratio, 1 + clip_ratio)
    return -tf.reduce_mean(tf.minimum(ratio * adv, clipped * adv))
