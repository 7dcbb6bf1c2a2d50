"""Distributions against closed forms in NumPy and SciPy, which know nothing of them."""

import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp

from spinup_tf2.core.nets.distributions import (
    categorical,
    categoricals,
    gaussian,
    mode,
    rows,
    sample,
    sample_and_log_prob,
    squashed_gaussian,
)
from spinup_tf2.errors import UserError

tfd, tfb = tfp.distributions, tfp.bijectors

BATCH, DIM = 7, 3
RNG = np.random.default_rng(0)
MEAN, OTHER_MEAN, NOISE, ACT = RNG.normal(size=(4, BATCH, DIM)).astype(np.float32)
STD, OTHER_STD = RNG.uniform(0.3, 2, (2, BATCH, DIM)).astype(np.float32)
ONE_STD = STD[0]  # the same in all states
LOGITS, OTHER_LOGITS = RNG.normal(size=(2, BATCH, 5), scale=2).astype(np.float32)
NEVER = -1e9  # what pads the logits of actions with fewer values than others
SEVERAL, OTHER_SEVERAL = RNG.normal(size=(2, BATCH, 3, 4), scale=2).astype(np.float32)
for each in (SEVERAL, OTHER_SEVERAL):
    each[:, 1, 2:] = NEVER
CHOICE = RNG.integers(5, size=BATCH)
CHOICES = RNG.integers([4, 2, 4], size=(BATCH, 3))
BITS = RNG.integers(2, size=(BATCH, DIM))


# ------------------------------------------------------------------------ the closed forms


def gaussian_log_prob(act, mean, std):
    return scipy.stats.norm.logpdf(act, mean, std).sum(-1)


def gaussian_entropy(std):
    return np.sum(0.5 * np.log(2 * np.pi * np.e * np.square(std, dtype=np.float64)), axis=-1)


def gaussian_kl(mean, std, other_mean, other_std):
    """sum log(s2 / s1) + (s1^2 + (m1 - m2)^2) / (2 s2^2) - 1/2"""
    scaled = (std**2 + (mean - other_mean) ** 2) / (2 * other_std**2)
    return np.sum(np.log(other_std / std) + scaled - 0.5, axis=-1)


def log_softmax(logits):
    return scipy.special.log_softmax(logits.astype(np.float64), axis=-1)


def discrete_log_prob(logits, act):
    return np.take_along_axis(log_softmax(logits), act[..., None], axis=-1)[..., 0]


def discrete_entropy(logits):
    return scipy.special.entr(np.exp(log_softmax(logits))).sum(-1)


def discrete_kl(logits, other):
    p, q = (np.exp(log_softmax(each)) for each in (logits, other))
    return scipy.special.rel_entr(p, q).sum(-1)


def bernoulli_logits(logits):
    """A Bernoulli distribution is a choice between two values."""
    return np.stack([np.zeros_like(logits), logits], axis=-1)


def squashed_log_prob(u, mean, std):
    """log N(u) - sum log(1 - tanh(u)^2), where tanh is far from 1."""
    u, mean, std = (np.float64(each) for each in (u, mean, std))
    return np.sum(scipy.stats.norm.logpdf(u, mean, std) - np.log(1 - np.tanh(u) ** 2), axis=-1)


def bernoulli(logits):
    return tfd.Independent(tfd.Bernoulli(logits=logits), 1)


def normal(mean, std):
    return tfd.Independent(tfd.Normal(mean, std), 1)


