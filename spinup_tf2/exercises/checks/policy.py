"""Checks of a Gaussian policy: its weights, mean, samples, densities and entropy."""

import numpy as np
import tensorflow as tf

from spinup_tf2.exercises.checking import compare, expect
from spinup_tf2.exercises.checks import gaussian

_OBS_DIM, _ACT_DIM, _HIDDEN = 3, 2, (5, 4)
_SHAPES = [(3, 5), (5,), (5, 4), (4,), (4, 2), (2,), (2,)]  # the last one is log_std's
_RNG = np.random.default_rng(1)
_WEIGHTS = [_RNG.normal(size=shape).astype(np.float32) for shape in _SHAPES]
_LOG_STD = np.float32([-0.7, 0.4])
_OBS = _RNG.normal(size=(6, _OBS_DIM)).astype(np.float32)
_NOISE, _ACT = _RNG.normal(size=(2, 6, _ACT_DIM)).astype(np.float32)


def _made(student):
    return student.GaussianPolicy(_OBS_DIM, _ACT_DIM, _HIDDEN)


def _with_weights(student):
    """Return a policy with the weights above."""
    policy = _made(student)
    values = {weights.shape: weights for weights in _WEIGHTS[:-1]}  # no two have the same shape
    for variable in policy.trainable_variables:
        if variable is not policy.log_std:
            variable.assign(values[tuple(variable.shape)])
    policy.log_std.assign(_LOG_STD)
    return policy


def _mean(obs, hidden=np.tanh, output=lambda x: x):
    w1, b1, w2, b2, w3, b3, _ = _WEIGHTS
    return output(hidden(hidden(obs @ w1 + b1) @ w2 + b2) @ w3 + b3)


def weights(student):
    policy = _made(student)
    expect(hasattr(policy, "log_std"), "The policy has no attribute log_std.")
    trained = [tuple(each.shape) for each in policy.trainable_variables]
    expect(
        any(each is policy.log_std for each in policy.trainable_variables),
        "log_std is not among trainable_variables, and would never be trained. Keras does not see "
        "a tf.Variable or a tensor: make it with self.add_weight.",
    )
    expect(
        len(trained) > 1,
        "log_std is the only weight so far: build the layers for obs_dim in __init__, because an "
        "optimizer trains what is there when it is made. keras.Input((obs_dim,)) at the front of a "
        "keras.Sequential does it.",
    )
    expect(
        sorted(trained) == sorted(_SHAPES),
        f"With obs_dim 3, act_dim 2 and hidden_sizes (5, 4) the trainable weights should have the "
        f"shapes {sorted(_SHAPES)}; they have {sorted(trained)}.",
    )
    compare(
        lambda: policy.log_std,
        {"a new policy": ()},
        lambda: np.full(2, -0.5),
        {
            "log_std starts as the standard deviation exp(-0.5): it is its logarithm.": (
                lambda: np.full(2, np.exp(-0.5))
            ),
            "log_std starts at 0.5: the sign is missing.": lambda: np.full(2, 0.5),
            "log_std starts at 0: it should start at -0.5.": lambda: np.zeros(2),
        },
    )


def mean(student):
    compare(
        lambda: _with_weights(student)(tf.constant(_OBS)),
        {"6 observations": ()},
        lambda: _mean(_OBS),
        {
            "The output goes through tanh as well: no mean could leave (-1, 1). Make the last "
            "layer linear.": lambda: _mean(_OBS, output=np.tanh),
            "The hidden layers have no activation: all of them together are one linear layer.": (
                lambda: _mean(_OBS, hidden=lambda x: x)
            ),
            "The hidden layers use relu: tanh is asked for.": (
                lambda: _mean(_OBS, hidden=lambda x: np.maximum(x, 0))
            ),
            "The output goes through relu: no mean could be negative. Make the last layer "
            "linear.": lambda: _mean(_OBS, output=lambda x: np.maximum(x, 0)),
        },
    )


def sample(student):
    compare(
        lambda noise: _with_weights(student).sample(tf.constant(_OBS), tf.constant(noise)),
        {"no noise": (np.zeros_like(_NOISE),), "noise": (_NOISE,)},
        lambda noise: _mean(_OBS) + np.exp(_LOG_STD) * noise,
        {
            "The noise is not multiplied by sigma.": lambda noise: _mean(_OBS) + noise,
            "You take log_std for sigma: sigma = exp(log_std).": (
                lambda noise: _mean(_OBS) + _LOG_STD * noise
            ),
            "You multiply the noise by the variance: the standard deviation is its root.": (
                lambda noise: _mean(_OBS) + np.exp(2 * _LOG_STD) * noise
            ),
            "The action does not depend on the noise: this is the mean.": (
                lambda noise: _mean(_OBS)
            ),
        },
    )


def log_prob(student):
    def answer(act):
        return _with_weights(student).log_prob(tf.constant(_OBS), tf.constant(act))

    def of_gaussian(function):
        return lambda act: function(act, _mean(_OBS), _LOG_STD)

    mistakes = {text: of_gaussian(function) for text, function in gaussian.MISTAKES.items()}
    compare(answer, {"6 actions": (_ACT,)}, of_gaussian(gaussian.right), mistakes)


def _reached(variables, function):
    """Return whether gradients of a function's result reach all of these variables."""
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(function())
    found = tape.gradient(total, [each.value for each in variables])
    return all(each is not None for each in found)


def gradients(student):
    policy = _with_weights(student)
    obs, noise, act = map(tf.constant, (_OBS, _NOISE, _ACT))
    results = dict(
        sample=lambda: policy.sample(obs, noise), log_prob=lambda: policy.log_prob(obs, act)
    )
    for name, result in results.items():
        expect(
            _reached(policy.trainable_variables, result),
            f"The gradient of {name} does not reach all weights: keep to TensorFlow's functions "
            "from obs to the result, without .numpy() and without stop_gradient.",
        )


def entropy(student):
    constant = 0.5 * np.log(2 * np.pi)
    compare(
        lambda: _with_weights(student).entropy(),
        {"log_std [-0.7, 0.4]": ()},
        lambda: 2 * (0.5 + constant) + _LOG_STD.sum(),
        {
            "You forgot the 1/2 of each dimension, which comes from the mean of z^2 / 2.": (
                lambda: 2 * constant + _LOG_STD.sum()
            ),
            "You add the constants once: they belong to each dimension, inside the sum.": (
                lambda: 0.5 + constant + _LOG_STD.sum()
            ),
            "You return a number for each dimension: entropies of independent dimensions add "
            "up.": lambda: 0.5 + constant + _LOG_STD,
            "You take the mean over the dimensions: their entropies add up.": (
                lambda: 0.5 + constant + _LOG_STD.mean()
            ),
            "You add sigma: its logarithm is asked for.": (
                lambda: 2 * (0.5 + constant) + np.exp(_LOG_STD).sum()
            ),
            "The sign is wrong: a wide Gaussian has a large entropy.": (
                lambda: -2 * (0.5 + constant) - _LOG_STD.sum()
            ),
        },
    )
    policy = _with_weights(student)
    expect(
        _reached([policy.log_std], policy.entropy),
        "The value is right, but no gradient reaches log_std, so that an entropy bonus would train "
        "nothing. Keep to TensorFlow, without float() and .numpy(). A number of NumPy plus log_std "
        "is computed by NumPy: write log_std first.",
    )


CHECKS = [weights, mean, sample, log_prob, gradients, entropy]
