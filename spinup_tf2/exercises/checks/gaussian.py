"""Checks of the log-likelihood of a diagonal Gaussian."""

import math

import numpy as np
import tensorflow as tf

from spinup_tf2.exercises.checking import compare, expect

_RNG = np.random.default_rng(0)
CASES = {
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
        std = math.exp(log_std[j])
        density = math.exp(-((x[i, j] - mu[i, j]) ** 2) / (2 * std**2))
        total[i] += math.log(density / (std * math.sqrt(2 * math.pi)))
    return total


def _terms(x, mu, log_std):
    return -((x - mu) ** 2) / (2 * np.exp(2 * log_std)), -log_std, -0.5 * math.log(2 * math.pi)


def _sum_without(term):
    def mistaken(*args):
        terms = [*_terms(*args)]
        terms[term] = 0 * terms[term]
        return np.sum(sum(terms), axis=-1)

    return mistaken


def _quadratic(quadratic):
    """Return the sum with another quadratic term."""
    return lambda x, mu, log_std: np.sum(
        quadratic(x - mu, log_std) + sum(_terms(x, mu, log_std)[1:]), axis=-1
    )


MISTAKES = {
    "You return a number for each dimension: sum over the dimensions of an action (axis=-1).": (
        lambda *args: sum(_terms(*args))
    ),
    "You sum over the batch as well: sum over the last axis only (axis=-1).": (
        lambda *args: np.sum(sum(_terms(*args)))
    ),
    "You sum over the batch, axis 0: sum over the dimensions of an action (axis=-1).": (
        lambda *args: np.sum(sum(_terms(*args)), axis=0)
    ),
    "You take the mean over the dimensions: log-densities of independent dimensions add up.": (
        lambda *args: np.mean(sum(_terms(*args)), axis=-1)
    ),
    "You forgot -1/2 log(2 pi), which belongs to each dimension.": _sum_without(2),
    "You subtract 1/2 log(2 pi) once: it belongs to each dimension, inside the sum.": (
        lambda *args: np.sum(sum(_terms(*args)[:2]), axis=-1) + _terms(*args)[2]
    ),
    "You subtract log(2 pi) without its factor 1/2.": (
        lambda *args: np.sum(sum(_terms(*args)) + _terms(*args)[2], axis=-1)
    ),
    "You forgot -log sigma: a narrow Gaussian is higher, so that its area stays 1.": _sum_without(
        1
    ),
    "You add log sigma: subtract it.": (
        lambda *args: np.sum(sum(_terms(*args)) - 2 * _terms(*args)[1], axis=-1)
    ),
    "The sign is wrong: this is the negative log-likelihood.": lambda *args: -right(*args),
    "You take log_std for the standard deviation: sigma = exp(log_std).": (
        lambda x, mu, std: np.sum(
            -((x - mu) ** 2) / (2 * std**2) - np.log(std) - 0.5 * math.log(2 * math.pi), axis=-1
        )
    ),
    "You forgot the 1/2 in front of the quadratic term.": _quadratic(
        lambda error, log_std: -(error**2) / np.exp(2 * log_std)
    ),
    "You divide by sigma where it should be sigma squared.": _quadratic(
        lambda error, log_std: -(error**2) / (2 * np.exp(log_std))
    ),
    "You add the quadratic term: the density falls with the distance from the mean.": _quadratic(
        lambda error, log_std: error**2 / (2 * np.exp(2 * log_std))
    ),
    "This is the density itself: its logarithm is asked for.": lambda *args: np.exp(right(*args)),
}


def log_likelihood(student):
    def answer(*args):
        return student.log_likelihood(*map(tf.constant, args))

    compare(answer, CASES, right, MISTAKES)


def gradient(student):
    x, mu, log_std = CASES["5 actions of 3 dimensions"]
    z = (x - mu) / np.exp(log_std)
    right_ones = [z / np.exp(log_std), np.sum(z**2 - 1, axis=0)]
    variables = [tf.Variable(mu), tf.Variable(log_std)]
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(student.log_likelihood(tf.constant(x), *variables))
    found = tape.gradient(total, variables)
    expect(
        all(
            each is not None and np.allclose(each, expected, rtol=1e-4, atol=1e-4)
            for each, expected in zip(found, right_ones, strict=True)
        ),
        "The numbers are right, but not their gradient, from which a policy learns: compute with "
        "TensorFlow's functions alone, of which each knows its derivative.",
    )


CHECKS = [log_likelihood, gradient]
