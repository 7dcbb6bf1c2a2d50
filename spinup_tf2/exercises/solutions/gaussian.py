"""The log-likelihood of a diagonal Gaussian."""

import numpy as np
import tensorflow as tf


def log_likelihood(x: tf.Tensor, mu: tf.Tensor, log_std: tf.Tensor) -> tf.Tensor:
    z = (x - mu) / tf.exp(log_std)
    return tf.reduce_sum(-0.5 * z**2 - log_std - 0.5 * np.log(2 * np.pi), axis=-1)
