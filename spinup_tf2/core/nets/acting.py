"""Turns a policy into a fast `act(obs, noise)` and a value function into a fast `value(obs)`.

What costs time while acting is not arithmetic but the overhead of small calls: one observation
through a 64x64 policy takes about 10 microseconds in NumPy and 300 or more through a compiled
TensorFlow function. So stacks of Dense layers are mirrored in NumPy; every other Keras model is
called through one compiled function for all environments.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from spinup_tf2.core.nets.distributions import sample
from spinup_tf2.core.nets.normalization import CLIP, Normalized

_NUMPY_ACTIVATIONS: dict[Any, Callable] = {
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


class Mirror:
    """A NumPy copy of a head on a stack of Dense layers; `refresh` reads the weights again.

    Args:
        model: A model that `can_mirror`. What normalizes its observations is copied as well.
    """

    def __init__(self, model: keras.Model):
        self.head, self.normalizer = _without_normalization(model)
        self.refresh()

    @staticmethod
    def can_mirror(model: keras.Model) -> bool:
        """Whether NumPy has all that the model consists of."""
        head, _ = _without_normalization(model)
        return (
            "numpy_head" in vars(type(head))  # of its own, see Head
            and isinstance(head.net, keras.Sequential)
            and all(
                type(layer) is keras.layers.Dense
                and layer.use_bias
                and layer.activation in _NUMPY_ACTIVATIONS
                for layer in head.net.layers
            )
        )

    def refresh(self) -> None:
        self.layers = [
            (layer.kernel.numpy(), layer.bias.numpy(), _NUMPY_ACTIVATIONS[layer.activation])
            for layer in self.head.net.layers
        ]
        self.numpy_head = self.head.numpy_head()
        if self.normalizer is not None:
            self.shift, self.scale = self.normalizer.shift_and_scale()

    def __call__(self, x: np.ndarray, *noise: np.ndarray) -> np.ndarray:
        if self.normalizer is not None:
            x = ((x - self.shift) * self.scale).clip(-CLIP, CLIP)
        for kernel, bias, activation in self.layers:
            x = x @ kernel
            x += bias
            x = activation(x)
        return self.numpy_head(x, *noise)


class Actor:
    """`act(obs, noise)`: the actions `[n, *act_shape]` that `noise` picks, and their values.

    Both are NumPy arrays, for observations `[n, obs_dim]` or images, and noise as
    `ActionSpec.draw_noise` makes it. The values `[n]` are None unless they cost nothing, because
    the actor-critic's networks share their layers; else it is faster to compute them for many
    observations at once (`Critic`). A third argument is ignored; Demonstrations, which are called
    in the same way, need it. Call `refresh` after the weights have changed.
    """

    def __init__(self, ac: Any):  # of either kind
        def act_and_value(obs, noise):
            pi, val = ac.pi_and_v(obs) if ac.shared else (ac.pi(obs), None)
            return sample(pi, noise), val

        self.mirror = Mirror(ac.pi) if not ac.shared and Mirror.can_mirror(ac.pi) else None
        self._compiled = tf.function(act_and_value)

    def refresh(self) -> None:
        if self.mirror is not None:
            self.mirror.refresh()

    def __call__(
        self, obs: np.ndarray, noise: np.ndarray, which: slice = slice(None)
    ) -> tuple[np.ndarray, np.ndarray | None]:
        if self.mirror is not None:
            return self.mirror(obs, noise), None
        act, val = self._compiled(obs, noise)
        return act.numpy(), None if val is None else val.numpy()


class Critic:
    """`value(obs)`: V as a NumPy array `[batch]`, for any batch size.

    Call `refresh` after the value function's weights have changed.
    """

    def __init__(self, v: keras.Model):
        self.mirror = Mirror(v) if Mirror.can_mirror(v) else None
        # reduce_retracing lets the batch size change, from a whole epoch to a few time limits.
        self._compiled = tf.function(v, reduce_retracing=True)

    def refresh(self) -> None:
        if self.mirror is not None:
            self.mirror.refresh()

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        return self._compiled(obs).numpy() if self.mirror is None else self.mirror(obs)


def _without_normalization(model):
    """A model and what its observations are normalized by (None: they are not)."""
    return (model.model, model.normalizer) if isinstance(model, Normalized) else (model, None)
