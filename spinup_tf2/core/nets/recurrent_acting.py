"""Acting and learning with a memory: what `acting` is for other networks, and segments of batches.

As in `acting`, stacks of Dense layers and their cell are mirrored in NumPy, and other networks run
through one compiled function. Policy and value function take each step together, because every
observation changes the state of both.
"""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from spinup_tf2.core.nets.acting import mirror_of, numpy_layers, quick
from spinup_tf2.core.nets.distributions import sample
from spinup_tf2.core.nets.layers import compiled, read
from spinup_tf2.core.nets.recurrent import LSTM, Memory, Sequences
from spinup_tf2.core.vector_env import VectorEnv


class RecurrentActor:
    """An Actor, and its Critic, with a state for each environment that episodes begin without.

    Its extras are `val`, V(obs) `[n]`; `first`, whether an episode begins with this step `[n]`; and
    `state`, the state before the step `[n, size]`, which is then still that of the last episode.

    Attributes:
        state: The state of each environment, `[n, size]`.

    Args:
        ac: The actor-critic, which has a memory.
        envs: The environments in which to act. They know where episodes begin (`elapsed`).
    """

    state: np.ndarray

    def __init__(self, ac: Any, envs: VectorEnv):
        self.step, self.envs = RecurrentStep(ac.memory), envs
        self.restart()

    def refresh(self) -> None:
        self.step.refresh()

    def __call__(
        self, obs: np.ndarray, noise: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        before, first = self.state, self.envs.elapsed == 0
        state = np.where(first[:, None], np.float32(0), before)
        act, val, self.state = self.step(obs, noise, state)
        return act, dict(val=val, first=first, state=before)

    def critic(self) -> "RecurrentActor":
        """Return itself: values depend on the states that it has stored."""
        return self

    def of_batch(self, rows: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return V of all observations in the rows of a TrajectoryBuffer, `[T, n]`."""
        steps, num_envs = rows["rew"].shape
        length = self.step.memory.segment_length(steps)
        val = self.step.values(segments(rows, length)["obs"])  # [segments, steps]
        val = val.reshape(steps // length, num_envs, length)
        return val.swapaxes(1, 2).reshape(steps, num_envs)

    def after(
        self, rows: Mapping[str, np.ndarray], times: np.ndarray, envs: np.ndarray, obs: np.ndarray
    ) -> np.ndarray:
        """Return V `[m]` of the observations to which the steps at `times` in `envs` have led."""
        states = np.concatenate([rows["state"][1:], self.state[None]])
        return self.step.value(obs, states[times, envs])

    def batch(self, rows: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Cut rows `[T, n, ...]` into segments to learn from; see `segments`."""
        return segments(rows, self.step.memory.segment_length(len(rows["first"])))

    def restart(self) -> None:
        """Clear the state, because all environments begin new episodes."""
        self.state = np.zeros((self.envs.num_envs, self.step.size), np.float32)

    def env_state(self, i: int) -> dict[str, np.ndarray]:
        return dict(state=self.state[i])

    def set_env_state(self, i: int, state: Mapping[str, np.ndarray]) -> None:
        self.state[i] = state["state"]


def segments(rows: Mapping[str, np.ndarray], length: int) -> dict[str, Any]:
    """Cut a batch of a RecurrentActor `[T, n, ...]` into segments `[T / length * n, length, ...]`.

    Segment k of environment i is row k * n + i. Observations become Sequences, with the state that
    the actor had where the segment begins.
    """
    steps, num_envs = rows["first"].shape

    def cut(x):
        x = x.reshape(steps // length, length, num_envs, *x.shape[2:]).swapaxes(1, 2)
        return x.reshape(-1, length, *x.shape[3:])

    batch: dict[str, Any] = {name: cut(x) for name, x in rows.items()}
    states = batch.pop("state")[:, 0]
    return batch | dict(obs=Sequences(batch["obs"], batch.pop("first"), states))


class RecurrentStep:
    """`step(obs, noise, state)` returns actions, values and next states, as NumPy arrays.

    Call `refresh` after the weights have changed.

    Args:
        memory: The actor-critic's memory.
    """

    def __init__(self, memory: Memory):
        self.memory, self.size = memory, memory.size
        models = (memory.pi, memory.v)
        mirrors: Any = [
            None if memory.shared else mirror_of(each, RecurrentMirror) for each in models
        ]
        self.mirrors = mirrors if all(mirrors) else None

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

    def refresh(self) -> None:
        cell, last = self.trunk.cell, self.model.net.to_output
        self.layers = [] if self.trunk.body is None else numpy_layers(self.trunk.body)
        self.calls = [*map(quick, self.layers)]
        self.kernel, self.recurrent_kernel, self.bias = map(read, cell.weights)
        self.output_kernel, self.output_bias = map(read, last.weights)
        self.numpy_head = self.model.numpy_head()

    def __call__(
        self, x: np.ndarray, state: np.ndarray, *noise: np.ndarray
    ) -> tuple[Any, np.ndarray]:
        """Return the head's output for the observations, and the trunk's next state."""
        for call in self.calls:
            x = call(x)
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
