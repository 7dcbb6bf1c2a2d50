"""Writes checkpoints: complete or not there. What they are made of is said in `checkpoints`."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spinup_tf2.errors import UserError
from spinup_tf2.parallel.mpi import gather_objects, proc_id
from spinup_tf2.persistence.checkpoints import (
    BEST,
    FORMAT,
    MANIFEST,
    REPLAY,
    VARIABLES,
    Checkpoints,
    DamagedCheckpoint,
    Saved,
    digest_of,
    measure,
    remove,
)

if TYPE_CHECKING:
    import keras

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class NewSteps:
    """What is new in the replay buffer of a rank since the checkpoint before.

    Steps are numbered as they come. The numbers are equal on all ranks.

    Attributes:
        arrays: The steps.
        first: Number of the first of them.
        end: Number of the one after the last.
        oldest: Number of the oldest step that is still in the buffer.
    """

    arrays: Arrays
    first: int
    end: int
    oldest: int


class CheckpointWriter(Checkpoints):
    """Writes the checkpoints of the run in `run_dir`, of which the newest `keep` are kept.

    The directory must be the same for all MPI ranks: on several machines, in a file system that
    they share.

    Args:
        run_dir: Where the run lies.
        keep: How many are kept.
        saved: The one from which the run goes on, if any.
    """

    def __init__(self, run_dir: str | os.PathLike, keep: int = 2, saved: Saved | None = None):
        super().__init__(run_dir)
        self.keep = keep
        self.replay = saved.replay if saved else []  # what the next one may need of replay/
        self._writer = None

    def save(
        self,
        description: Mapping[str, Any],
        counters: Mapping[str, Any],
        variables: Sequence[keras.Variable],
        best: Sequence[np.ndarray],
        arrays: Arrays,
        steps: NewSteps | None = None,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        """Write a checkpoint. Collective.

        Args:
            description: What it belongs to, as `describe_run` gives it: `run` of Saved.
            counters: As in Saved. Of both, those of rank 0 count.
            variables: Equal on all ranks.
            best: The best weights so far.
            arrays: What this rank goes on from.
            steps: What is new in its replay buffer.
            before: Called before anything is written; what it raises counts as a failure to write.

        Raises:
            OSError: On all ranks, if it cannot be written on one; what was there before stays.
        """
        serial = self._on_all(lambda: max([0, *self._serials()]) + 1)[0]
        folder = self.path_of(serial).with_suffix(".tmp")  # until it is complete
        try:
            self._on_all(before)
            self._on_root(lambda: self._make_folders(folder))
            written = self._on_all(lambda: self._write_own(serial, folder, arrays, steps))
            files = {_rank_file(rank): digest for rank, (digest, _) in enumerate(written)}
            replay = []
            if steps is not None:
                replay = [each for each in self.replay if each["end"] > steps.oldest]
                replay += [each for _, each in written]
            content = dict(
                format=FORMAT,
                run=dict(description),
                counters=dict(counters),
                variables=[list(variable.shape) for variable in variables],
                num_ranks=len(written),
                files=files,
                replay=replay,
            )
            self._on_root(lambda: self._complete(serial, folder, content, variables, best))
        except OSError:
            if proc_id() == 0:
                shutil.rmtree(folder, ignore_errors=True)
                for path in self.replay_files(serial):
                    path.unlink(missing_ok=True)
            raise
        self.replay = replay
        if proc_id() == 0:
            with suppress(OSError):  # there is a checkpoint more, whatever stays beside it
                self.clean()

    def _make_folders(self, folder):
        remove(folder)  # of a crash
        folder.mkdir(parents=True)
        (self.root / REPLAY).mkdir(exist_ok=True)

    def _write_own(self, serial, folder, arrays, steps):
        """Write what each rank writes; returns what the manifest says of it.

        That is size and digest of its file in `folder`, and its entry in `replay` or None.
        """
        rank = proc_id()
        own = _write_npz(folder, _rank_file(rank), arrays)
        if steps is None:
            return own, None
        name = f"{self.path_of(serial).name}-{_rank_file(rank)}"
        digest = _write_npz(self.root / REPLAY, name, steps.arrays)
        return own, dict(file=name, rank=rank, first=steps.first, end=steps.end, **digest)

    def _complete(self, serial, folder, content, variables, best):
        """Write what is equal on all ranks, and the manifest; then it gets its name."""
        self._write_variables(folder / VARIABLES, variables)
        weights = {str(i): weight for i, weight in enumerate(best)}
        content["files"][BEST] = _write_npz(folder, BEST, weights)
        for path in folder.glob(f"{VARIABLES}.*"):
            content["files"][path.name] = _sync(path)
        manifest = folder / MANIFEST
        text = json.dumps(dict(content, sha256=digest_of(content)), indent=1)
        manifest.write_text(text, encoding="utf-8")
        _sync(manifest)
        _sync_directory(self.root / REPLAY)
        _sync_directory(folder)
        os.rename(folder, self.path_of(serial))
        _sync_directory(self.root)

    def _write_variables(self, prefix, variables):
        import tensorflow as tf

        if self._writer is None:  # it compiles what it needs when it writes for the first time
            self._writer = tf.train.Checkpoint(variables=[each.value for each in variables])
        try:
            self._writer.write(str(prefix))
        except tf.errors.OpError as error:
            raise OSError(error.message) from error

    def _on_root(self, function):
        self._on_all(function if proc_id() == 0 else lambda: None)

    @staticmethod
    def _on_all(function):
        """What `function()` returns on each rank; OSError on all if one has failed to write."""
        problem, result = None, None
        try:
            result = function()
        except OSError as error:
            problem = error.strerror or str(error)
        results = gather_objects((problem, result))
        for rank, (problem, _) in enumerate(results):
            if problem is not None:
                where = f" (rank {rank})" if len(results) > 1 else ""
                raise OSError(f"{problem}{where}")
        return [result for _, result in results]

    def clean(self) -> None:
        """Remove what no checkpoint that is kept needs, and what a crash has left. Rank 0."""
        serials = self._serials()
        for serial in serials[: -self.keep]:
            shutil.rmtree(self.path_of(serial), ignore_errors=True)
        needed = {each["file"] for each in self.replay}
        for serial in serials[-self.keep :]:
            try:
                needed.update(each["file"] for each in self._content(serial)["replay"])
            except (DamagedCheckpoint, UserError):
                continue
        for folder in (self.root, self.root / REPLAY):
            for path in folder.glob("*.tmp") if folder.is_dir() else ():
                remove(path)
        for path in (self.root / REPLAY).glob("*.npz"):
            if path.name not in needed:
                remove(path)


def _rank_file(rank):
    return f"rank{rank}.npz"


def _write_npz(folder, name, arrays):
    """Write arrays; returns size and digest of the file."""
    path = Path(folder, name)
    temporary = path.with_name(f"{name}.tmp")
    with open(temporary, "wb") as file:
        np.savez(file, **arrays)
    digest = _sync(temporary)
    os.replace(temporary, path)
    return digest


def _sync(path):
    """Make sure that a file is on the disk; returns its size and digest."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
    return measure(path)


def _sync_directory(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
