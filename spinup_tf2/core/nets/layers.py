"""Multilayer perceptrons and convolutions, the initial weights of networks, and compilation."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from spinup_tf2.arguments.rules import ACTIVATIONS, activation_of_class
from spinup_tf2.core.workers.randomness import GLOBAL_GENERATORS
from spinup_tf2.envs.spaces import channels_first
from spinup_tf2.errors import UserError

if keras.backend.backend() != "tensorflow":  # loaded before spinup_tf2 could choose
    raise UserError(
        f"Keras was loaded with the backend {keras.backend.backend()!r}; import spinup_tf2 before "
        "keras, or set KERAS_BACKEND=tensorflow."
    )

Activation = str | Callable[[tf.Tensor], tf.Tensor] | None  # None is linear


def compiled(
    function: Callable, autograph: bool = False, **options: Any
) -> tf.types.experimental.PolymorphicFunction:
    """Compile a function of a run with `tf.function`, by default without AutoGraph, which is slow.

    Only a function with an `if` or a `while` over tensors needs it.
    """
    # TensorFlow warns of code that is compiled again in each run. A partial has no code of its own.
    return tf.function(partial(function), autograph=autograph, **options)


def read(variable: keras.Variable) -> np.ndarray:
    """Return a copy of a variable, in less than half the time of its method `numpy`."""
    value = variable.value
    return tf.raw_ops.ReadVariableOp(resource=value.handle, dtype=value.dtype).numpy()


# ------------------------------------------------------------------------------- activations


@keras.saving.register_keras_serializable("spinup_tf2")
def tanh(x: tf.Tensor) -> tf.Tensor:
    """The tanh, with a gradient that is not 0 where its value rounds to 1 or -1.

    `d tanh(x) / dx = 1 - tanh(x)^2 = 4 e / (1 + e)^2,  e = exp(-2 |x|)`

    TensorFlow computes the first form, which in float32 is 0 where the value rounds to 1, for x
    beyond 8 or 9 on either side: a policy whose actions have reached their bounds would never
    change again. The last form is positive up to 43. From about 12 on, it is too small for Adam to
    take a step.
    """
    return _tanh(x)  # Keras deserializes a function by its name, which a custom gradient hides


@tf.custom_gradient
def _tanh(x):
    def gradient(upstream):
        e = tf.exp(-2 * tf.abs(x))
        return upstream * 4 * e / tf.square(1 + e)

    return tf.tanh(x), gradient


# Functions of TensorFlow that Spinning Up's users pass, and the names of the same in Keras.
_SAME_IN_KERAS = {
    getattr(tf.nn, name): name
    for name in ("elu", "relu", "selu", "sigmoid", "silu", "softplus", "tanh")
} | {tf.identity: "linear"}


def _keras_activation(activation):
    if inspect.isclass(activation):
        activation = activation_of_class(activation.__name__) or activation
    if callable(activation):
        activation = _SAME_IN_KERAS.get(activation, activation)
    return keras.activations.get(activation)


# One name for each activation function of Keras layers: silu, not swish.
_NAMES = {_keras_activation(name): name for name in reversed(ACTIVATIONS)} | {tanh: "tanh"}


def activation_name(activation: Activation) -> str | None:
    """Return the name in ACTIVATIONS of an activation as `mlp` takes it; None if it has none."""
    return _NAMES.get(_keras_activation(activation))


# ------------------------------------------------------------------------------------ layers


def mlp(
    input_dim: int,
    hidden_sizes: Sequence[int],
    output_dim: int,
    activation: Activation = "tanh",
    output_activation: Activation = None,
) -> keras.Sequential:
    """Return a multilayer perceptron: Dense layers with Glorot-uniform kernels and zero biases.

    Args:
        input_dim, output_dim: Widths of the input `[batch, input_dim]` and output.
        hidden_sizes: Widths of the hidden layers.
        activation, output_activation: Names that Keras knows, or functions of a tensor.
    """
    layers = [keras.layers.Dense(size, _keras_activation(activation)) for size in hidden_sizes]
    layers.append(keras.layers.Dense(output_dim, _keras_activation(output_activation)))
    return keras.Sequential([keras.Input((input_dim,)), *layers])


# (filters, kernel size, stride) of each layer, and the padding.
LAYERS_OF = {
    "nature": (((32, 8, 4), (64, 4, 2), (64, 3, 1)), "valid"),
    "small": (((32, 3, 2),) * 4, "same"),
    "minatar": (((16, 3, 1),), "valid"),
}
IMPALA = (16, 32, 32)  # the filters of each block; each block halves height and width


class Residual(keras.Model):
    """x + f(x), for a model f whose output has the shape of its input."""

    def __init__(self, net: keras.Model):
        super().__init__()
        self.net = net

    def call(self, x: tf.Tensor) -> tf.Tensor:
        # TensorFlow tries to fuse x + f(x) with the operations around it; with oneDNN that fails,
        # and an error is printed although the computation continues.
        return x - tf.negative(self.net(x))


def impala(activation: Callable[[tf.Tensor], tf.Tensor]) -> list[keras.layers.Layer]:
    """Return the convolutions of the larger network of IMPALA (Espeholt et al. 2018, figure 3).

    Each block consists of a convolution, max pooling of 3 x 3 pixels with stride 2, and two
    residual blocks of two convolutions each. All convolutions are 3 x 3.
    """

    def convolution(filters):
        return keras.layers.Conv2D(filters, 3, padding="same", data_format="channels_last")

    def activated():
        return keras.layers.Activation(activation)

    layers = []
    for n in IMPALA:
        residuals = [
            Residual(keras.Sequential([activated(), convolution(n), activated(), convolution(n)]))
            for _ in range(2)
        ]
        pooling = keras.layers.MaxPooling2D(3, 2, "same", "channels_last")
        layers += [convolution(n), pooling, *residuals]
    return [*layers, activated()]


def cnn(
    input_shape: tuple[int, ...],
    conv: str | Sequence[tuple[int, int, int]] | None = None,
    hidden_sizes: Sequence[int] = (512,),
    activation: Activation = "relu",
    background: float = 0.0,
    of_bytes: bool = True,
) -> keras.Sequential:
    """Return convolutions and dense layers, from uint8 images `[batch, *input_shape]` to features.

    Bytes are scaled to 0 ... 1, and `background` is subtracted from them. Kernels are
    Glorot-uniform, biases zero.

    Args:
        input_shape: (height, width, channels) or (channels, height, width); the channels are the
            smallest dimension.
        conv: 'impala', a name in LAYERS_OF such as 'nature' (Mnih et al. 2015), or a list of
            (filters, kernel size, stride), with zero padding. None means 'nature', or 'minatar'
            (Young and Tian 2019) for images of less than 36 x 36 pixels, which 'nature' needs.
        hidden_sizes: Widths of the dense layers after the convolutions.
        activation: Activation of all layers: a name that Keras knows, or a function of a tensor.
        background: Gray value, between 0 and 1, that is subtracted from the scaled pixels.
        of_bytes: Whether pixels go from 0 to 255; otherwise they are 0 or 1.

    Raises:
        UserError: The input is not an image.
        ValueError: The images are too small for the convolutions.
    """
    if len(input_shape) != 3:
        raise UserError(
            f"The convolutions are for images of three dimensions, uint8, and observations have "
            f"the shape {(*input_shape,)}. Use MLPActorCritic, or MLPQActorCritic."
        )
    function = _keras_activation(activation)
    conv = conv or ("nature" if sorted(input_shape)[1] >= 36 else "minatar")
    if conv == "impala":
        convolutions = impala(function)
    else:
        layers, padding = LAYERS_OF[conv] if isinstance(conv, str) else (conv, "same")
        convolutions = [
            keras.layers.Conv2D(*each, padding, "channels_last", activation=function)
            for each in layers
        ]
    return keras.Sequential(
        [
            keras.Input(input_shape, dtype="uint8"),
            *([keras.layers.Permute((2, 3, 1))] if channels_first(input_shape) else []),
            keras.layers.Rescaling(1 / 255 if of_bytes else 1.0, -background),
            *convolutions,
            keras.layers.Flatten("channels_last"),
            *[keras.layers.Dense(size, function) for size in hidden_sizes],
        ]
    )


def count_variables(model: Any) -> int:
    """Return the number of trainable parameters of a Keras model or an actor-critic."""
    return sum(int(tf.size(variable)) for variable in model.trainable_variables)


# --------------------------------------------------------------------------- initial weights


@contextmanager
def initial_weights_from(seed: int) -> Iterator[None]:
    """Context manager in which networks get their initial weights: the same for the same seed."""
    with GLOBAL_GENERATORS:  # of the process: runs in other threads wait
        keras.utils.set_random_seed(int(seed))
        yield


def first_weights(ac: Any, made_by: Callable[..., Any], init: str | None, default: str) -> None:
    """Initialize the weights of all networks of an actor-critic that `made_by` has made.

    If `init` is None, by the algorithm's `default`, or unless `made_by` has `takes_init`, not.
    """
    if init is None and not getattr(made_by, "takes_init", False):
        return
    init = init or default
    done: set[int] = set()  # layers that networks have in common are initialized once
    for network in ac.networks:
        layers = _layers_with_kernels(network)
        if not layers:
            raise UserError(f"init is {init!r}; {network.name} has no Dense and no Conv2D layer.")
        output_gain = 0.01 if network is ac.pi else 1.0
        for layer in layers:
            if id(layer) not in done:
                initialize(layer, init, output_gain if layer is layers[-1] else 2**0.5)
        done.update(map(id, layers))


def initialize(layer: keras.layers.Layer, init: str, gain: float) -> None:
    """Initialize the kernel and the bias of a Dense or Conv2D layer.

    'glorot': kernels uniform within sqrt(6 / (fan_in + fan_out)), biases 0 (Glorot and Bengio
    2010). 'torch': kernels and biases uniform within 1 / sqrt(fan_in). 'orthogonal': kernels with
    W^T W = gain^2 I, biases 0 (Saxe et al. 2014).
    """
    *window, inputs, _outputs = layer.kernel.shape
    fan_in = inputs * window[0] * window[1] if window else inputs
    kernel, bias = {
        "glorot": (keras.initializers.GlorotUniform(), keras.initializers.Zeros()),
        "torch": (_uniform(fan_in**-0.5), _uniform(fan_in**-0.5)),
        "orthogonal": (keras.initializers.Orthogonal(gain), keras.initializers.Zeros()),
    }[init]
    layer.kernel.assign(kernel(layer.kernel.shape))
    if layer.bias is not None:
        layer.bias.assign(bias(layer.bias.shape))


def _uniform(limit):
    return keras.initializers.RandomUniform(-limit, limit)


def _layers_with_kernels(model):
    found = []
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            found += _layers_with_kernels(layer)
        elif isinstance(layer, keras.layers.Dense | keras.layers.Conv2D):
            found.append(layer)
    return found
