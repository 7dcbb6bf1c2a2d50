"""Turns a policy into a fast `act(obs, noise)` and a value function into a fast `value(obs)`.

What costs time while acting is not arithmetic but the overhead of small calls: one observation
through a 64x64 policy takes about 10 microseconds in NumPy and 300 or more through a compiled
TensorFlow function. So stacks of Dense layers are mirrored in NumPy; every other Keras model is
called through one compiled function for all environments.
"""

import keras
import numpy as np
import tensorflow as tf

from spinup_tf2.core.nets import actor_critic as policies
from spinup_tf2.core.nets import q_actor_critic
from spinup_tf2.core.nets.distributions import sample
from spinup_tf2.core.nets.normalization import CLIP, Normalized, ObservationNormalizer

_NUMPY_ACTIVATIONS = {
    "linear": lambda x: x,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "softplus": lambda x: np.logaddexp(x, np.float32(0)),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
}
_NUMPY_ACTIVATIONS = {keras.activations.get(k): f for k, f in _NUMPY_ACTIVATIONS.items()}


class DenseStack:
    """A NumPy copy of a Sequential of Dense layers; `refresh` reads the weights again.

    normalizer: what observations go through before, or None.
    """

    def __init__(self, net: keras.Sequential, normalizer: ObservationNormalizer | None = None):
        self.net = net
        self.normalizer = normalizer
        self.refresh()

    @staticmethod
    def can_mirror(net: keras.Model) -> bool:
        """Whether `net` is a Sequential of Dense layers with activations that NumPy has."""
        return isinstance(net, keras.Sequential) and all(
            type(layer) is keras.layers.Dense
            and layer.use_bias
            and layer.activation in _NUMPY_ACTIVATIONS
            for layer in net.layers
        )

    def refresh(self) -> None:
        self.layers = [
            (layer.kernel.numpy(), layer.bias.numpy(), _NUMPY_ACTIVATIONS[layer.activation])
            for layer in self.net.layers
        ]
        if self.normalizer is not None:
            self.shift, self.scale = self.normalizer.shift_and_scale()

    def __call__(self, x: np.ndarray) -> np.ndarray:
        if self.normalizer is not None:
            x = ((x - self.shift) * self.scale).clip(-CLIP, CLIP)
        for kernel, bias, activation in self.layers:
            x = x @ kernel
            x += bias
            x = activation(x)
        return x


class Actor:
    """`act(obs, noise)`: the actions `[n, *act_shape]` that `noise` picks, and their values.

    Both are NumPy arrays. The values `[n]` are None unless they cost nothing, because the
    actor-critic's networks share their layers; else it is faster to compute them for many
    observations at once (`Critic`).
    obs: `[n, obs_dim]` or images; noise: as `ActionSpec.draw_noise` makes it. which environments
    of this process they are of makes no difference.
    Call `refresh` after the weights have changed.
    """

    def __init__(self, ac: policies.ActorCritic | q_actor_critic.QActorCritic):
        pi, normalizer = _without_normalization(ac.pi)
        if ac.shared:
            self._sampler = _SharedSampler(ac)
        elif type(pi) in _NUMPY_SAMPLERS and DenseStack.can_mirror(pi.net):
            self._sampler = _NUMPY_SAMPLERS[type(pi)](pi, normalizer)
        else:
            self._sampler = _CompiledSampler(ac.pi)

    def refresh(self) -> None:
        self._sampler.refresh()

    def __call__(
        self, obs: np.ndarray, noise: np.ndarray, which: slice = slice(None)
    ) -> tuple[np.ndarray, np.ndarray | None]:
        return self._sampler(obs, noise)


class _NumpySampler:
    """NumPy's version of `distributions.sample` for a policy whose network can be mirrored."""

    def __init__(self, pi, normalizer):
        self.pi = pi
        self.net = DenseStack(pi.net, normalizer)
        self.refresh()

    def refresh(self):
        self.net.refresh()

    def __call__(self, obs, noise):
        return self.sample(self.net(obs), noise), None


class _GaussianSampler(_NumpySampler):
    def refresh(self):
        super().refresh()
        self.std = np.exp(self.pi.log_std.numpy())

    def sample(self, mean, noise):
        return mean + self.std * noise


class _CategoricalSampler(_NumpySampler):
    def sample(self, logits, noise):
        if not self.pi.single:
            logits = np.where(self.pi.padding, -np.inf, logits[:, self.pi.index])
        return (logits + noise).argmax(-1)


class _SquashedGaussianSampler(_NumpySampler):
    def sample(self, mean_and_log_std, noise):
        act_dim = noise.shape[-1]
        mean, log_std = mean_and_log_std[:, :act_dim], mean_and_log_std[:, act_dim:]
        std = np.exp(log_std.clip(q_actor_critic.LOG_STD_MIN, q_actor_critic.LOG_STD_MAX))
        return np.tanh(mean + std * noise)


class _DeterministicSampler(_NumpySampler):
    def sample(self, act, noise):
        return act


class _CompiledSampler:
    """One compiled call for any other policy."""

    def __init__(self, pi):
        self.function = tf.function(lambda obs, noise: sample(pi(obs), noise))

    def refresh(self):
        """Nothing to do: the compiled function reads the weights themselves."""

    def __call__(self, obs, noise):
        return self.function(obs, noise).numpy(), None


class _SharedSampler:
    """One compiled call for actions and values."""

    def __init__(self, ac):
        def act_and_value(obs, noise):
            distribution, val = ac.pi_and_v(obs)
            return sample(distribution, noise), val

        self.function = tf.function(act_and_value)

    def refresh(self):
        """Nothing to do, as above."""

    def __call__(self, obs, noise):
        act, val = self.function(obs, noise)
        return act.numpy(), val.numpy()


_NUMPY_SAMPLERS = {
    policies.GaussianPolicy: _GaussianSampler,
    policies.CategoricalPolicy: _CategoricalSampler,
    q_actor_critic.SquashedGaussianPolicy: _SquashedGaussianSampler,
    q_actor_critic.DeterministicPolicy: _DeterministicSampler,
}


class Critic:
    """`value(obs)`: V as a NumPy array `[batch]`, for any batch size.

    Call `refresh` after the value function's weights have changed.
    """

    def __init__(self, v: keras.Model):
        self._mirror = None
        plain, normalizer = _without_normalization(v)
        if type(plain) is policies.ValueFunction and DenseStack.can_mirror(plain.net):
            self._mirror = DenseStack(plain.net, normalizer)
        # reduce_retracing lets the batch size change, from a whole epoch to a few time limits.
        self._function = tf.function(v, reduce_retracing=True)

    def refresh(self) -> None:
        if self._mirror is not None:
            self._mirror.refresh()

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        if self._mirror is not None:
            return self._mirror(obs)[:, 0]
        return self._function(obs).numpy()


def _without_normalization(model):
    """A model and what its observations are normalised by (None: they are not)."""
    return (model.model, model.normalizer) if isinstance(model, Normalized) else (model, None)
