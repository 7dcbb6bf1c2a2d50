"""Distributions over actions: constructors, sampling and access to parameters.

This is the only module of the package that imports tensorflow-probability. Other modules call
`log_prob`, `entropy` and `kl_divergence` of a `Distribution`, and for all else use the functions
here.
"""

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from tensorflow_probability.python.bijectors import Bijector, Tanh
from tensorflow_probability.python.distributions import Distribution

from spinup_tf2.errors import UserError

tfd = tfp.distributions

# ------------------------------------------------------------------------------- constructors


def gaussian(mean: tf.Tensor, std: tf.Tensor) -> Distribution:
    """A Gaussian over vectors, with independent components.

    Args:
        mean: `[batch, act_dim]`.
        std: Standard deviations of the same shape, or `[act_dim]` for the same in all states.
    """
    return tfd.MultivariateNormalDiag(loc=mean, scale_diag=std)


def squashed_gaussian(mean: tf.Tensor, std: tf.Tensor) -> Distribution:
    """The tanh of a `gaussian`, with values in [-1, 1] (Haarnoja et al. 2018, appendix C)."""
    return tfd.TransformedDistribution(gaussian(mean, std), _Tanh())


class _Tanh(Tanh):
    """The tanh, with a finite inverse for actions that round to 1 or -1 in float32.

    Such actions are replaced by the nearest number inside the interval.
    """

    _largest = 1 - np.finfo(np.float32).epsneg

    def _inverse(self, y):
        return super()._inverse(self._clipped(y))

    def _inverse_log_det_jacobian(self, y):
        return super()._inverse_log_det_jacobian(self._clipped(y))

    def _clipped(self, y):
        return tf.clip_by_value(y, -self._largest, self._largest)


def forget_results() -> None:
    """Empty the cache of the results of all bijectors, which would keep the graphs of all runs."""
    vars(Bijector)["_cache"].clear()  # an attribute would give that of one class


def categorical(logits: tf.Tensor) -> Distribution:
    """A distribution over one discrete action, from logits `[batch, values]`."""
    return tfd.Categorical(logits=logits)


def categoricals(logits: tf.Tensor) -> Distribution:
    """A distribution over k independent discrete actions, from logits `[batch, k, values]`."""
    return tfd.Independent(categorical(logits), 1)


# ----------------------------------------------------------------------------------- sampling


def sample(distribution: Distribution | tf.Tensor, noise: np.ndarray | tf.Tensor) -> tf.Tensor:
    """Return the action that `noise` selects, as a deterministic (pathwise) function of it.

    Args:
        distribution: A distribution, or the actions of a deterministic policy, returned unchanged.
        noise: For Gaussians, standard normal `[batch, act_dim]`: mean + scale @ noise. For
            categorical distributions, Gumbel `[batch, ..., values]`: argmax(logits + noise) (Gumbel
            1954; Maddison et al. 2014). For Bernoulli distributions the same, with two values.
    """
    if tf.is_tensor(distribution):
        return distribution
    if isinstance(distribution, tfd.Independent):
        return sample(distribution.distribution, noise)
    if isinstance(distribution, tfd.Categorical):
        logits = distribution.logits_parameter()
        return tf.argmax(logits + noise, axis=-1, output_type=distribution.dtype)
    if isinstance(distribution, tfd.Bernoulli):
        logits = distribution.logits_parameter()
        return tf.cast(logits + noise[..., 1] - noise[..., 0] > 0, distribution.dtype)
    if isinstance(distribution, tfd.Normal):
        return distribution.loc + distribution.scale * noise
    if isinstance(distribution, tfd.MultivariateNormalLinearOperator):
        return distribution.loc + distribution.scale.matvec(noise)
    if isinstance(distribution, tfd.TransformedDistribution):
        return distribution.bijector.forward(sample(distribution.distribution, noise))
    raise UserError(f"No actions can be drawn from a policy's {type(distribution).__name__}.")


def mode(distribution: Distribution | tf.Tensor) -> tf.Tensor:
    """Return the deterministic action: the mean of a Gaussian, or the most likely choice."""
    if tf.is_tensor(distribution):
        return distribution
    if isinstance(distribution, tfd.Independent):
        return mode(distribution.distribution)
    if is_bijection(distribution):
        return distribution.bijector.forward(mode(distribution.distribution))
    return distribution.mode()


def sample_and_log_prob(
    distribution: Distribution, noise: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the action that `noise` selects from a squashed Gaussian, and its log-probability.

    log pi(a) = log N(u) - sum_i log(1 - tanh(u_i)^2),  a = tanh(u)   (Haarnoja et al. 2018, eq. 21)

    The log-probability `[batch]` is computed from u, not from a: where tanh rounds to 1, its
    inverse is infinite.
    """
    inner, squash = distribution.distribution, distribution.bijector
    u = sample(inner, noise)
    return squash.forward(u), inner.log_prob(u) - squash.forward_log_det_jacobian(u, 1)


# ----------------------------------------------------------------------- access to parameters


def probs_and_log_probs(distribution: Distribution) -> tuple[tf.Tensor, tf.Tensor]:
    """Return probabilities and log-probabilities of all values of a categorical distribution.

    Both are `[batch, values]`.
    """
    return distribution.probs_parameter(), tf.nn.log_softmax(distribution.logits_parameter())


def choice_logits(distribution: Distribution) -> tf.Tensor:
    """Return the logits of discrete actions, to which noise is added, `[batch, ..., values]`."""
    if isinstance(distribution, tfd.Independent):
        return choice_logits(distribution.distribution)
    logits = distribution.logits_parameter()
    if isinstance(distribution, tfd.Bernoulli):
        return tf.stack([tf.zeros_like(logits), logits], axis=-1)
    return logits


def is_categorical(distribution: Distribution) -> bool:
    """Return whether a distribution is over one discrete action."""
    return isinstance(distribution, tfd.Categorical)


def is_bijection(distribution: Distribution) -> bool:
    """Return whether it is another distribution transformed by a bijection, such as tanh."""
    # In tensorflow-probability, every multivariate Gaussian is a TransformedDistribution, too.
    return isinstance(distribution, tfd.TransformedDistribution) and not isinstance(
        distribution, tfd.MultivariateNormalLinearOperator
    )


def rows(distribution: Distribution, index: tf.Tensor) -> Distribution:
    """Return the distributions in the rows `index` `[m]` of a batch.

    A parameter without a batch dimension, or with one of length 1, belongs to all rows and is kept,
    such as a standard deviation that does not depend on the observation.

    Raises:
        UserError: The distribution has a LinearOperator, of which no rows can be taken.
    """
    chosen = {}
    for name, properties in distribution.parameter_properties().items():
        value = distribution.parameters[name]
        if isinstance(value, Distribution):
            chosen[name] = rows(value, index)
        elif isinstance(value, tf.linalg.LinearOperator):
            raise UserError("Minibatches need MultivariateNormalTriL instead of a LinearOperator.")
        elif tf.is_tensor(value):
            rank = distribution.batch_shape.rank + properties.event_ndims
            one_for_each_row = value.shape.rank == rank and value.shape[0] != 1
            chosen[name] = tf.gather(value, index) if one_for_each_row else value
    return distribution.copy(**chosen)
