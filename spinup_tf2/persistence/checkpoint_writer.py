"""Writes checkpoints: complete or not there. What they are made of is said in `checkpoints`."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
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
        steps: Arrays | None = None,
        replay_range: tuple[int, int, int] | None = None,
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
            replay_range: Numbers of the first of these steps, of the one after the last, and of
                the oldest that is still in the buffer.
            before: Called before anything is written; what it raises counts as a failure to write.

        Raises:
            OSError: On all ranks, if it cannot be written on one; what was there before stays.
        """
        serial = self._on_all(lambda: max([0, *self._serials()]) + 1)[0]
        final = self.path_of(serial)
        temporary = final.with_name(final.name + ".tmp")

        def prepare():
            remove(temporary)  # of a crash
            temporary.mkdir(parents=True)
            (self.root / REPLAY).mkdir(exist_ok=True)

        def write_own():
            files = {f"rank{proc_id()}.npz": _write_npz(temporary, f"rank{proc_id()}.npz", arrays)}
            if steps is not None:
                name = f"{final.name}-rank{proc_id()}.npz"
                files[name] = _write_npz(self.root / REPLAY, name, steps)
            return files

        try:
            self._on_all(before)
            self._on_root(prepare)
            written = self._on_all(write_own)
            replay = []
            if steps is not None:
                replay = [each for each in self.replay if each["end"] > replay_range[2]]
            for rank, files in enumerate(written):
                name = f"{final.name}-rank{rank}.npz"
                if name in files:
                    first, end, _ = replay_range
                    digest = files.pop(name)
                    replay.append(dict(file=name, rank=rank, first=first, end=end, **digest))

            def complete():
                self._write_variables(temporary / VARIABLES, variables)
                files = {name: digest for each in written for name, digest in each.items()}
                files[BEST] = _write_npz(
                    temporary, BEST, {str(i): weight for i, weight in enumerate(best)}
                )
                for path in temporary.glob(f"{VARIABLES}.*"):
                    files[path.name] = _sync(path)
                content = dict(
                    format=FORMAT,
                    run=dict(description),
                    counters=dict(counters),
                    variables=[list(variable.shape) for variable in variables],
                    num_ranks=len(written),
                    files=files,
                    replay=replay,
                )
                manifest = temporary / MANIFEST
                manifest.write_text(
                    json.dumps(dict(content, sha256=digest_of(content)), indent=1),
                    encoding="utf-8",
                )
                _sync(manifest)
                _sync_directory(self.root / REPLAY)
                _sync_directory(temporary)
                os.rename(temporary, final)
                _sync_directory(self.root)

            self._on_root(complete)
        except OSError:
            if proc_id() == 0:
                shutil.rmtree(temporary, ignore_errors=True)
                for path in self.replay_files(serial):
                    path.unlink(missing_ok=True)
            raise
        self.replay = replay
        if proc_id() == 0:
            with suppress(OSError):  # there is a checkpoint more, whatever stays beside it
                self.clean()

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
