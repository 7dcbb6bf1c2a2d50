"""Writes checkpoints atomically. Their layout is described in the module `checkpoints`."""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spinup_tf2.errors import UserError
from spinup_tf2.files.arrays import DamagedCheckpoint
from spinup_tf2.parallel.mpi import gather_objects, proc_id
from spinup_tf2.training.checkpoints import (
    FORMAT,
    LEFT_OVER,
    MANIFEST,
    REPLAY,
    REPLAY_FILE,
    Arrays,
    Checkpoints,
    Saved,
    digest_of,
    measure,
    rank_file,
    remove,
)


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

    def save(
        self,
        description: Mapping[str, Any],
        counters: Mapping[str, Any],
        arrays: Arrays,
        steps: NewSteps | None = None,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        """Write a checkpoint. Collective.

        Args:
            description: Description of the run by `describe_run`, which becomes `Saved.run`. That
                of rank 0 is used.
            counters: As in `Saved`. Those of rank 0 are used.
            arrays: State of this rank; that of rank 0 has what is equal on all of them as well.
            steps: New steps in its replay buffer.
            before: Function that is called before anything is written. An OSError that it raises
                counts as a failure to write.

        Raises:
            OSError: On all ranks, if any of them cannot write. Existing checkpoints are kept.
        """
        serial = self._on_all(self._next_serial)[0]
        folder = self.path_of(serial).with_suffix(".tmp")  # until it is complete
        try:
            self._on_all(before)
            self._on_root(lambda: self._make_folders(folder))
            written = self._on_all(lambda: self._write_own(serial, folder, arrays, steps))
            files = {rank_file(rank): digest for rank, (digest, _) in enumerate(written)}
            replay = []
            if steps is not None:
                replay = [each for each in self.replay if each["end"] > steps.oldest]
                replay += [each for _, each in written]
            content = dict(
                format=FORMAT,
                run=dict(description),
                counters=dict(counters),
                num_ranks=len(written),
                files=files,
                replay=replay,
            )
            self._on_root(lambda: self._complete(serial, folder, content))
        except OSError:
            if proc_id() == 0:
                shutil.rmtree(folder, ignore_errors=True)
                for path in (self.root / REPLAY).glob(f"{serial:06d}-rank*.npz"):
                    path.unlink(missing_ok=True)
            raise
        self.replay = replay
        if proc_id() == 0:
            with suppress(OSError):  # the new checkpoint is complete, even if cleaning up fails
                self.clean()

    def _next_serial(self):
        serial = max([0, *self._serials()]) + 1
        while os.path.lexists(self.path_of(serial)):  # somebody else's
            serial += 1
        return serial

    def _make_folders(self, folder):
        remove(folder)  # left over from a crash
        folder.mkdir(parents=True)
        (self.root / REPLAY).mkdir(exist_ok=True)

    def _write_own(self, serial, folder, arrays, steps):
        """Write this rank's own files, and return what the manifest needs about them.

        That is size and digest of its file in `folder`, and its entry in `replay` or None.
        """
        rank = proc_id()
        own = _write_npz(folder, rank_file(rank), arrays)
        if steps is None:
            return own, None
        name = f"{self.path_of(serial).name}-{rank_file(rank)}"
        digest = _write_npz(self.root / REPLAY, name, steps.arrays)
        return own, dict(file=name, rank=rank, first=steps.first, end=steps.end, **digest)

    def _complete(self, serial, folder, content):
        """Write the manifest; then rename the folder."""
        manifest = folder / MANIFEST
        text = json.dumps(dict(content, sha256=digest_of(content)), indent=1)
        manifest.write_text(text, encoding="utf-8")
        _sync(manifest)
        _sync_directory(self.root / REPLAY)
        _sync_directory(folder)
        os.rename(folder, self.path_of(serial))
        _sync_directory(self.root)

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
        contents = []
        for serial in reversed(self._serials()):
            with suppress(DamagedCheckpoint, UserError):  # of another format, or unreadable
                contents.append((serial, self._content(serial)))
        for serial, _ in contents[self.keep :]:
            shutil.rmtree(self.path_of(serial), ignore_errors=True)
        kept = [each for _, content in contents[: self.keep] for each in content["replay"]]
        needed = {each["file"] for each in [*self.replay, *kept]}
        for folder in (self.root, self.root / REPLAY):
            for path in folder.iterdir() if folder.is_dir() else ():
                unused = REPLAY_FILE.fullmatch(path.name) and path.name not in needed
                if unused or LEFT_OVER.fullmatch(path.name):
                    remove(path)


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
