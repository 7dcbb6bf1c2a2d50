"""Keras bodies of policies and value functions."""

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from spinup_tf2.errors import UserError

if keras.backend.backend() != "tensorflow":  # loaded before spinup_tf2 could choose
    raise UserError(
        f"Keras was loaded with the backend {keras.backend.backend()!r}; import spinup_tf2 before "
        "keras, or set KERAS_BACKEND=tensorflow."
    )

# The TensorFlow functions that Spinning Up's users pass, and the Keras functions they are.
_KERAS_NAME = {
    tf.nn.relu: "relu",
    tf.nn.tanh: "tanh",
    tf.nn.elu: "elu",
    tf.nn.selu: "selu",
    tf.nn.sigmoid: "sigmoid",
    tf.nn.softplus: "softplus",
    tf.nn.silu: "silu",
    tf.identity: "linear",
}


def mlp(
    input_dim: int,
    hidden_sizes: Sequence[int],
    output_dim: int,
    activation: str | Callable[[tf.Tensor], tf.Tensor] | None = "tanh",
    output_activation: str | Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> keras.Sequential:
    """A multilayer perceptron: Dense layers with Glorot-uniform kernels and zero biases.

    input_dim, output_dim: widths of the input `[batch, input_dim]` and output.
    hidden_sizes: widths of the hidden layers.
    activation, output_activation: names that Keras knows, or functions of a tensor; None is linear.
    """
    layers = [keras.layers.Dense(size, _keras_activation(activation)) for size in hidden_sizes]
    layers.append(keras.layers.Dense(output_dim, _keras_activation(output_activation)))
    return keras.Sequential([keras.Input((input_dim,)), *layers])


def _keras_activation(activation):
    if callable(activation):
        activation = _KERAS_NAME.get(activation, activation)
    return keras.activations.get(activation)


def count_variables(model: keras.Model) -> int:
    """The number of trainable parameters of a model."""
    return sum(int(tf.size(variable)) for variable in model.trainable_variables)
