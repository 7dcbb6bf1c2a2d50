"""A Gaussian policy of your own: network and distribution.

    pi(a|s) = N(a; mu(s), sigma)

mu(s) is the output of a network: hidden layers with tanh, then a linear layer. The logarithm of
sigma is a weight for each dimension of the action, which does not depend on the state, starts at
-0.5, and is trained as well.

To draw an action, take standard normal noise: a = mu + sigma * noise. This way the function has no
hidden state, and gradients of the action with respect to mu and sigma are available.

    H = sum_i ( 1/2 + log(2 pi) / 2 + log sigma_i )         the entropy, of any state
"""

import keras
import numpy as np
import tensorflow as tf

from spinup_tf2.exercises.answers import gaussian
from spinup_tf2.exercises.checking import compare, expect, expect_gradient


class GaussianPolicy(keras.Model):
    """A diagonal Gaussian whose mean depends on the observation.

    Args:
        obs_dim: Length of an observation.
        act_dim: Length of an action.
        hidden_sizes: Widths of the hidden layers, such as (64, 64).

    The constructor makes the layers, built for obs_dim, and the weight log_std, [act_dim].
    """

    def __init__(self, obs_dim: int, act_dim: int, hidden_sizes: tuple[int, ...]):
        super().__init__()
        # answer
        hidden = [keras.layers.Dense(size, activation="tanh") for size in hidden_sizes]
        output = keras.layers.Dense(act_dim)
        self.mu = keras.Sequential([keras.Input((obs_dim,)), *hidden, output])
        start = keras.initializers.Constant(-0.5)
        self.log_std = self.add_weight(shape=(act_dim,), initializer=start, name="log_std")

    def call(self, obs: tf.Tensor) -> tf.Tensor:
        """Return mu(s): [batch, obs_dim] to [batch, act_dim]."""
        # answer
        return self.mu(obs)

    def sample(self, obs: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
        """Return actions [batch, act_dim], from standard normal noise of the same shape."""
        # answer
        return self(obs) + tf.exp(self.log_std) * noise

    def log_prob(self, obs: tf.Tensor, act: tf.Tensor) -> tf.Tensor:
        """Return log pi(a|s): [batch, obs_dim] and [batch, act_dim] to [batch]."""
        # answer
        log_std = self.log_std
        z = (act - self(obs)) / tf.exp(log_std)
        return tf.reduce_sum(-0.5 * z**2 - log_std - 0.5 * np.log(2 * np.pi), axis=-1)

    def entropy(self) -> tf.Tensor:
        """Return H, a scalar."""
        # answer
        return tf.reduce_sum(self.log_std + 0.5 + 0.5 * np.log(2 * np.pi))


# ---------------------------------------------------------------- checks

_OBS_DIM, _ACT_DIM, _HIDDEN = 3, 2, (5, 4)
_SHAPES = [(3, 5), (5,), (5, 4), (4,), (4, 2), (2,), (2,)]  # the last one is log_std's
_RNG = np.random.default_rng(1)
_WEIGHTS = [_RNG.normal(size=shape).astype(np.float32) for shape in _SHAPES]
_LOG_STD = np.float32([-0.7, 0.4])
_OBS = _RNG.normal(size=(6, _OBS_DIM)).astype(np.float32)
_NOISE, _ACT = _RNG.normal(size=(2, 6, _ACT_DIM)).astype(np.float32)
_W1, _B1, _W2, _B2, _W3, _B3, _ = _WEIGHTS
_MEAN = np.tanh(np.tanh(_OBS @ _W1 + _B1) @ _W2 + _B2) @ _W3 + _B3


def _made(module):
    return module.GaussianPolicy(_OBS_DIM, _ACT_DIM, _HIDDEN)


def _with_weights(module):
    """Return the module's policy with the weights above."""
    policy = _made(module)
    values = {weights.shape: weights for weights in _WEIGHTS[:-1]}  # no two have the same shape
    for variable in policy.trainable_variables:
        if variable is not policy.log_std:
            variable.assign(values[tuple(variable.shape)])
    policy.log_std.assign(_LOG_STD)
    return policy


def check_weights(student):
    policy = _made(student)
    trained = [tuple(each.shape) for each in policy.trainable_variables]
    expect(
        any(each is policy.log_std for each in policy.trainable_variables),
        "log_std is not among trainable_variables, and would never be trained. Keras does not see "
        "a tf.Variable or a tensor: make it with self.add_weight.",
    )
    expect(
        sorted(trained) == sorted(_SHAPES),
        f"With obs_dim 3, act_dim 2 and hidden_sizes (5, 4) the trainable weights should have the "
        f"shapes {sorted(_SHAPES)}; they have {sorted(trained)}. Layers have to be built in "
        "__init__, as by keras.Input((obs_dim,)) at the front of a keras.Sequential.",
    )
    expect(
        np.allclose(policy.log_std, -0.5),
        f"log_std starts at {np.array(policy.log_std)}; it should be -0.5 in each dimension.",
    )


def _check(answer, right, mistakes):
    """Return a check of what a policy with the weights above gives for the observations above."""

    def of_module(module):
        return answer(_with_weights(module), tf.constant(_OBS))

    return lambda student: compare(
        student, of_module, {"6 observations": ()}, lambda: right, mistakes
    )


check_mean = _check(
    lambda policy, obs: policy(obs),
    _MEAN,
    {
        "The output goes through tanh: the last layer is linear.": (
            'Dense(act_dim) => Dense(act_dim, activation="tanh")'
        ),
        "The hidden layers have no activation.": ', activation="tanh" => ',
    },
)
check_sample = _check(
    lambda policy, obs: policy.sample(obs, tf.constant(_NOISE)),
    _MEAN + np.exp(_LOG_STD) * _NOISE,
    {
        "The noise is not multiplied by sigma.": "tf.exp(self.log_std) * noise => noise",
        "sigma is exp(log_std).": "tf.exp(self.log_std) * noise => self.log_std * noise",
    },
)
check_log_prob = _check(
    lambda policy, obs: policy.log_prob(obs, tf.constant(_ACT)),
    gaussian.right(_ACT, _MEAN, _LOG_STD),
    gaussian.MISTAKES,
)
check_entropy = _check(
    lambda policy, obs: policy.entropy(),
    2 * (0.5 + 0.5 * np.log(2 * np.pi)) + _LOG_STD.sum(),
    {
        "You forgot the 1/2 of each dimension.": "log_std + 0.5 + => log_std +",
        "The entropies of the dimensions add up.": "tf.reduce_sum(self => (self",
    },
)


def check_gradients(student):
    policy = _with_weights(student)
    obs, noise, act = map(tf.constant, (_OBS, _NOISE, _ACT))
    weights = [each.value for each in policy.trainable_variables]
    expect_gradient(lambda *_: policy.sample(obs, noise), *weights)
    expect_gradient(lambda *_: policy.log_prob(obs, act), *weights)
    expect_gradient(lambda *_: policy.entropy(), policy.log_std.value)
