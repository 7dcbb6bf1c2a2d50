"""Heads: what becomes of a network's output. Policies, value functions and Q-functions.

A policy is a Keras model from observations `[batch, obs_dim]`, or images, to a distribution over
actions, or to the actions themselves; a value function is one to values `[batch]`.
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
from spinup_tf2.core.nets.recurrent import RecurrentNet
from spinup_tf2.envs.spaces import action_spec
from spinup_tf2.errors import UserError

NEVER = -1e9  # a logit with probability 0; minus infinity would make the entropy nan
LOG_STD_MIN, LOG_STD_MAX = -20, 2


class Head(keras.Model):
    """A network, and what becomes of its output.

    A class with a method `numpy_head` acts in NumPy where its network is a stack of Dense layers.
    The method is not inherited: a derived class may compute something else. If it returns a
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
        """The distribution, the actions or the values where the network's output is `output`."""
        raise NotImplementedError


def check_outputs(of: str, output: tf.Tensor, expected: int, what: str) -> None:
    """Raise UserError if a network has another number of outputs than `expected`.

    Args:
        of: What the network computes: pi, v or q.
        what: What the outputs are.
    """
    if output.shape[-1] != expected:
        units = "1 unit" if expected == 1 else f"{expected} units"
        raise UserError(
            f"{of} gives {output.shape[-1]} {what} for each observation, and needs {expected}: "
            f"give its last layer {units}."
        )


class GaussianPolicy(Head):
    """A Gaussian with diagonal covariance; its log standard deviation does not see the state.

    Called on observations it raises UserError if `net` has not `act_dim` outputs.

    Args:
        net: A model from observations to the mean `[batch, act_dim]`.
        log_std_init: Where the log standard deviation of every dimension starts.
    """

    def __init__(self, net: keras.Model, act_dim: int, log_std_init: float = -0.5):
        super().__init__(net)
        self.log_std = self.add_weight(
            name="log_std",
            shape=(act_dim,),
            initializer=keras.initializers.Constant(log_std_init),
        )

    def head(self, output: tf.Tensor) -> Distribution:
        check_outputs("pi", output, self.log_std.shape[0], "means")
        return gaussian(output, tf.exp(self.log_std))

    def numpy_head(self) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """`f(output, noise)`: the actions that noise picks, of the present weights."""
        return partial(numpy_policy.gaussian, std=np.exp(self.log_std.numpy()))


class CategoricalPolicy(Head):
    """One discrete action (Discrete) or several independent ones (MultiDiscrete, MultiBinary).

    Called on observations it raises UserError if `net` has not as many outputs as logits.

    Args:
        net: A model from observations to logits `[batch, sum(num_choices)]`.
        num_choices: How many values each of them has.
        single: Whether the action is one number rather than a vector of length one.
    """

    def __init__(self, net: keras.Model, num_choices: Sequence[int], single: bool):
        super().__init__(net)
        self.single, self.num_logits = single, sum(num_choices)
        # Logits of several actions are padded to a rectangle, with logits that are never picked.
        starts = np.cumsum([0, *num_choices[:-1]])
        column = np.arange(max(num_choices))
        self.padding = column >= np.array(num_choices)[:, None]
        self.index = np.where(self.padding, 0, starts[:, None] + column)

    def head(self, output: tf.Tensor) -> Distribution:
        check_outputs("pi", output, self.num_logits, "logits")
        if self.single:
            return categorical(output)
        return categoricals(tf.where(self.padding, NEVER, tf.gather(output, self.index, axis=-1)))

    def numpy_head(self) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """`f(output, noise)`: the actions that noise picks."""
        if self.single:
            return partial(numpy_policy.categorical)
        return partial(numpy_policy.categoricals, index=self.index, padding=self.padding)


class SquashedGaussianPolicy(Head):
    """tanh of a Gaussian with diagonal covariance (Haarnoja et al. 2018, appendix C).

    Called on observations it raises UserError if `net` has an odd number of outputs.

    Args:
        net: A model from observations to `[batch, 2 act_dim]`: the means, and the log standard
            deviations, which are clipped to [LOG_STD_MIN, LOG_STD_MAX].
    """

    def head(self, output: tf.Tensor) -> Distribution:
        if output.shape[-1] % 2:
            raise UserError(
                f"The network of a SquashedGaussianPolicy gives {output.shape[-1]} outputs; give "
                "its last layer two units for each dimension of the action, one for the mean and "
                "one for the log standard deviation."
            )
        mean, log_std = tf.split(output, 2, axis=-1)
        return squashed_gaussian(mean, tf.exp(tf.clip_by_value(log_std, LOG_STD_MIN, LOG_STD_MAX)))

    def numpy_head(self) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """`f(output, noise)`: the actions that noise picks."""
        limits = dict(log_std_min=LOG_STD_MIN, log_std_max=LOG_STD_MAX)
        return partial(numpy_policy.squashed_gaussian, **limits)


class DeterministicPolicy(Head):
    """The action itself, `[batch, act_dim]` in [-1, 1], of a network that ends in `bodies.tanh`."""

    def head(self, output: tf.Tensor) -> tf.Tensor:
        return output

    def numpy_head(self) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """`f(output, noise)`: the output."""
        return partial(numpy_policy.deterministic)


