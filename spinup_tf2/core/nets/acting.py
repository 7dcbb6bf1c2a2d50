"""Fast acting: stacks of Dense layers are mirrored in NumPy, other networks are compiled.

While acting, time is spent not on arithmetic but on the overhead of small calls: one observation
through a 64x64 policy takes about 10 microseconds in NumPy, and 300 or more through a compiled
TensorFlow function. Other Keras models are called once for all environments.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Optional

import keras
import numpy as np

from spinup_tf2.core.nets import numpy_policy
from spinup_tf2.core.nets.distributions import sample
from spinup_tf2.core.nets.layers import activation_name, compiled
from spinup_tf2.core.nets.normalization import CLIP, Normalized
from spinup_tf2.errors import UserError

# ------------------------------------------------------------------- stacks of layers in NumPy


def is_dense_stack(net: Any) -> bool:
    """Return whether a network is a stack of Dense layers that has an equivalent in NumPy.

    A class derived from Sequential or Dense may compute something else.
    """
    return type(net) is keras.Sequential and all(
        type(layer) is keras.layers.Dense and layer.use_bias and _activation(layer)
        for layer in net.layers
    )


def dense_layers(net: keras.Sequential) -> list[tuple[np.ndarray, np.ndarray, Callable]]:
    """Return (kernel, bias, activation) of each layer of a stack of Dense layers, for NumPy."""
    return [(*_weights(layer).values(), _activation(layer)) for layer in net.layers]


def through(layers: list[tuple[np.ndarray, np.ndarray, Callable]], x: np.ndarray) -> np.ndarray:
    """Return the output of `dense_layers` for `x` `[n, inputs]`."""
    for kernel, bias, activation in layers:
        x = x @ kernel
        x += bias
        x = activation(x)
    return x


def _activation(layer):
    return numpy_policy.ACTIVATIONS.get(activation_name(layer.activation) or "")


def _weights(layer):
    return dict(kernel=layer.kernel.numpy(), bias=layer.bias.numpy())


def has_numpy_head(head: keras.Model) -> bool:
    """Return whether a head can act in NumPy: its own class must define the method (see Head)."""
    return "numpy_head" in vars(type(head))


def _without_normalization(model):
    """Return the model inside a Normalized one, and its normalizer (None for any other model)."""
    return (model.model, model.normalizer) if isinstance(model, Normalized) else (model, None)


class Mirror:
    """A NumPy copy of a head on a stack of Dense layers, and of its normalization of observations.

    Call `refresh` after the weights have changed.
    """

    def __init__(self, model: keras.Model):
        self.head, self.normalizer = _without_normalization(model)
        self.refresh()

    @staticmethod
    def of(model: keras.Model) -> Optional["Mirror"]:
        """Return the mirror of a model, or None. (Convolutions are faster in TensorFlow.)"""
        head, _ = _without_normalization(model)
        return Mirror(model) if has_numpy_head(head) and is_dense_stack(head.net) else None

    def refresh(self) -> None:
        self.layers, self.numpy_head = dense_layers(self.head.net), self.head.numpy_head()
        if self.normalizer is not None:
            self.shift, self.scale = self.normalizer.shift_and_scale()

    def __call__(self, x: np.ndarray, *noise: np.ndarray) -> np.ndarray:
        if self.normalizer is not None:
            x = ((x - self.shift) * self.scale).clip(-CLIP, CLIP)
        return self.numpy_head(through(self.layers, x), *noise)


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

        self.mirror, self._compiled = Mirror.of(ac.pi), compiled(act)

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


class Critic:
    """`critic(obs)` returns V as a NumPy array `[m]`, for any number m of observations.

    Call `refresh` after the value function's weights have changed.
    """

    def __init__(self, v: keras.Model):
        # reduce_retracing lets the batch size change, from a whole epoch to a few time limits.
        self.mirror, self._compiled = Mirror.of(v), compiled(v, reduce_retracing=True)

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


# ------------------------------------------------------------------------- for exports to NumPy


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
    if not (has_numpy_head(head) and type(head.net) is keras.Sequential):
        raise UserError(f"there is no copy in NumPy of {type(head).__name__}, or of its network")
    steps = []
    if normalizer is not None:
        shift, scale = normalizer.shift_and_scale()
        steps.append(partial(numpy_policy.normalize, shift=shift, scale=scale, clip=CLIP))
    return [*steps, *map(_numpy_layer, layers_of(head.net)), head.numpy_head()]


def layers_of(net: keras.Sequential) -> Iterator[keras.layers.Layer]:
    """Yield the layers of a stack, including those of nested stacks."""
    for layer in net.layers:
        if type(layer) is keras.Sequential:
            yield from layers_of(layer)
        else:
            yield layer


def _numpy_layer(layer):
    kind, name = type(layer), activation_name(getattr(layer, "activation", None))
    if kind is keras.layers.Rescaling:
        return partial(numpy_policy.rescale, scale=layer.scale, offset=layer.offset)
    if kind is keras.layers.Permute:
        return partial(numpy_policy.transpose, axes=(0, *layer.dims))
    if kind is keras.layers.Flatten:
        return partial(numpy_policy.flatten)
    if name in numpy_policy.ACTIVATIONS and getattr(layer, "use_bias", False):
        if kind is keras.layers.Dense:
            return partial(numpy_policy.dense, **_weights(layer), activation=name)
        if kind is keras.layers.Conv2D and _is_plain(layer):
            window = dict(stride=layer.strides[0], same=layer.padding == "same")
            return partial(numpy_policy.conv2d, **_weights(layer), activation=name, **window)
    function = getattr(layer, "activation", None)
    activation = f" with activation {getattr(function, '__name__', function)}" if function else ""
    raise UserError(f"there is no copy in NumPy of a layer {kind.__name__}{activation}")


def _is_plain(conv):
    options = conv.dilation_rate, conv.groups, conv.data_format
    return options == ((1, 1), 1, "channels_last") and conv.strides[0] == conv.strides[1]
