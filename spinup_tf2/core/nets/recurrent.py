"""Networks with a memory: an LSTM or a GRU between the hidden layers and the output layer.

They take `Sequences` instead of observations, and return distributions and values of shape
[segments, steps]. The state of all cells of an actor-critic is one vector.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from spinup_tf2.core.nets.distributions import Distribution
from spinup_tf2.core.nets.layers import Activation, mlp


class Sequences(NamedTuple):
    """Segments of consecutive steps, each from one environment.

    Attributes:
        obs: Observations `[segments, steps, ...]`.
        first: Bool `[segments, steps]`, whether an episode begins with this step.
        state: State before the first step, `[segments, size]`.
    """

    obs: tf.Tensor
    first: tf.Tensor
    state: tf.Tensor


def single_steps(obs: Any, state: Any) -> Sequences:
    """Return segments of one step each, from observations `[n, ...]` and states `[n, size]`."""
    return Sequences(obs[:, None], tf.zeros_like(state[:, :1], tf.bool), state)


# ------------------------------------------------------------------------------------- cells


class Cell(keras.layers.Layer):
    """The weights of a recurrent layer, in Keras's layout, and one step of it.

    Keras's own cells are not used: they multiply the input by the kernel step by step, instead of
    for all steps of a segment at once, and each has a random generator for dropout among its
    variables.

    Attributes:
        gates: Number of vectors that a step computes.
        parts: Number of vectors in the state. The first one is also the output.
        biases: (2,) if the state has a bias of its own.
    """

    gates: ClassVar[int]
    parts: ClassVar[int]
    biases: ClassVar[tuple] = ()

    def __init__(self, inputs: int, units: int):
        super().__init__()
        self.units = units
        width = self.gates * units
        self.kernel = self._weight("kernel", (inputs, width), "glorot_uniform")
        self.recurrent_kernel = self._weight("recurrent_kernel", (units, width), "orthogonal")
        self.bias = self._weight("bias", (*self.biases, width), "zeros")
        self.built = True

    def _weight(self, name, shape, initializer):
        return self.add_weight(name=name, shape=shape, initializer=initializer)

    def project(self, x: tf.Tensor) -> tf.Tensor:
        """Return the contribution of inputs `[m, inputs]` to the gates, `[m, gates * units]`."""
        return tf.matmul(x, self.kernel) + self.bias

    def step(self, x: tf.Tensor, remembered: list[tf.Tensor]) -> list[tf.Tensor]:
        """Return the state after a step, a list of `parts` tensors `[n, units]`.

        Args:
            x: The projected input of the step.
            remembered: The state before the step.
        """
        raise NotImplementedError


class LSTM(Cell):
    """Long short-term memory (Hochreiter and Schmidhuber 1997; with forget gates, Gers 2000)."""

    gates, parts = 4, 2

    def __init__(self, inputs: int, units: int):
        super().__init__(inputs, units)
        self.bias.assign(np.repeat([0.0, 1.0, 0.0, 0.0], units))  # at first, forget little

    def step(self, x: tf.Tensor, remembered: list[tf.Tensor]) -> list[tf.Tensor]:
        h, c = remembered
        i, f, new, o = tf.split(x + tf.matmul(h, self.recurrent_kernel), 4, axis=1)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(new)
        return [tf.sigmoid(o) * tf.tanh(c), c]


class GRU(Cell):
    """Gated recurrent unit (Cho et al. 2014); as in Keras, it resets after the matrix product."""

    gates, parts, biases = 3, 1, (2,)

    def project(self, x: tf.Tensor) -> tf.Tensor:
        return tf.matmul(x, self.kernel) + self.bias[0]

    def step(self, x: tf.Tensor, remembered: list[tf.Tensor]) -> list[tf.Tensor]:
        (h,) = remembered
        x_z, x_r, x_new = tf.split(x, 3, axis=1)
        h_z, h_r, h_new = tf.split(tf.matmul(h, self.recurrent_kernel) + self.bias[1], 3, axis=1)
        z, new = tf.sigmoid(x_z + h_z), tf.tanh(x_new + tf.sigmoid(x_r + h_r) * h_new)
        return [z * h + (1 - z) * new]


CELLS: dict[str, type[Cell]] = {"lstm": LSTM, "gru": GRU}


# ---------------------------------------------------------------------------------- networks


class Trunk(keras.Model):
    """Layers that process each observation on its own, followed by a recurrent cell.

    Args:
        body: A model from observations `[batch, ...]` to features; None: the observations are the
            features.
        features: The number of features.
        memory: Name of the cell, a key of CELLS.
        memory_size: Width of the cell.

    Attributes:
        size: Length of the cell's state.
        place: Slice of the actor-critic's state that is the cell's state.
    """

    def __init__(self, body: keras.Model | None, features: int, memory: str, memory_size: int):
        super().__init__()
        self.body = body
        self.cell = CELLS[memory](features, memory_size)
        self.size = self.cell.parts * memory_size
        self.place = slice(0, self.size)
        self.built = True

    def call(self, sequences: Sequences) -> tf.Tensor:
        """Return the cell's output `[segments, steps, units]`."""
        return self.unroll(sequences)[0]

    def unroll(self, sequences: Sequences) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the cell's output and its state after the last step, `[segments, size]`."""
        obs, first, state = sequences
        steps = obs.shape[1]
        x = tf.reshape(obs, [-1, *obs.shape[2:]])  # all observations at once
        x = self.cell.project(x if self.body is None else self.body(x))
        x = tf.transpose(tf.reshape(x, [-1, steps, x.shape[-1]]), [1, 0, 2])  # time first
        # Nothing is carried over from one episode to the next.
        keep = 1 - tf.cast(tf.transpose(first), x.dtype)[..., None]
        remembered = tf.split(state[:, self.place], self.cell.parts, axis=1)

        def step(t, remembered, outputs):
            remembered = self.cell.step(x[t], [keep[t] * each for each in remembered])
            return t + 1, remembered, outputs.write(t, remembered[0])

        start = (0, remembered, tf.TensorArray(x.dtype, steps))
        # A loop in the graph: unrolled, it would take long to compile, the more steps the longer.
        _, remembered, outputs = tf.while_loop(lambda t, *_: t < steps, step, start)
        return tf.transpose(outputs.stack(), [1, 0, 2]), tf.concat(remembered, axis=1)


