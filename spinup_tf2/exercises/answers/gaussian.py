"""The log-likelihood of a diagonal Gaussian.

A policy for continuous actions gives the mean mu of a Gaussian, and the logarithm of its standard
deviation sigma in each dimension. Every policy gradient needs the logarithm of its density:

    log N(x; mu, sigma) = sum_i ( -(x_i - mu_i)^2 / (2 sigma_i^2) - log sigma_i - log(2 pi) / 2 )

The sum is over the dimensions of an action. Actions of a batch stay apart.
"""

import numpy as np
import tensorflow as tf

from spinup_tf2.exercises.checking import calls, compare, expect_gradient, tensors


def log_likelihood(x: tf.Tensor, mu: tf.Tensor, log_std: tf.Tensor) -> tf.Tensor:
    """Return log N(x; mu, exp(log_std)), [batch].

    Args:
        x: Actions, [batch, dim].
        mu: Means, [batch, dim].
        log_std: Logarithms of the standard deviations, [dim].
    """
    # answer
    z = (x - mu) / tf.exp(log_std)
    return tf.reduce_sum(-0.5 * z**2 - log_std - 0.5 * np.log(2 * np.pi), axis=-1)


# ---------------------------------------------------------------- checks

_RNG = np.random.default_rng(0)
_CASES = {
    "the mean of a standard normal": tuple(np.zeros(s, np.float32) for s in ((1, 1), (1, 1), 1)),
    "4 actions of 1 dimension": (
        *_RNG.normal(size=(2, 4, 1)).astype(np.float32),
        np.float32([-0.5]),
    ),
    "5 actions of 3 dimensions": (
        *_RNG.normal(size=(2, 5, 3)).astype(np.float32),
        np.float32([-1.0, 0.3, 0.6]),
    ),
}


def right(x, mu, log_std):
    """Compute the density one action, and one of its dimensions, at a time."""
    total = np.zeros(len(x))
    for i, j in np.ndindex(x.shape):
        std = np.exp(log_std[j])
        density = np.exp(-((x[i, j] - mu[i, j]) ** 2) / (2 * std**2))
        total[i] += np.log(density / (std * np.sqrt(2 * np.pi)))
    return total


MISTAKES = {
    "Sum over the dimensions of an action (axis=-1).": (
        "tf.reduce_sum( => (lambda terms, axis: terms)("
    ),
    "Sum over the last axis only (axis=-1).": ", axis=-1 => ",
    "Log-densities of dimensions add up: sum, no mean.": "reduce_sum => reduce_mean",
    "You forgot -1/2 log(2 pi) in each dimension.": " - 0.5 * np.log(2 * np.pi) => ",
    "You forgot -log sigma: a narrow Gaussian is higher.": " - log_std => ",
    "The sign is wrong: this is the negative log-likelihood.": "return tf => return -tf",
    "sigma is exp(log_std).": "tf.exp(log_std) => log_std",
    "You forgot the 1/2 in front of the quadratic term.": "-0.5 * z => -1 * z",
}


def check_log_likelihood(student):
    compare(student, calls("log_likelihood", tensors), _CASES, right, MISTAKES)


def check_gradient(student):
    def answer(module, x, *parameters):
        x, *parameters = tensors((x, *parameters))
        found = expect_gradient(lambda *p: module.log_likelihood(x, *p), *parameters)
        return np.concatenate([np.ravel(each) for each in found])

    def right(x, mu, log_std):
        z = (x - mu) / np.exp(log_std)
        return np.concatenate([np.ravel(z / np.exp(log_std)), np.sum(z**2 - 1, axis=0)])

    compare(student, answer, _CASES, right)
