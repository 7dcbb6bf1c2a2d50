"""The buffer of recurrent policies: batches of segments instead of single steps."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from spinup_tf2.core.nets.recurrent import Memory, Sequences
from spinup_tf2.core.nets.recurrent_acting import RecurrentActor
from spinup_tf2.core.trajectories import TrajectoryBuffer
from spinup_tf2.errors import UserError
from spinup_tf2.parallel.mpi import num_procs
from spinup_tf2.training.settings import Settings


class SegmentBuffer(TrajectoryBuffer):
    """A TrajectoryBuffer whose batches are segments, `[segments, steps, ...]`.

    Segment k of environment i is row k * n + i. Its initial state is the one that the actor had
    there when it acted.

    Args:
        actor: The actor, from which the recurrent states come.
        args: Arguments of TrajectoryBuffer.

    Attributes:
        length: Steps per segment.
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
        self.ends: dict[tuple[int, int], np.ndarray] = {}  # (t, env): the state after step t

    def note(self, which: slice, first: np.ndarray, state: np.ndarray) -> None:
        """Record the states before a step; called by the actor."""
        t, envs = int(self.clock[which][0]), np.arange(len(self.clock))[which]
        self.clock[which] += 1
        self.first[t, which] = first
        # If t is 0, the episode ended before the batch, and its last state is never needed.
        self.ends |= {(t - 1, int(envs[i])): state[i].copy() for i in np.flatnonzero(first)}
        if t % self.length == 0:
            self.states[t // self.length, which] = state

    def get(
        self,
        value: Callable[[np.ndarray], np.ndarray],
        last_obs: np.ndarray,
        use_stored: bool = True,
    ) -> dict[str, Any]:
        """Return a batch as TrajectoryBuffer does, of segments; obs are Sequences.

        Args:
            value: Not used: values depend on the recurrent state, and the actor's networks compute
                them.
            last_obs, use_stored: See TrajectoryBuffer.
        """
        batch = super().get(value, last_obs, use_stored)
        self.actor.keep()
        return batch

    def _values(self, value):
        count, num_envs, _ = self.states.shape
        val = self.actor.step.values(self._sequences()).reshape(count, num_envs, self.length)
        return val.swapaxes(1, 2).reshape(self.rew.shape)

    def _values_after(self, value, obs, times, envs):
        last = self.size - 1  # the actor still has the state after this step
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
        """Reshape `[T, n, ...]` to `[segments, steps, ...]`."""
        count, num_envs, _ = self.states.shape
        x = x.reshape(count, self.length, num_envs, *x.shape[2:]).swapaxes(1, 2)
        return x.reshape(count * num_envs, self.length, *x.shape[3:])


def check_memory(memory: Memory, settings: Settings, arguments: Mapping[str, Any]) -> None:
    """Check that a run can train networks with a memory.

    Args:
        memory: The networks' memory.
        settings: The run's settings.
        arguments: All of the run's arguments by name.

    Raises:
        UserError: The arguments do not fit the memory.
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
