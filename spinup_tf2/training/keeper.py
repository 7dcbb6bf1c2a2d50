"""Saves the state that a run is resumed from, and restores it.

State that must survive is declared in one place: the variables, the parts and the replay buffer
that a `Keeper` is given. Anything else is not resumed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from spinup_tf2.errors import UserError
from spinup_tf2.files.arrays import DamagedCheckpoint, numbered
from spinup_tf2.files.logger import EpochLogger
from spinup_tf2.parallel.mpi import broadcast_object, num_procs, proc_id
from spinup_tf2.training.checkpoint_writer import CheckpointWriter, NewSteps
from spinup_tf2.training.checkpoints import (
    Saved,
    read_ranks,
    read_steps,
)

if TYPE_CHECKING:
    import keras


class Part(Protocol):
    """A part of the training loop that keeps state for each environment.

    `restart` is called when all environments begin new episodes. The optional methods `env_state`
    and `set_env_state` get and set the state for environment i of this process.
    """

    def restart(self) -> None: ...


class StoredSteps(Part, Protocol):
    """A replay buffer, from which a checkpoint saves the steps since the previous checkpoint."""

    steps: int
    saved: int

    def new_range(self) -> tuple[int, int, int]: ...

    def new_steps(self, i: int) -> dict[str, np.ndarray]: ...

    def put_steps(self, i: int, first: int, steps: Mapping[str, np.ndarray]) -> None: ...


@dataclass(frozen=True)
class Restored:
    """State of a resumed run, besides its variables and parts.

    Attributes:
        best_weights: The best weights so far.
        acting_weights: Weights whose score is not yet known; empty if there are none.
        best: Information on the best weights, as in `BestWeights.record`.
        infos: Values that the updates of the current epoch have logged so far.
        seconds: Time in seconds that the run has taken so far.
    """

    best_weights: list[np.ndarray]
    acting_weights: list[np.ndarray]
    best: dict[str, Any]
    infos: list[dict[str, float]]
    seconds: float


class Keeper:
    """Writes the checkpoints of a run, and restores the one that it is resumed from.

    Args:
        description: Description of the run by `describe_run`.
        checkpoints: Writer for the run's directory.
        logger: Logger of the run. The values stored for its next row are saved as well.
        indices: Numbers of the environments of this process.
        variables: All variables that training depends on, equal on all ranks.
        parts: Parts that keep state for each environment, by name. Those without `env_state` are
            ignored.
        replay: The replay buffer, if there is one; its steps are saved separately.
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
        """Write a checkpoint; return whether that succeeded. Collective.

        Args:
            counters: Position of the run and other plain values, as JSON.
            best: The best weights so far.
            acting: Weights whose score for the current epoch is not yet known, if all of the epoch
                has been collected.
        """
        arrays = {f"log/{key}": values for key, values in self.logger.stored().items()}
        if proc_id() == 0:
            variables = [each.numpy() for each in self.variables]
            for prefix, weights in dict(variables=variables, best=best, acting=acting).items():
                arrays |= {f"{prefix}/{i}": weight for i, weight in enumerate(weights)}
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
                self.description, counters, arrays, steps, before=self.logger.sync
            )
        except OSError as error:
            self.logger.warn_once(
                f"the checkpoint cannot be written ({error}). The one before stays, the training "
                "continues, and it is tried again after each epoch.",
                about="checkpoint",
            )
            self.save_failed = True
            return False
        if self.replay is not None:
            self.replay.saved = self.replay.steps
        self.save_failed = False
        return True

    def restore(self, saved: Saved) -> Restored:
        """Restore variables, parts and replay buffer; return the rest of the state. Collective.

        Raises:
            UserError: The checkpoint cannot be used.
        """
        counters = saved.counters
        try:
            ranks = read_ranks(saved)
            self._restore_variables(numbered(ranks[0], "variables/"))
            restored = Restored(
                best_weights=numbered(ranks[0], "best/"),
                acting_weights=numbered(ranks[0], "acting/"),
                best=dict(counters["best"]),
                infos=[*counters["infos"]],
                seconds=float(counters["seconds"]),
            )
            # With more processes than before, some have no stored values under these names.
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
                "the one before, or start the run again with --overwrite (overwrite=True)."
            ) from error
        return restored

    def check_columns(self, columns: Sequence[str]) -> None:
        """Raise UserError if progress.txt lacks some of these columns; the file may be missing."""
        headers = self.logger.log_headers
        lost = [name for name in columns if name not in headers]
        if headers and lost:
            raise UserError(
                f"progress.txt in {broadcast_object(self.logger.output_dir)} has no column "
                f"{' and none '.join(lost)}, which the run writes. Put what was taken out back, or "
                "start the run again with --overwrite (overwrite=True)."
            )

    def _restore_variables(self, values):
        found, own = ([tuple(each.shape) for each in some] for some in (values, self.variables))
        if found != own:
            raise DamagedCheckpoint(f"its variables have the shapes {found} instead of {own}")
        for variable, value in zip(self.variables, values, strict=True):
            variable.assign(value)

    def _restore_steps(self, saved, replay):
        own = [f"env{env}/" for env in self.indices]
        for entry, arrays in read_steps(saved, lambda name: name.startswith(tuple(own))):
            for i, prefix in enumerate(own):
                steps = _below(arrays, prefix)
                if steps:  # the file may belong to another rank
                    replay.put_steps(i, entry["first"], steps)


def _below(arrays, prefix):
    """Return the arrays whose names begin with `prefix`, with the prefix removed."""
    return {key.removeprefix(prefix): x for key, x in arrays.items() if key.startswith(prefix)}
