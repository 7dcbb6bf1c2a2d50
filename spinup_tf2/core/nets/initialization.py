"""Initialization of network weights."""

from collections.abc import Callable
from typing import Any

import keras

from spinup_tf2.errors import UserError


def first_weights(ac: Any, made_by: Callable[..., Any], init: str | None, default: str) -> None:
    """Initialize the weights of all networks of an actor-critic.

    Args:
        ac: The actor-critic, built.
        made_by: The function or class that created it. Unless it is a class with `takes_init`, the
            weights are kept if `init` is None.
        init: The algorithms' argument of this name.
        default: The initialization to use if `init` is None.

    Raises:
        UserError: A network has no layers that can be initialized.
    """
    if init is None and not getattr(made_by, "takes_init", False):
        return
    init = init or default
    done: set[int] = set()  # layers that networks have in common are initialized once
    for network in ac.networks:
        layers = _layers_with_kernels(network)
        if not layers:
            raise UserError(
                f"init is {init!r}, but no Dense or Conv2D layer was found in {network.name}; "
                "they are looked for in Keras models and the models that these consist of."
            )
        output_gain = 0.01 if network is ac.pi else 1.0
        for layer in layers:
            if id(layer) not in done:
                initialize(layer, init, output_gain if layer is layers[-1] else 2**0.5)
        done.update(map(id, layers))


def initialize(layer: keras.layers.Layer, init: str, gain: float) -> None:
    """Initialize the kernel and the bias of a Dense or Conv2D layer.

    ============  ===============================================================================
    'glorot'      kernels uniform within sqrt(6 / (fan_in + fan_out)), biases 0: TensorFlow's own
                  (Glorot and Bengio 2010)
    'torch'       kernels and biases uniform within 1 / sqrt(fan_in): PyTorch's own
    'orthogonal'  kernels with W^T W = gain^2 I, biases 0 (Saxe et al. 2014)
    ============  ===============================================================================

    Like all initializers, these are seeded by keras.utils.set_random_seed.
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
