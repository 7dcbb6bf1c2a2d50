"""Fast acting: stacks of Dense layers are mirrored in NumPy, other networks are compiled.

While acting, time is spent not on arithmetic but on the overhead of small calls: one observation
through a 64x64 policy takes about 10 microseconds in NumPy, and 300 or more through a compiled
TensorFlow function. Other Keras models are called once for all environments.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import keras
import numpy as np

from spinup_tf2.core.nets import numpy_policy
from spinup_tf2.core.nets.distributions import sample
from spinup_tf2.core.nets.layers import activation_name, compiled, read
from spinup_tf2.core.nets.normalization import CLIP, Normalized
from spinup_tf2.errors import UserError

# -------------------------------------------------------------------------- networks in NumPy


def layers_of(net: keras.Sequential) -> Iterator[keras.layers.Layer]:
    """Yield the layers of a stack, including those of nested stacks."""
    for layer in net.layers:
        yield from layers_of(layer) if type(layer) is keras.Sequential else [layer]


def numpy_layers(net: keras.Sequential) -> list[partial]:
    """Return the layers of a stack as functions of batches `[n, ...]`; see `numpy_steps`."""
    return [*map(_numpy_layer, layers_of(net))]


def numpy_steps(model: keras.Model) -> list[Any]:
    """Return a model as functions of batches `[n, ...]` in NumPy, with its current weights.

    The last is the head, which also takes noise if the model is a policy. UserError: the model is
    no head on a `keras.Sequential`, or a part of it has no equivalent in NumPy.
    """
    inside = isinstance(model, Normalized)
    head, normalizer = (model.model, model.normalizer) if inside else (model, None)
    # A class derived from a head or from Sequential may compute something else.
    if not ("numpy_head" in vars(type(head)) and type(head.net) is keras.Sequential):
        raise UserError(f"there is no copy in NumPy of {type(head).__name__}, or of its network")
    steps = [*numpy_layers(head.net), head.numpy_head()]
    if normalizer is not None:
        shift, scale = normalizer.shift_and_scale()
        steps.insert(0, partial(numpy_policy.normalize, shift=shift, scale=scale, clip=CLIP))
    return steps


def _numpy_layer(layer):
    kind, function = type(layer), getattr(layer, "activation", None)
    activation = activation_name(function)
    if kind is keras.layers.Rescaling:
        return partial(numpy_policy.rescale, scale=layer.scale, offset=layer.offset)
    if kind is keras.layers.Permute:
        return partial(numpy_policy.transpose, axes=(0, *layer.dims))
    if kind is keras.layers.Flatten:
        return partial(numpy_policy.flatten)
    if activation in numpy_policy.ACTIVATIONS and getattr(layer, "use_bias", False):
        weights = dict(kernel=read(layer.kernel), bias=read(layer.bias), activation=activation)
        if kind is keras.layers.Dense:
            return partial(numpy_policy.dense, **weights)
        if kind is keras.layers.Conv2D and _is_plain(layer):
            window = dict(stride=layer.strides[0], same=layer.padding == "same")
            return partial(numpy_policy.conv2d, **weights, **window)
    text = f" with activation {getattr(function, '__name__', function)}" if function else ""
    raise UserError(f"there is no copy in NumPy of a layer {kind.__name__}{text}")


def _is_plain(conv):
    options = conv.dilation_rate, conv.groups, conv.data_format
    return options == ((1, 1), 1, "channels_last") and conv.strides[0] == conv.strides[1]


def quick(layer: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Return a dense layer as a closure, which is called faster than a partial; others as given."""
    if layer.func is not numpy_policy.dense:
        return layer
    kernel, bias, activation = layer.keywords.values()
    activation = numpy_policy.ACTIVATIONS[activation]

    def dense(x):
        x = x @ kernel
        x += bias
        return activation(x)

    return dense


def mirror_of(model: keras.Model, kind: Callable[..., Any] | None = None) -> Any:
    """Return the mirror of a model, or None. (Convolutions are faster in TensorFlow.)"""
    try:
        mirror = (kind or Mirror)(model)
    except UserError:
        return None
    return None if any(each.func is numpy_policy.conv2d for each in mirror.layers) else mirror


class Mirror:
    """A NumPy copy of a head on a stack of layers, and of its normalization of observations.

    Call `refresh` after the weights have changed.
    """

    def __init__(self, model: keras.Model):
        self.model = model
        self.refresh()

    def refresh(self) -> None:
        *self.layers, self.head = numpy_steps(self.model)
        self.calls = [*map(quick, self.layers)]

    def __call__(self, x: np.ndarray, *noise: np.ndarray) -> np.ndarray:
        for call in self.calls:
            x = call(x)
        return self.head(x, *noise)


# ---------------------------------------------------------------------------- actor and critic


class Actor:
    """`act, extras = actor(obs, noise)`: actions, and what else a buffer shall keep of the step.

    Actions `[n, *act_shape]` are selected by noise from `ActionSpec.draw_noise`, for observations
    `[n, obs_dim]` or images; all are NumPy arrays. `extras` is a dict of arrays `[n, ...]`: `val`,
    V(obs), if policy and value function share layers, so that it costs almost nothing; otherwise it
    is faster to compute values for many observations at once (`Critic`). With a memory, see
    `recurrent_acting.RecurrentActor`. Call `refresh` after the weights have changed.
    """

    stateless = True  # it may be called for some of the environments

    def __init__(self, ac: Any):  # on-policy or off-policy
        def act(obs, noise):
            if not ac.shared:
                return sample(ac.pi(obs), noise), {}
            pi, val = ac.pi_and_v(obs)
            return sample(pi, noise), dict(val=val)

        self.ac, self.mirror, self._compiled = ac, mirror_of(ac.pi), compiled(act)

    def refresh(self) -> None:
        if self.mirror is not None:
            self.mirror.refresh()

    def __call__(
        self, obs: np.ndarray, noise: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        if self.mirror is not None:
            return self.mirror(obs, noise), {}
        act, extras = self._compiled(obs, noise)
        return act.numpy(), {name: x.numpy() for name, x in extras.items()}

    def critic(self) -> "Critic":
        """Return the critic of the same actor-critic."""
        return Critic(self.ac.v)

    def batch(self, rows: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Reshape rows `[T, n, ...]` to a batch to learn from, `[T * n, ...]`."""
        return {name: x.reshape(-1, *x.shape[2:]) for name, x in rows.items()}


class Critic:
    """`critic(obs)` returns V as a NumPy array `[m]`, for any number m of observations.

    Call `refresh` after the value function's weights have changed.
    """

    def __init__(self, v: keras.Model):
        # reduce_retracing lets the batch size change, from a whole epoch to a few time limits.
        self.mirror, self._compiled = mirror_of(v), compiled(v, reduce_retracing=True)

    def refresh(self) -> None:
        if self.mirror is not None:
            self.mirror.refresh()

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        return self._compiled(obs).numpy() if self.mirror is None else self.mirror(obs)

    def of_batch(self, rows: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return V of all observations in the rows of a TrajectoryBuffer, `[T, n]`."""
        obs, (steps, num_envs) = rows["obs"], rows["rew"].shape
        return self(obs.reshape(-1, *obs.shape[2:])).reshape(steps, num_envs)

    def after(
        self, rows: Mapping[str, np.ndarray], times: np.ndarray, envs: np.ndarray, obs: np.ndarray
    ) -> np.ndarray:
        """Return V `[m]` of the observations to which the steps at `times` in `envs` have led."""
        return self(obs)