class RecurrentNet(keras.Model):
    """A trunk with a Dense layer on its output: the `net` of a `Head`.

    Args:
        trunk: The trunk, which may be shared with another `RecurrentNet`.
        outputs: Width of the Dense layer.
    """

    def __init__(self, trunk: Trunk, outputs: int):
        super().__init__()
        self.trunk = trunk
        self.to_output = keras.layers.Dense(outputs)
        self.to_output.build((None, trunk.cell.units))
        self.built = True

    def call(self, sequences: Sequences) -> tf.Tensor:
        return self.to_output(self.trunk(sequences))


def recurrent_mlp(
    input_dim: int,
    hidden_sizes: Sequence[int],
    outputs: int,
    activation: Activation,
    memory: str,
    memory_size: int,
) -> RecurrentNet:
    """Return a multilayer perceptron with a recurrent cell before its last layer; see `mlp`."""
    *widths, features = input_dim, *hidden_sizes
    body = mlp(widths[0], widths[1:], features, activation, activation) if widths else None
    return RecurrentNet(Trunk(body, features, memory, memory_size), outputs)


class Memory:
    """The recurrent memory of a policy and a value function, with a state for each environment.

    Args:
        pi, v: Heads on a `RecurrentNet`, with a common trunk or one each.
        seq_len: Maximum number of steps over which gradients are backpropagated.

    Attributes:
        size: Length of the state of one environment.
    """

    def __init__(self, pi: keras.Model, v: keras.Model, seq_len: int):
        self.pi, self.v, self.seq_len = pi, v, seq_len
        self.of_pi, self.of_v = pi.net.trunk, v.net.trunk
        self.shared = self.of_pi is self.of_v
        if not self.shared:
            self.of_v.place = slice(self.of_pi.size, self.of_pi.size + self.of_v.size)
        self.size = self.of_v.place.stop

    def segment_length(self, steps: int) -> int:
        """Return the length of the segments into which a batch is cut.

        Args:
            steps: Number of steps of each environment in the batch.
        """
        return min(self.seq_len, steps)

    def begin(self, n: int) -> np.ndarray:
        """Return the initial states of episodes, zeros `[n, size]`."""
        return np.zeros((n, self.size), np.float32)

    def step(self, obs: tf.Tensor, state: tf.Tensor) -> tuple[Distribution, tf.Tensor, tf.Tensor]:
        """Take a step in n environments; return distribution, values `[n]` and next states.

        The distribution has a batch of n, and the states are `[n, size]`.
        """
        steps = single_steps(obs, state)
        for_pi, next_state = self.of_pi.unroll(steps)
        for_v = for_pi
        if not self.shared:
            for_v, of_v = self.of_v.unroll(steps)
            next_state = tf.concat([next_state, of_v], axis=1)
        return self._head(self.pi, for_pi), self._head(self.v, for_v), next_state

    def value(self, obs: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
        """Return V `[n]` of observations `[n, ...]`, given the states before them."""
        return self._head(self.v, self.of_v(single_steps(obs, state)))

    def _head(self, model, outputs):
        return model.head(model.net.to_output(outputs[:, 0]))

    def state_for(self, state: np.ndarray | None, n: int) -> np.ndarray:
        """Return a user's state, `[n, size]`, or of one environment `[size]`, as `[n, size]`.

        For None, return the initial states of episodes.
        """
        return self.begin(n) if state is None else np.float32(state).reshape(n, self.size)
