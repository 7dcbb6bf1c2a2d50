"""Heads turn a network's output into policies, value functions and Q-functions.

A policy is a Keras model from observations `[batch, obs_dim]`, or images, to a distribution over
actions or to the actions themselves; a value function maps observations to values `[batch]`.
"""

from collections.abc import Callable, Sequence
from functools import partial

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from spinup_tf2.core.nets import numpy_policy
from spinup_tf2.core.nets.distributions import (
    Distribution,
    categorical,
    categoricals,
    gaussian,
    squashed_gaussian,
)
from spinup_tf2.core.nets.layers import read
from spinup_tf2.core.nets.recurrent import RecurrentNet
from spinup_tf2.envs.spaces import action_spec
from spinup_tf2.errors import UserError

NEVER = -1e9  # logit of probability 0; with minus infinity, the entropy would be nan
LOG_STD_MIN, LOG_STD_MAX = -20, 2


class Head(keras.Model):
    """Base class of models that apply a head to the output of a network.

    A class with a method `numpy_head` acts in NumPy if its network is a stack of Dense layers. The
    method is not inherited, because a subclass may compute something else. If it returns a
    `partial` of one of the functions of `numpy_policy`, the policy can be exported to NumPy.

    Args:
        net: A model from observations to `head`'s input.
    """

    def __init__(self, net: keras.Model):
        super().__init__()
        self.net = net

    def call(self, obs: tf.Tensor) -> Distribution | tf.Tensor:
        return self.head(self.net(obs))

    def head(self, output: tf.Tensor) -> Distribution | tf.Tensor:
        """Return the distribution, actions or values for the network's output `output`."""
        raise NotImplementedError


class GaussianPolicy(Head):
    """Gaussian policy with diagonal covariance and state-independent standard deviation.

    Args:
        net: A model from observations to the mean `[batch, act_dim]`.
        act_dim: Number of dimensions of the actions.
        log_std_init: Initial log standard deviation of every dimension.
    """

    def __init__(self, net: keras.Model, act_dim: int, log_std_init: float = -0.5):
        super().__init__(net)
        self.log_std = self.add_weight(
            name="log_std", shape=(act_dim,), initializer=keras.initializers.Constant(log_std_init)
        )

    def head(self, output: tf.Tensor) -> Distribution:
        return gaussian(output, tf.exp(self.log_std))

    def numpy_head(self) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """Return `f(output, noise)`, which selects actions by noise, for the current weights."""
        return partial(numpy_policy.gaussian, std=np.exp(read(self.log_std)))


class CategoricalPolicy(Head):
    """Policy over one discrete action (Discrete) or several (MultiDiscrete, MultiBinary).

    Several actions are independent.

    Args:
        net: A model from observations to logits `[batch, sum(num_choices)]`.
        num_choices: The number of values of each action.
        single: Whether the action is a single number rather than a vector of length one.
    """

    def __init__(self, net: keras.Model, num_choices: Sequence[int], single: bool):
        super().__init__(net)
        self.single = single
        # The logits of several actions are padded to a rectangle, with logits of probability 0.
        starts = np.cumsum([0, *num_choices[:-1]])
        column = np.arange(max(num_choices))
        self.padding = column >= np.array(num_choices)[:, None]
        self.index = np.where(self.padding, 0, starts[:, None] + column)

    def head(self, output: tf.Tensor) -> Distribution:
        if self.single:
            return categorical(output)
        return categoricals(tf.where(self.padding, NEVER, tf.gather(output, self.index, axis=-1)))

    def numpy_head(self) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """Return `f(output, noise)`, which selects actions by noise."""
        if self.single:
            return partial(numpy_policy.categorical)
        return partial(numpy_policy.categoricals, index=self.index, padding=self.padding)


class SquashedGaussianPolicy(Head):
    """Policy that is the tanh of a diagonal Gaussian (Haarnoja et al. 2018, appendix C).

    Args:
        net: A model from observations to `[batch, 2 act_dim]`: the means, and the log standard
            deviations, which are clipped to [LOG_STD_MIN, LOG_STD_MAX].
    """

    def head(self, output: tf.Tensor) -> Distribution:
        mean, log_std = tf.split(output, 2, axis=-1)
        return squashed_gaussian(mean, tf.exp(tf.clip_by_value(log_std, LOG_STD_MIN, LOG_STD_MAX)))

    def numpy_head(self) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """Return `f(output, noise)`, which selects actions by noise."""
        limits = dict(log_std_min=LOG_STD_MIN, log_std_max=LOG_STD_MAX)
        return partial(numpy_policy.squashed_gaussian, **limits)


class DeterministicPolicy(Head):
    """Policy that returns the action itself, `[batch, act_dim]` in [-1, 1].

    Its network must end in `layers.tanh`.
    """

    def head(self, output: tf.Tensor) -> tf.Tensor:
        return output

    def numpy_head(self) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """Return `f(output, noise)`, which returns the output."""
        return partial(numpy_policy.deterministic)


