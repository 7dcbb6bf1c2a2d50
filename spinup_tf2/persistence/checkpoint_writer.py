"""Writes checkpoints atomically. Their layout is described in the module `checkpoints`."""

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
from spinup_tf2.training.checkpoints import (
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
    """Steps added to a rank's replay buffer since the previous checkpoint.

    Steps are numbered in the order in which they are stored. The numbers are equal on all ranks.

    Attributes:
        arrays: The new steps.
        first: Number of the first new step.
        end: Number of the last new step plus one.
        oldest: Number of the oldest step that is still in the buffer.
    """

    arrays: Arrays
    first: int
    end: int
    oldest: int


class CheckpointWriter(Checkpoints):
    """Writes the checkpoints of the run in `run_dir`, of which the newest `keep` are kept.

    All MPI ranks must see the same directory; on several machines it must be on a shared file
    system.

    Args:
        run_dir: Directory of the run.
        keep: Number of checkpoints to keep.
        saved: Checkpoint that the run is resumed from, if any.
    """

    def __init__(self, run_dir: str | os.PathLike, keep: int = 2, saved: Saved | None = None):
        super().__init__(run_dir)
        self.keep = keep
        self.replay = saved.replay if saved else []  # files that the next checkpoint may need
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
            description: Description of the run by `describe_run`, which becomes `Saved.run`. That
                of rank 0 is used.
            counters: As in `Saved`. Those of rank 0 are used.
            variables: Variables to save, equal on all ranks.
            best: The best weights so far.
            arrays: State of this rank.
            steps: New steps in its replay buffer.
            before: Function that is called before anything is written. An OSError that it raises
                counts as a failure to write.

        Raises:
            OSError: On all ranks, if any of them cannot write. Existing checkpoints are kept.
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
            with suppress(OSError):  # the new checkpoint is complete, even if cleaning up fails
                self.clean()

    def _make_folders(self, folder):
        remove(folder)  # left over from a crash
        folder.mkdir(parents=True)
        (self.root / REPLAY).mkdir(exist_ok=True)

    def _write_own(self, serial, folder, arrays, steps):
        """Write this rank's own files, and return what the manifest needs about them.

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
        """Write what is equal on all ranks and the manifest; then rename the folder."""
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

        if self._writer is None:  # kept, because its first write traces functions
            self._writer = tf.train.Checkpoint(variables=[each.value for each in variables])
        try:
            self._writer.write(str(prefix))
        except tf.errors.OpError as error:
            raise OSError(error.message) from error

    def _on_root(self, function):
        self._on_all(function if proc_id() == 0 else lambda: None)

    @staticmethod
    def _on_all(function):
        """Return the results of `function()` on all ranks; OSError on all if it failed on one."""
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
        """Remove old checkpoints, files that are no longer needed, and leftovers of crashes.

        To be called on rank 0 only.
        """
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
    """Write arrays to a file; return its size and digest."""
    path = Path(folder, name)
    temporary = path.with_name(f"{name}.tmp")
    with open(temporary, "wb") as file:
        np.savez(file, **arrays)
    digest = _sync(temporary)
    os.replace(temporary, path)
    return digest


def _sync(path):
    """Flush a file to disk; return its size and digest."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
    return measure(path)


def _sync_directory(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
