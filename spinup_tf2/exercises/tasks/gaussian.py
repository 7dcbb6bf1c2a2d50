"""The log-likelihood of a diagonal Gaussian.

A policy for continuous actions gives the mean mu of a Gaussian, and the logarithm of its standard
deviation sigma in each dimension. Every policy gradient needs the logarithm of its density:

    log N(x; mu, sigma) = sum_i ( -(x_i - mu_i)^2 / (2 sigma_i^2) - log sigma_i - log(2 pi) / 2 )

The sum is over the dimensions of an action. Actions of a batch stay apart.
"""

import tensorflow as tf


def log_likelihood(x: tf.Tensor, mu: tf.Tensor, log_std: tf.Tensor) -> tf.Tensor:
    """Return log N(x; mu, exp(log_std)), [batch].

    Args:
        x: Actions, [batch, dim].
        mu: Means, [batch, dim].
        log_std: Logarithms of the standard deviations, [dim].
    """
    raise NotImplementedError