OF_GAUSSIAN = (
    ACT,
    gaussian_log_prob(ACT, MEAN, STD),
    gaussian_entropy(STD),
    gaussian_kl(MEAN, STD, OTHER_MEAN, OTHER_STD),
)
# (distribution, another of its kind, an action, and what is expected of them)
CASES = {
    "gaussian": (gaussian(MEAN, STD), gaussian(OTHER_MEAN, OTHER_STD), *OF_GAUSSIAN),
    "gaussian, one std": (
        gaussian(MEAN, ONE_STD),
        gaussian(OTHER_MEAN, OTHER_STD[0]),
        ACT,
        gaussian_log_prob(ACT, MEAN, ONE_STD),
        gaussian_entropy(ONE_STD),
        gaussian_kl(MEAN, ONE_STD, OTHER_MEAN, OTHER_STD[0]),
    ),
    "normal": (normal(MEAN, STD), normal(OTHER_MEAN, OTHER_STD), *OF_GAUSSIAN),
    "categorical": (
        categorical(LOGITS),
        categorical(OTHER_LOGITS),
        CHOICE,
        discrete_log_prob(LOGITS, CHOICE),
        discrete_entropy(LOGITS),
        discrete_kl(LOGITS, OTHER_LOGITS),
    ),
    "categoricals": (
        categoricals(SEVERAL),
        categoricals(OTHER_SEVERAL),
        CHOICES,
        discrete_log_prob(SEVERAL, CHOICES).sum(-1),
        discrete_entropy(SEVERAL).sum(-1),
        discrete_kl(SEVERAL, OTHER_SEVERAL).sum(-1),
    ),
    "bernoulli": (
        bernoulli(MEAN),
        bernoulli(OTHER_MEAN),
        BITS,
        discrete_log_prob(bernoulli_logits(MEAN), BITS).sum(-1),
        discrete_entropy(bernoulli_logits(MEAN)).sum(-1),
        discrete_kl(bernoulli_logits(MEAN), bernoulli_logits(OTHER_MEAN)).sum(-1),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_log_prob_entropy_and_divergence(case):
    distribution, other, act, log_prob, entropy, divergence = case
    close = dict(rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(distribution.log_prob(act), log_prob, **close)
    found = np.broadcast_to(distribution.entropy(), BATCH)  # of one std it is one number
    np.testing.assert_allclose(found, np.broadcast_to(entropy, BATCH), **close)
    np.testing.assert_allclose(distribution.kl_divergence(other), divergence, **close)
    assert distribution.log_prob(act).shape == divergence.shape == (BATCH,)


def test_gradients_of_padded_choices_are_numbers():
    logits = tf.constant(SEVERAL)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(logits)
        distribution = categoricals(logits)
        values = (
            distribution.log_prob(CHOICES),
            distribution.entropy(),
            categoricals(OTHER_SEVERAL).kl_divergence(distribution),
        )
    for value in values:
        gradient = tape.gradient(value, logits).numpy()
        assert np.isfinite(gradient).all()
        assert gradient.any()
        np.testing.assert_array_equal(gradient[:, 1, 2:], 0)


def test_log_prob_of_a_squashed_gaussian():
    """As a function of the action, and with the sample that it belongs to."""
    distribution = squashed_gaussian(0.5 * MEAN, 0.5 * STD)
    u = 0.5 * (MEAN + STD * NOISE)
    expected = squashed_log_prob(u, 0.5 * MEAN, 0.5 * STD)
    np.testing.assert_allclose(distribution.log_prob(np.tanh(u)), expected, rtol=1e-3, atol=1e-3)
    act, logp = sample_and_log_prob(distribution, NOISE)
    np.testing.assert_allclose(act, np.tanh(u), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(logp, expected, rtol=1e-4, atol=1e-4)


def test_log_prob_of_what_rounds_to_1_is_that_of_the_nearest_action_that_does_not():
    largest = 1 - 2.0**-24
    distribution = squashed_gaussian(tf.constant([[9.5], [-9.5]]), tf.constant([[0.5], [0.5]]))
    expected = scipy.stats.norm.logpdf(np.arctanh(largest), 9.5, 0.5) - np.log(1 - largest**2)
    for one in (1.0, largest):
        logp = distribution.log_prob(tf.constant([[one], [-one]]))
        np.testing.assert_allclose(logp, [expected, expected], rtol=1e-4)


# ---------------------------------------------------------------------------------- samples

LOWER = np.array([[1.0, 0.0], [2.0, 3.0]], np.float32)


@pytest.mark.parametrize(
    ("distribution", "noise", "expected"),
    [
        (gaussian(MEAN, STD), NOISE, MEAN + STD * NOISE),
        (gaussian(MEAN, ONE_STD), NOISE, MEAN + ONE_STD * NOISE),
        (squashed_gaussian(MEAN, STD), NOISE, np.tanh(MEAN + STD * NOISE)),
        (categorical(LOGITS), OTHER_LOGITS, (LOGITS + OTHER_LOGITS).argmax(-1)),
        (categoricals(SEVERAL), 100 * SEVERAL[::-1], None),
        (tfd.Normal(MEAN, STD), NOISE, MEAN + STD * NOISE),
        (normal(MEAN, STD), NOISE, MEAN + STD * NOISE),
        # scale @ noise = [[1, 0], [2, 3]] @ [1, 1] = [1, 5]
        (tfd.MultivariateNormalTriL([0.0, 0.0], LOWER), np.ones(2), [1.0, 5.0]),
        (tfd.Bernoulli(logits=[0.5, 0.5]), [[1.0, 0.4], [1.0, 0.6]], [0, 1]),
        (tfd.TransformedDistribution(tfd.Normal([0.0], [1.0]), tfb.Exp()), [0.5], np.exp([0.5])),
        (tf.constant(MEAN), NOISE, MEAN),  # of a deterministic policy
    ],
    ids=[
        *("gaussian", "one std", "squashed", "categorical", "categoricals", "normal"),
        *("independent", "lower", "bernoulli", "exp", "tensor"),
    ],
)
def test_samples_are_functions_of_noise(distribution, noise, expected):
    noise = np.float32(noise)
    if expected is None:  # what pads logits is never picked
        expected = (SEVERAL + noise).argmax(-1)
        assert expected[:, 1].max() == 1
    for function in (sample, tf.function(sample)):
        np.testing.assert_allclose(function(distribution, noise), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("distribution", "noise_shape", "expected"),
    [
        (gaussian(MEAN, STD), (DIM,), MEAN),
        (squashed_gaussian(MEAN, STD), (DIM,), np.tanh(MEAN)),
        (categorical(LOGITS), (5,), LOGITS.argmax(-1)),
        (categoricals(SEVERAL), (3, 4), SEVERAL.argmax(-1)),
        (bernoulli(MEAN), (DIM, 2), MEAN > 0),
        (normal(MEAN, STD), (DIM,), MEAN),
        (tfd.TransformedDistribution(normal(MEAN, STD), tfb.Tanh()), (DIM,), np.tanh(MEAN)),
        (tf.constant(MEAN), (DIM,), MEAN),
    ],
    ids=[
        *("gaussian", "squashed", "categorical", "categoricals"),
        *("bernoulli", "normal", "tanh of independent", "tensor"),
    ],
)
def test_the_mode_is_what_no_noise_picks(distribution, noise_shape, expected):
    np.testing.assert_allclose(mode(distribution), expected, rtol=1e-5, atol=1e-6)
    act = sample(distribution, np.zeros((BATCH, *noise_shape), np.float32))
    np.testing.assert_allclose(act, expected, rtol=1e-5, atol=1e-6)


def test_a_distribution_that_cannot_be_sampled_is_refused_by_name():
    with pytest.raises(UserError, match="Beta"):
        sample(tfd.Beta(1.0, 1.0), np.zeros(1, np.float32))


# ------------------------------------------------------------------------------ taken apart


MEANS = tf.constant(np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32))


@pytest.mark.parametrize(
    "make_distribution",
    [
        lambda x: tfd.MultivariateNormalDiag(x, scale_diag=tf.constant([0.5, 2.0])),
        lambda x: tfd.MultivariateNormalDiag(x, scale_diag=tf.constant([[0.5, 2.0]])),
        lambda x: tfd.MultivariateNormalDiag(x, scale_diag=tf.exp(x)),
        lambda x: tfd.Categorical(logits=x),
        lambda x: tfd.Independent(tfd.Categorical(logits=tf.stack([x, -x, 2 * x], 1)), 1),
        lambda x: tfd.Independent(tfd.Normal(x, tf.constant([0.5, 2.0])), 1),
        lambda x: tfd.Independent(tfd.Bernoulli(logits=x), 1),
        lambda x: tfd.TransformedDistribution(
            tfd.MultivariateNormalDiag(x, scale_diag=tf.ones(2)), tfb.Tanh()
        ),
    ],
    ids=[
        *("Gaussian", "one row of scales", "own scale"),
        *("Categorical", "several", "Normal", "Bernoulli", "squashed"),
    ],
)
def test_rows_of_a_distribution_are_the_distribution_of_the_rows(make_distribution):
    """Also through a compiled function, and where as many dimensions as rows could be mixed up."""
    index = tf.constant([4, 1])
    for means in (MEANS, MEANS[:2]):  # the second: a batch of two, of two dimensions
        chosen = index % len(means)
        some = tf.function(rows)(make_distribution(means), chosen)
        expected = make_distribution(tf.gather(means, chosen))
        act = 0.5 * tf.cast(expected.sample(seed=0), tf.float32)
        act = tf.cast(act, expected.dtype)
        np.testing.assert_allclose(some.log_prob(act), expected.log_prob(act), rtol=1e-5)


def test_rows_of_an_operator_are_refused():
    scale = tf.linalg.LinearOperatorLowerTriangular(tf.eye(2, batch_shape=[6]))
    with pytest.raises(UserError, match="MultivariateNormalTriL instead of a LinearOp"):
        rows(tfd.MultivariateNormalLinearOperator(MEANS, scale), tf.constant([4, 1]))
