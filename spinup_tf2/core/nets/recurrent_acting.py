"""Turns an actor-critic with a memory into a fast `step(obs, noise, state)`.

As in `acting`, stacks of Dense layers and their cell are mirrored in NumPy, and other networks run
through one compiled function. Policy and value function take each step together, because every
observation changes the state of both.
"""

from typing import Any

import keras
import numpy as np

from spinup_tf2.core.nets.acting import dense_layers, has_numpy_head, is_numpy_dense
from spinup_tf2.core.nets.compiled import compiled
from spinup_tf2.core.nets.distributions import sample
from spinup_tf2.core.nets.recurrent import LSTM, Memory, RecurrentNet, Sequences


class RecurrentStep:
    """`step(obs, noise, state)` returns actions, values and next states, as NumPy arrays.

    Call `refresh` after the weights have changed.

    Args:
        memory: The actor-critic's memory.
    """

    def __init__(self, memory: Memory):
        self.memory, self.size = memory, memory.size
        models = (memory.pi, memory.v)
        mirrors = not memory.shared and all(map(RecurrentMirror.can_mirror, models))
        self.mirrors = [RecurrentMirror(model) for model in models] if mirrors else None

        def act(obs, noise, state):
            pi, val, next_state = memory.step(obs, state)
            return sample(pi, noise), val, next_state

        self._act = compiled(act)
        # reduce_retracing lets the number of observations change.
        self._value = compiled(memory.value, reduce_retracing=True)
        self._values = compiled(lambda *sequences: memory.v(Sequences(*sequences)))

    def refresh(self) -> None:
        for mirror in self.mirrors or ():
            mirror.refresh()

    def __call__(
        self, obs: np.ndarray, noise: np.ndarray, state: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if self.mirrors is None:
            act, val, next_state = self._act(obs, noise, state)
            return act.numpy(), val.numpy(), next_state.numpy()
        pi, v = self.mirrors
        act, of_pi = pi(obs, state, noise)
        val, of_v = v(obs, state)
        return act, val, np.concatenate([of_pi, of_v], axis=1)

    def value(self, obs: np.ndarray, state: np.ndarray) -> np.ndarray:
        """Return V `[n]` of observations, given the states before them."""
        if self.mirrors is None:
            return self._value(obs, state).numpy()
        return self.mirrors[1](obs, state)[0]

    def values(self, sequences: Sequences) -> np.ndarray:
        """Return V `[segments, steps]`, always with the current weights."""
        return self._values(*sequences).numpy()


class RecurrentMirror:
    """A NumPy copy of a head on a `RecurrentNet`; `refresh` copies the weights again."""

    def __init__(self, model: keras.Model):
        self.model, self.trunk = model, model.net.trunk
        self.refresh()

    @staticmethod
    def can_mirror(model: keras.Model) -> bool:
        """Return whether a model is a head on a `RecurrentNet` of Dense layers."""
        net = model.net
        if not has_numpy_head(model) or type(net) is not RecurrentNet:
            return False
        body = net.trunk.body
        return body is None or (
            type(body) is keras.Sequential and all(map(is_numpy_dense, body.layers))
        )

    def refresh(self) -> None:
        net, cell = self.model.net, self.trunk.cell
        self.body = dense_layers(self.trunk.body) if self.trunk.body is not None else []
        weights = cell.kernel, cell.recurrent_kernel, cell.bias
        self.kernel, self.recurrent_kernel, self.bias = (each.numpy() for each in weights)
        self.output_kernel, self.output_bias = (
            each.numpy() for each in (net.to_output.kernel, net.to_output.bias)
        )
        self.numpy_head = self.model.numpy_head()

    def __call__(
        self, x: np.ndarray, state: np.ndarray, *noise: np.ndarray
    ) -> tuple[Any, np.ndarray]:
        """Return the head's output for the observations, and the trunk's next state."""
        for kernel, bias, activation in self.body:
            x = x @ kernel
            x += bias
            x = activation(x)
        step = self._lstm if type(self.trunk.cell) is LSTM else self._gru
        remembered = step(x @ self.kernel, state[:, self.trunk.place])
        output = remembered[:, : self.trunk.cell.units] @ self.output_kernel
        output += self.output_bias
        return self.numpy_head(output, *noise), remembered

    def _lstm(self, x, state):
        n = self.trunk.cell.units
        h, c = state[:, :n], state[:, n:]
        x += h @ self.recurrent_kernel
        x += self.bias
        gates = _sigmoid(x)
        c = gates[:, n : 2 * n] * c + gates[:, :n] * np.tanh(x[:, 2 * n : 3 * n])
        return np.concatenate([gates[:, 3 * n :] * np.tanh(c), c], axis=1)

    def _gru(self, x, h):
        n = self.trunk.cell.units
        x += self.bias[0]
        inner = h @ self.recurrent_kernel
        inner += self.bias[1]
        gates = _sigmoid(x[:, : 2 * n] + inner[:, : 2 * n])
        z, r = gates[:, :n], gates[:, n:]
        return z * h + (1 - z) * np.tanh(x[:, 2 * n :] + r * inner[:, 2 * n :])


def _sigmoid(x):
    return 0.5 * np.tanh(0.5 * x) + np.float32(0.5)  # unlike an exponential, does not overflow
