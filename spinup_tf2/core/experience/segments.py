"""Experience of policies with a memory: batches of segments instead of batches of steps."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from spinup_tf2.core.experience.trajectory_buffer import TrajectoryBuffer
from spinup_tf2.core.nets.recurrent import Memory, Sequences
from spinup_tf2.core.rollout.memory import RecurrentActor
from spinup_tf2.core.settings import Settings
from spinup_tf2.errors import UserError
from spinup_tf2.parallel.mpi import num_procs


class SegmentBuffer(TrajectoryBuffer):
    """A TrajectoryBuffer whose batches are segments, `[segments, steps, ...]`.

    Segment k of environment i is row k * n + i. Its first state is the one that acting had there,
    with the weights of then.

    Args:
        actor: What acts, and so knows what is remembered.
        args: Those of TrajectoryBuffer.

    Attributes:
        length: Steps of a segment.
    """

    def __init__(self, actor: RecurrentActor, *args: Any):
        self.actor = actor
        super().__init__(*args)
        steps, num_envs = self.rew.shape
        self.length = actor.step.memory.segment_length(steps)
        self.first = np.zeros((steps, num_envs), bool)
        self.states = np.zeros((steps // self.length, num_envs, actor.step.size), np.float32)
        actor.note = self.note

    def start(self) -> None:
        super().start()
        self.actor.recall()
        self.clock = np.zeros(self.actor.envs.num_envs, int)
        self.ends: dict[tuple[int, int], np.ndarray] = {}  # (t, env): what was remembered there

    def note(self, which: slice, first: np.ndarray, state: np.ndarray) -> None:
        """Note what was remembered before a step, as an actor tells it."""
        t, envs = int(self.clock[which][0]), np.arange(len(self.clock))[which]
        self.clock[which] += 1
        self.first[t, which] = first
        # The end of an episode from before the batch is never needed.
        self.ends |= {(t - 1, int(envs[i])): state[i].copy() for i in np.flatnonzero(first)}
        if t % self.length == 0:
            self.states[t // self.length, which] = state

    def get(
        self,
        value: Callable[[np.ndarray], np.ndarray],
        last_obs: np.ndarray,
        use_stored: bool = True,
    ) -> dict[str, Any]:
        """One batch of segments, as TrajectoryBuffer gives one of steps; obs are Sequences.

        Args:
            value: Not used: values depend on what is remembered; the actor's networks give them.
        """
        batch = super().get(value, last_obs, use_stored)
        self.actor.keep()
        return batch

    def _values(self, value):
        count, num_envs, _ = self.states.shape
        val = self.actor.step.values(self._sequences()).reshape(count, num_envs, self.length)
        return val.swapaxes(1, 2).reshape(self.rew.shape)

    def _values_after(self, value, obs, times, envs):
        last = self.size - 1  # since then nobody has acted
        states = [
            self.actor.state[i] if t == last else self.ends[t, i]
            for t, i in zip(times, envs, strict=True)
        ]
        return self.actor.step.value(obs, np.stack(states))

    def _batch(self, arrays):
        return {name: self._segments(x) for name, x in arrays.items()} | dict(obs=self._sequences())

    def _sequences(self):
        states = self.states.reshape(-1, self.actor.step.size)
        return Sequences(self._segments(self.obs), self._segments(self.first), states)

    def _segments(self, x):
        """`[T, n, ...]` as `[segments, steps, ...]`."""
        count, num_envs, _ = self.states.shape
        x = x.reshape(count, self.length, num_envs, *x.shape[2:]).swapaxes(1, 2)
        return x.reshape(count * num_envs, self.length, *x.shape[3:])


def check_memory(memory: Memory, settings: Settings, arguments: Mapping[str, Any]) -> None:
    """Check that a run can train networks with a memory.

    Args:
        arguments: All of the run's arguments by name.

    Raises:
        UserError: It cannot.
    """
    if arguments.get("normalize_obs"):
        raise UserError(
            "normalize_obs is True, but the networks have a memory, and what they remember was "
            "seen with the statistics of then; leave one of them out, or scale observations with "
            "fixed numbers, such as those of gymnasium's wrapper RescaleObservation. (The "
            "statistics of its NormalizeObservation are not saved with a run.)"
        )
    if arguments.get("train_aux_iters"):
        raise UserError(
            "The networks have a memory, and the auxiliary phase of ppg learns from single steps; "
            "leave the memory out, or use ppo."
        )
    steps = arguments.get("n_steps") or settings.local_steps
    length = memory.segment_length(steps)
    if steps % length:
        whole = [number for number in range(1, steps + 1) if steps % number == 0]
        nearest = min(whole, key=lambda number: abs(number - length))
        raise UserError(
            f"seq_len is {memory.seq_len}, but each environment takes {steps} steps for a batch, "
            f"which cannot be cut into segments of so many; use one that divides them, such as "
            f"{nearest}, or another steps_per_epoch."
        )
    size, environments = arguments.get("minibatch_size"), settings.num_envs * num_procs()
    if size is not None and size % (environments * length):
        raise UserError(
            f"minibatch_size is {size}, but minibatches consist of whole segments; with "
            f"{environments} environments and seq_len {length} it must be a multiple of "
            f"{environments * length} that divides steps_per_epoch, {settings.steps_per_epoch}."
        )
