"""Turns a policy into a fast `act(obs, noise)` and a value function into a fast `value(obs)`.

While acting, time is spent not on arithmetic but on the overhead of small calls: one observation
through a 64x64 policy takes about 10 microseconds in NumPy and 300 or more through a compiled
TensorFlow function. So stacks of Dense layers are mirrored in NumPy; every other Keras model is
called through one compiled function for all environments.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import keras
import numpy as np

from spinup_tf2.core.nets import numpy_policy
from spinup_tf2.core.nets.compiled import compiled
from spinup_tf2.core.nets.distributions import sample
from spinup_tf2.core.nets.layers import NAMES
from spinup_tf2.core.nets.normalization import CLIP, Normalized
from spinup_tf2.errors import UserError

_NUMPY_NAME = {
    function: name for function, name in NAMES.items() if name in numpy_policy.ACTIVATIONS
}


def numpy_steps(model: keras.Model) -> list[Callable[..., np.ndarray]]:
    """Return a model as a sequence of functions of NumPy arrays, with its current weights.

    All but the last take a batch `[n, ...]` and return one. The last is the head, which also takes
    noise if the model is a policy.

    Args:
        model: A head on a `keras.Sequential`, or a Normalized model of this kind.

    Raises:
        UserError: A part of the model has no equivalent in NumPy.
    """
    head, normalizer = _without_normalization(model)
    if not _is_stack(head):
        raise UserError(f"there is no copy in NumPy of {type(head).__name__}, or of its network")
    steps = []
    if normalizer is not None:
        shift, scale = normalizer.shift_and_scale()
        steps.append(partial(numpy_policy.normalize, shift=shift, scale=scale, clip=CLIP))
    return [*steps, *map(_numpy_layer, layers_of(head.net)), head.numpy_head()]


def has_numpy_head(head: keras.Model) -> bool:
    """Return whether a head can act in NumPy: its own class must define the method (see Head)."""
    return "numpy_head" in vars(type(head))


def _is_stack(head):
    # A subclass may compute something else with its layers.
    return has_numpy_head(head) and type(head.net) is keras.Sequential


def layers_of(net: keras.Sequential) -> Iterator[keras.layers.Layer]:
    """Yield the layers of a stack, including those of nested stacks."""
    for layer in net.layers:
        if type(layer) is keras.Sequential:
            yield from layers_of(layer)
        else:
            yield layer


def _numpy_layer(layer):
    kind = type(layer)
    if kind is keras.layers.Rescaling:
        return partial(numpy_policy.rescale, scale=layer.scale, offset=layer.offset)
    if kind is keras.layers.Permute:
        return partial(numpy_policy.transpose, axes=(0, *layer.dims))
    if kind is keras.layers.Flatten:
        return partial(numpy_policy.flatten)
    if is_numpy_dense(layer):
        activation = _NUMPY_NAME[layer.activation]
        return partial(numpy_policy.dense, **_weights(layer), activation=activation)
    plain = dict(dilation_rate=(1, 1), groups=1, data_format="channels_last", use_bias=True)
    if (
        kind is keras.layers.Conv2D
        and all(getattr(layer, name) == value for name, value in plain.items())
        and layer.strides[0] == layer.strides[1]
        and layer.activation in _NUMPY_NAME
    ):
        return partial(
            numpy_policy.conv2d,
            **_weights(layer),
            activation=_NUMPY_NAME[layer.activation],
            stride=layer.strides[0],
            same=layer.padding == "same",
        )
    function = getattr(layer, "activation", None)
    activation = f" with activation {getattr(function, '__name__', function)}" if function else ""
    raise UserError(f"there is no copy in NumPy of a layer {kind.__name__}{activation}")


def is_numpy_dense(layer: keras.layers.Layer) -> bool:
    """Return whether a layer is a Dense layer that has an equivalent in NumPy."""
    return type(layer) is keras.layers.Dense and layer.use_bias and layer.activation in _NUMPY_NAME


def _weights(layer):
    return dict(kernel=layer.kernel.numpy(), bias=layer.bias.numpy())


def dense_layers(net: keras.Sequential) -> list[tuple[np.ndarray, np.ndarray, Callable]]:
    """Return (kernel, bias, activation) of each layer of a stack of Dense layers, for NumPy."""
    return [
        (*_weights(layer).values(), numpy_policy.ACTIVATIONS[_NUMPY_NAME[layer.activation]])
        for layer in net.layers
    ]


class Mirror:
    """A NumPy copy of a head on a stack of Dense layers; `refresh` copies the weights again.

    Args:
        model: A model for which `can_mirror` is True. Its normalization of observations is copied
            as well.
    """

    def __init__(self, model: keras.Model):
        self.head, self.normalizer = _without_normalization(model)
        self.refresh()

    @staticmethod
    def can_mirror(model: keras.Model) -> bool:
        """Return whether a model can be mirrored. (Convolutions are faster in TensorFlow.)"""
        head, _ = _without_normalization(model)
        return _is_stack(head) and all(map(is_numpy_dense, head.net.layers))

    def refresh(self) -> None:
        # The functions of numpy_steps, inlined: calling each layer would take a quarter longer.
        self.layers = dense_layers(self.head.net)
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
    """`act(obs, noise)` returns the actions `[n, *act_shape]` that `noise` selects, and V(obs).

    Both are NumPy arrays, for observations `[n, obs_dim]` or images, and noise from
    `ActionSpec.draw_noise`. The values `[n]` are None unless policy and value function share
    layers, so that values cost almost nothing; otherwise it is faster to compute them for many
    observations at once (`Critic`). A third argument is ignored; Demonstrations and RecurrentActor,
    which are called in the same way, need it. Call `refresh` after the weights have changed.
    """

    def __init__(self, ac: Any):  # on-policy or off-policy
        def act_and_value(obs, noise):
            pi, val = ac.pi_and_v(obs) if ac.shared else (ac.pi(obs), None)
            return sample(pi, noise), val

        self.mirror = Mirror(ac.pi) if Mirror.can_mirror(ac.pi) else None
        self._compiled = compiled(act_and_value)

    def acting_in(self, envs: Any) -> "Actor":
        """Return an actor for other environments: itself, because it has no state."""
        return self

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
    """`value(obs)` returns V as a NumPy array `[batch]`, for any batch size.

    Call `refresh` after the value function's weights have changed.
    """

    def __init__(self, v: keras.Model):
        self.mirror = Mirror(v) if Mirror.can_mirror(v) else None
        # reduce_retracing lets the batch size change, from a whole epoch to a few time limits.
        self._compiled = compiled(v, reduce_retracing=True)

    def refresh(self) -> None:
        if self.mirror is not None:
            self.mirror.refresh()

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        return self._compiled(obs).numpy() if self.mirror is None else self.mirror(obs)


def _without_normalization(model):
    """Return the model inside a Normalized one, and its normalizer (None for any other model)."""
    return (model.model, model.normalizer) if isinstance(model, Normalized) else (model, None)
