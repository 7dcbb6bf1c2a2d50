"""The temperature loss of SAC (Haarnoja et al. 2018b)."""

import tensorflow as tf


def temperature_loss(log_alpha: tf.Tensor, logp: tf.Tensor, target_entropy: float) -> tf.Tensor:
    return -log_alpha * tf.stop_gradient(tf.reduce_mean(logp) + target_entropy)