class GreedyPolicy(Head):
    """Policy that takes the action of the largest value, int32 `[batch]`; it has no variables.

    Args:
        net: The Q-function: a model from observations to the values `[batch, num_actions]` of all
            actions.
    """

    def head(self, output: tf.Tensor) -> tf.Tensor:
        return tf.argmax(output, axis=-1, output_type=tf.int32)

    def numpy_head(self) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """Return `f(output, noise)`, which returns the best action."""
        return partial(numpy_policy.greedy)


class ValueFunction(Head):
    """V(s) as `[batch]`, from a network with one output."""

    def head(self, output: tf.Tensor) -> tf.Tensor:
        return tf.squeeze(output, axis=-1)  # critical: [batch], or losses broadcast

    def numpy_head(self) -> Callable[[np.ndarray], np.ndarray]:
        """Return `f(output)`, which returns the values."""
        return lambda output: output[:, 0]


def value_beside(pi: keras.Model) -> ValueFunction:
    """Return a value function that shares a policy's layers but has its own output layer.

    Raises:
        UserError: The policy has no `net`, a `keras.Sequential` that ends in a Dense layer.
    """
    net = getattr(pi, "net", None)
    if isinstance(net, RecurrentNet):
        return ValueFunction(RecurrentNet(net.trunk, 1))
    if not (isinstance(net, keras.Sequential) and isinstance(net.layers[-1], keras.layers.Dense)):
        raise UserError(
            f"The policy {type(pi).__name__} has no layers to share with a value function: it is "
            "no head on a keras.Sequential that ends in a Dense layer."
        )
    *features, to_policy = net.layers
    to_value = keras.layers.Dense(1)
    to_value.build((None, to_policy.kernel.shape[0]))
    return ValueFunction(keras.Sequential([*features, to_value]))


def both(pi: Head, v: Head, obs: tf.Tensor) -> tuple[Distribution, tf.Tensor]:
    """Return `pi(obs)` and `v(obs)` of a policy and a value function that shares its layers.

    The layers that they have in common are computed only once.
    """
    *common, to_policy = pi.net.layers
    features = obs
    for layer in common:
        features = layer(features)
    return pi.head(to_policy(features)), v.head(v.net.layers[-1](features))


class FrozenPolicy:
    """A copy of a policy's weights from an earlier time, for the same network.

    Args:
        pi: The policy, built.
    """

    def __init__(self, pi: keras.Model):
        self.pi = pi
        self.variables = [keras.Variable(each, trainable=False) for each in pi.variables]

    def freeze(self) -> None:
        """Copy the current weights of the policy."""
        for variable, now in zip(self.variables, self.pi.variables, strict=True):
            variable.assign(now)

    def __call__(self, obs: tf.Tensor) -> Distribution:
        """Return the distribution pi_old(.|obs)."""
        of = dict(zip(map(id, self.pi.variables), self.variables, strict=True))
        trainable = [of[id(each)].value for each in self.pi.trainable_variables]
        others = [of[id(each)].value for each in self.pi.non_trainable_variables]
        distribution, _ = self.pi.stateless_call(trainable, others, obs)
        return distribution


class QFunction(keras.Model):
    """Q(s, a) as `[batch]`; without an action, Q(s, .) of all actions as `[batch, num_actions]`.

    Args:
        net: A model from `[batch, features + act_dim]` to one output, or from features to one
            output per action.
        encoder: A model from observations to features; None: the observations are the features.
    """

    def __init__(self, net: keras.Model, encoder: keras.Model | None = None):
        super().__init__()
        self.encoder = encoder  # assigned first: the order of assignment is that of the layers
        self.net = net

    def call(self, obs: tf.Tensor, act: tf.Tensor | None = None) -> tf.Tensor:
        return self.of_features(obs if self.encoder is None else self.encoder(obs), act)

    def of_features(self, features: tf.Tensor, act: tf.Tensor | None = None) -> tf.Tensor:
        """Return Q for the encoder's output `features`."""
        if act is None:
            return self.net(features)
        q = self.net(tf.concat([features, act], axis=-1))
        return tf.squeeze(q, axis=-1)  # critical: [batch], or losses broadcast


# ------------------------------------------------------------------ policies of action spaces


def policy_for(
    action_space: spaces.Space, make_net: Callable[[int], keras.Model], log_std_init: float = -0.5
) -> GaussianPolicy | CategoricalPolicy:
    """Return the policy for an action space, on the network `make_net(number of outputs)`."""
    spec = action_spec(action_space)
    if spec.num_choices is None:
        (act_dim,) = spec.shape
        return GaussianPolicy(make_net(act_dim), act_dim, log_std_init)
    outputs = sum(spec.num_choices)
    return CategoricalPolicy(make_net(outputs), spec.num_choices, single=spec.shape == ())
