"""Saves the state that a run is resumed from, and restores it.

State that must survive is declared in one place: the variables, the parts and the replay buffer
that a `Keeper` is given. Anything else is not resumed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from spinup_tf2 import user_config
from spinup_tf2.core.replay_buffer import ReplayBuffer
from spinup_tf2.errors import UserError
from spinup_tf2.files.disk import DamagedCheckpoint, numbered
from spinup_tf2.files.logger import EpochLogger
from spinup_tf2.parallel.mpi import num_procs, proc_id
from spinup_tf2.training.checkpoints import Checkpoints, NewSteps, Saved, read_ranks, read_steps
from spinup_tf2.training.rows import BestWeights


def variables_of(state: Mapping[str, Any]) -> list[keras.Variable]:
    """Return the variables in a run's state, as `opening.open_run` describes it."""
    found: list[keras.Variable] = []
    for each in state.values():
        for item in each if isinstance(each, list | tuple) else [each]:
            found += [item] if isinstance(item, keras.Variable) else getattr(item, "variables", ())
    return found


class Keeper:
    """Writes the checkpoints of a run, and restores the one that it is resumed from.

    Args:
        description: Description of the run by `describe_run`.
        checkpoints: Those in the run's directory.
        logger: Logger of the run. The values stored for its next row are saved as well.
        indices: Numbers of the environments of this process.
        variables: All variables that training depends on, equal on all ranks.
        best: The best weights so far.
        parts: Objects by name. Those with the methods `env_state(i)` and `set_env_state(i, state)`
            keep state for environment i of this process; the others are ignored.
        replay: The replay buffer, if there is one; its steps are saved separately.

    Attributes:
        save_failed: Whether the last checkpoint could not be written.
    """

    def __init__(
        self,
        description: Mapping[str, Any],
        checkpoints: Checkpoints,
        logger: EpochLogger,
        indices: Sequence[int],
        variables: Sequence[keras.Variable],
        best: BestWeights,
        parts: Mapping[str, Any],
        replay: ReplayBuffer | None = None,
    ):
        self.description, self.checkpoints, self.logger = description, checkpoints, logger
        self.indices, self.variables, self.best = indices, variables, best
        self.parts = {name: part for name, part in parts.items() if hasattr(part, "env_state")}
        self.replay = replay
        self.save_failed, self._last_save = False, -np.inf

    @property
    def has_waited(self) -> bool:
        """Whether the last checkpoint is old enough for another one."""
        return time.monotonic() - self._last_save >= user_config.CHECKPOINT_INTERVAL

    def save(self, counters: Mapping[str, Any], complete: bool) -> bool:
        """Write a checkpoint; return whether that succeeded. Collective.

        Args:
            counters: Position of the run and other plain values, as JSON.
            complete: Whether all of an epoch has been collected, which is not yet logged: then the
                score of the weights that acted is not yet known.
        """
        counters = {**counters, "best": self.best.record}
        arrays = {f"log/{key}": values for key, values in self.logger.stored().items()}
        if proc_id() == 0:
            variables = [each.numpy() for each in self.variables]
            acting = self.best.acting if complete else []
            groups = dict(variables=variables, best=self.best.weights, acting=acting)
            for prefix, weights in groups.items():
                arrays |= {f"{prefix}/{i}": weight for i, weight in enumerate(weights)}
        for i, env in enumerate(self.indices):
            for name, part in self.parts.items():
                arrays |= _under(f"env{env}/{name}/", part.env_state(i))
        steps = None
        if self.replay is not None and self.replay.steps > 0:
            if not self.checkpoints.has_steps():
                self.replay.saved = 0  # so that all that it holds is written again
            new: dict[str, np.ndarray] = {}
            for i, env in enumerate(self.indices):
                new |= _under(f"env{env}/", self.replay.new_steps(i))
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
        self.save_failed, self._last_save = False, time.monotonic()
        return True

    def restore(self, saved: Saved) -> None:
        """Restore all that `save` has written, but for the counters. Collective.

        Raises:
            UserError: The checkpoint cannot be used.
        """
        try:
            ranks = read_ranks(saved)
            self._restore_variables(numbered(ranks[0], "variables/"))
            best, acting = (numbered(ranks[0], f"{name}/") for name in ("best", "acting"))
            self.best.restore(saved.counters["best"], best, acting)
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
        except (DamagedCheckpoint, LookupError, TypeError, ValueError) as error:
            raise UserError(
                f"the checkpoint {saved.path} cannot be used ({error}). Remove it to resume from "
                "the one before, or start the run again with --overwrite (overwrite=True)."
            ) from error
        self._last_save = time.monotonic()

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
                if steps := _below(arrays, prefix):  # the file may belong to another rank
                    replay.put_steps(i, entry["first"], steps)


def _under(prefix, arrays):
    return {f"{prefix}{key}": x for key, x in arrays.items()}


def _below(arrays, prefix):
    """Return the arrays whose names begin with `prefix`, with the prefix removed."""
    return {key.removeprefix(prefix): x for key, x in arrays.items() if key.startswith(prefix)}