class ValueFunction(Head):
    """V(s) as `[batch]`, from a network with one output; UserError if it has several."""

    def head(self, output: tf.Tensor) -> tf.Tensor:
        check_outputs("v", output, 1, "values")
        return tf.squeeze(output, axis=-1)  # critical: [batch], or losses broadcast

    def numpy_head(self) -> Callable[[np.ndarray], np.ndarray]:
        """`f(output)`: the values."""
        return lambda output: output[:, 0]


def value_beside(pi: keras.Model) -> ValueFunction:
    """A value function with all layers of a policy's network but the last, and its own output.

    Raises:
        UserError: The policy is no Head on a `keras.Sequential`.
    """
    check_features(pi)
    if isinstance(pi.net, RecurrentNet):
        return ValueFunction(RecurrentNet(pi.net.trunk, 1))
    *features, to_policy = pi.net.layers
    to_value = keras.layers.Dense(1)
    to_value.build((None, to_policy.kernel.shape[0]))
    return ValueFunction(keras.Sequential([*features, to_value]))


def check_features(pi: keras.Model) -> None:
    """Raise UserError unless a value function can share a policy's layers: see `value_beside`."""
    if isinstance(pi, Head) and isinstance(pi.net, RecurrentNet):
        return
    stack = isinstance(pi, Head) and isinstance(pi.net, keras.Sequential)
    if not (stack and isinstance(pi.net.layers[-1], keras.layers.Dense)):
        raise UserError(
            f"A value function shall share the layers of the policy {type(pi).__name__}, all but "
            "the last; it must be a GaussianPolicy or CategoricalPolicy on a keras.Sequential "
            "that ends in a Dense layer."
        )


def both(pi: Head, v: Head, obs: tf.Tensor) -> tuple[Distribution, tf.Tensor]:
    """`pi(obs)` and `v(obs)` of a policy and the value function beside it.

    The layers that they have in common are computed once.
    """
    *common, to_policy = pi.net.layers
    features = obs
    for layer in common:
        features = layer(features)
    return pi.head(to_policy(features)), v.head(v.net.layers[-1](features))


class FrozenPolicy:
    """A policy as it was at an earlier time: a second set of weights of the same network.

    Args:
        pi: The policy, built.
    """

    def __init__(self, pi: keras.Model):
        self.pi = pi
        self.variables = [keras.Variable(each, trainable=False) for each in pi.variables]

    def freeze(self) -> None:
        """Take the weights that the policy has now."""
        for variable, now in zip(self.variables, self.pi.variables, strict=True):
            variable.assign(now)

    def __call__(self, obs: tf.Tensor) -> Distribution:
        """pi_old(.|obs)."""
        of = dict(zip(map(id, self.pi.variables), self.variables, strict=True))
        trainable = [of[id(each)].value for each in self.pi.trainable_variables]
        others = [of[id(each)].value for each in self.pi.non_trainable_variables]
        distribution, _ = self.pi.stateless_call(trainable, others, obs)
        return distribution


class QFunction(keras.Model):
    """Q(s, a) as `[batch]`; without an action, Q(s, .) of all actions as `[batch, num_actions]`.

    Called with an action it raises UserError if `net` has several outputs.

    Args:
        net: A model from `[batch, features + act_dim]` to one output, or from features to one for
            each action.
        encoder: A model from observations to features; None: the observations are the features.
    """

    def __init__(self, net: keras.Model, encoder: keras.Model | None = None):
        super().__init__()
        self.encoder = encoder  # first: layers are in the order of their names here
        self.net = net

    def call(self, obs: tf.Tensor, act: tf.Tensor | None = None) -> tf.Tensor:
        return self.of_features(obs if self.encoder is None else self.encoder(obs), act)

    def of_features(self, features: tf.Tensor, act: tf.Tensor | None = None) -> tf.Tensor:
        """Q where the encoder's output is `features`."""
        if act is None:
            return self.net(features)
        q = self.net(tf.concat([features, act], axis=-1))
        check_outputs("q", q, 1, "values")
        return tf.squeeze(q, axis=-1)  # critical: [batch], or losses broadcast


# --------------------------------------------------------------------- for an action space


def policy_for(
    action_space: spaces.Space,
    make_net: Callable[[int], keras.Model],
    log_std_init: float = -0.5,
) -> GaussianPolicy | CategoricalPolicy:
    """The policy for an action space, on the network `make_net(number of outputs)`."""
    spec = action_spec(action_space)
    if spec.num_choices is None:
        (act_dim,) = spec.shape
        return GaussianPolicy(make_net(act_dim), act_dim, log_std_init)
    outputs = sum(spec.num_choices)
    return CategoricalPolicy(make_net(outputs), spec.num_choices, single=spec.shape == ())


def policy_shapes(
    action_space: spaces.Space, net_shapes: Callable[[int], list[tuple]]
) -> list[tuple]:
    """The shapes of the variables of `policy_for`, where `net_shapes` gives those of networks."""
    spec = action_spec(action_space)
    if spec.num_choices is None:
        (act_dim,) = spec.shape
        return [*net_shapes(act_dim), (act_dim,)]
    return net_shapes(sum(spec.num_choices))
