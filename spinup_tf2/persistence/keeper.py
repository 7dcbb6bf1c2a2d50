"""Writes what a run goes on from, and puts it back.

State that must survive is declared in one place: the variables, the parts and the replay buffer
that a `Keeper` is given. What is not among them is not resumed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from spinup_tf2.errors import UserError
from spinup_tf2.parallel.mpi import broadcast_object, num_procs, proc_id
from spinup_tf2.persistence.checkpoint_writer import CheckpointWriter, NewSteps
from spinup_tf2.persistence.checkpoints import (
    DamagedCheckpoint,
    Saved,
    read_best,
    read_ranks,
    read_steps,
    restore_variables,
)
from spinup_tf2.utils.logx import EpochLogger

if TYPE_CHECKING:
    import keras


class Part(Protocol):
    """A part of a training that remembers something of each environment.

    `restart` is called when all environments begin new episodes. `env_state` and `set_env_state`,
    where there are any, give and take what is remembered of environment i of this process.
    """

    def restart(self) -> None: ...


class StoredSteps(Part, Protocol):
    """A replay buffer, of which a checkpoint holds what is new since the one before."""

    steps: int
    saved: int

    def new_range(self) -> tuple[int, int, int]: ...

    def new_steps(self, i: int) -> dict[str, np.ndarray]: ...

    def put_steps(self, i: int, first: int, steps: Mapping[str, np.ndarray]) -> None: ...


@dataclass(frozen=True)
class Restored:
    """Where a run was, besides its variables and parts.

    Attributes:
        best_weights: The best weights so far.
        acting_weights: Those that wait for their score; empty if none do.
        best: What is known of the best weights, as `BestWeights.record` has it.
        infos: What the updates of the epoch had logged.
        seconds: How long the run had taken.
    """

    best_weights: list[np.ndarray]
    acting_weights: list[np.ndarray]
    best: dict[str, Any]
    infos: list[dict[str, float]]
    seconds: float


class Keeper:
    """Writes the checkpoints of a run, and restores the one that it goes on from.

    Args:
        description: As `describe_run` gives it.
        checkpoints: Those of the run's directory.
        logger: What has been stored for its next row is saved as well.
        indices: Numbers of the environments of this process.
        variables: All from which the training goes on, equal on all ranks.
        parts: What remembers something of environments, by name.
        replay: One of them, whose steps are saved beside.
    """

    def __init__(
        self,
        description: Mapping[str, Any],
        checkpoints: CheckpointWriter,
        logger: EpochLogger,
        indices: Sequence[int],
        variables: Sequence[keras.Variable],
        parts: Mapping[str, Any],
        replay: StoredSteps | None = None,
    ):
        self.description, self.checkpoints, self.logger = description, checkpoints, logger
        self.indices, self.variables = indices, variables
        self.parts = {name: part for name, part in parts.items() if hasattr(part, "env_state")}
        self.replay = replay
        self.save_failed = False

    def save(
        self,
        counters: Mapping[str, Any],
        best: Sequence[np.ndarray],
        acting: Sequence[np.ndarray] = (),
    ) -> bool:
        """Write a checkpoint; returns whether there was room for it. Collective.

        Args:
            counters: Where the run is, as JSON.
            best: The best weights so far.
            acting: Those that wait for the score of the present epoch, if all of it is collected.
        """
        arrays = {f"log/{key}": values for key, values in self.logger.stored().items()}
        if proc_id() == 0:
            arrays |= {f"acting/{i}": weight for i, weight in enumerate(acting)}
        for i, env in enumerate(self.indices):
            for name, part in self.parts.items():
                state = part.env_state(i)
                arrays |= {f"env{env}/{name}/{key}": value for key, value in state.items()}
        steps = None
        if self.replay is not None and self.replay.steps > 0:
            new = {
                f"env{env}/{key}": value
                for i, env in enumerate(self.indices)
                for key, value in self.replay.new_steps(i).items()
            }
            steps = NewSteps(new, *self.replay.new_range())
        try:
            self.checkpoints.save(
                self.description,
                counters,
                self.variables,
                best,
                arrays,
                steps,
                before=self.logger.sync,
            )
        except OSError as error:
            self.logger.warn_once(
                f"the checkpoint cannot be written ({error}). The one before stays, the training "
                "goes on, and it is tried again after each epoch.",
                about="checkpoint",
            )
            self.save_failed = True
            return False
        if self.replay is not None:
            self.replay.saved = self.replay.steps
        self.save_failed = False
        return True

    def restore(self, saved: Saved) -> Restored:
        """Put variables, parts and replay buffer back; returns the rest. Collective.

        Raises:
            UserError: If the checkpoint cannot be used.
        """
        counters = saved.counters
        try:
            restore_variables(saved, self.variables)
            ranks = read_ranks(saved)
            acting = _below(ranks[0], "acting/")
            restored = Restored(
                best_weights=read_best(saved.path),
                acting_weights=[acting[str(i)] for i in range(len(acting))],
                best=dict(counters["best"]),
                infos=[*counters["infos"]],
                seconds=float(counters["seconds"]),
            )
            # With more processes than before, some have stored nothing under these names.
            self.logger.store(**{key: [] for rank in ranks for key in _below(rank, "log/")})
            for values in ranks[proc_id() :: num_procs()]:
                self.logger.store(**_below(values, "log/"))
            merged = {key: x for rank in ranks for key, x in rank.items()}
            for i, env in enumerate(self.indices):
                for name, part in self.parts.items():
                    part.set_env_state(i, _below(merged, f"env{env}/{name}/"))
            if self.replay is not None:
                self._restore_steps(saved, self.replay)
        except (DamagedCheckpoint, KeyError, TypeError, ValueError, IndexError) as error:
            raise UserError(
                f"the checkpoint {saved.path} cannot be used ({error}). Remove it to resume from "
                "the one before, or start the run anew with --overwrite (overwrite=True)."
            ) from error
        return restored

    def check_columns(self, columns: Sequence[str]) -> None:
        """Raise UserError if progress.txt has lost columns; the file itself may be gone."""
        headers = self.logger.log_headers
        lost = [name for name in columns if name not in headers]
        if headers and lost:
            raise UserError(
                f"progress.txt in {broadcast_object(self.logger.output_dir)} has no column "
                f"{' and none '.join(lost)}, which the run writes. Put what was taken out back, or "
                "start the run anew with --overwrite (overwrite=True)."
            )

    def _restore_steps(self, saved, replay):
        own = [f"env{env}/" for env in self.indices]
        for entry, arrays in read_steps(saved, lambda name: name.startswith(tuple(own))):
            for i, prefix in enumerate(own):
                steps = _below(arrays, prefix)
                if steps:  # the file may be another rank's
                    replay.put_steps(i, entry["first"], steps)


def _below(arrays, prefix):
    """The arrays whose names begin with `prefix`, without it."""
    return {key.removeprefix(prefix): x for key, x in arrays.items() if key.startswith(prefix)}
