"""Checkpoints on disk: written atomically, verified before they are used, without pickles.

A run's directory `checkpoint/` holds

    000012/                       a checkpoint; those with higher numbers are newer
      manifest.json               the run's description and position, and a digest of each file
      rank0.npz, rank1.npz, ...   the state of each MPI rank and of its environments; that of rank 0
                                  also holds `variables/` (networks, targets, optimizers,
                                  normalizers) and `best/` (the best weights so far)
    replay/
      000012-rank0.npz, ...       steps of the replay buffers since the previous checkpoint

A checkpoint is written under a temporary name, synced, and renamed. Steps of a replay buffer are
written only once: a manifest lists all files in `replay/` that it needs, and these are kept until
no remaining checkpoint needs them. Only a folder whose manifest names its own number is a
checkpoint; whatever else lies there, also a copy of one, is neither read nor removed.
"""

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spinup_tf2.errors import UserError
from spinup_tf2.files.disk import DamagedCheckpoint, numbered, read_json, read_npz
from spinup_tf2.files.printing import warn
from spinup_tf2.parallel.mpi import gather_objects, on_root, proc_id

FORMAT = 2
DIRECTORY = "checkpoint"
MANIFEST, REPLAY = "manifest.json", "replay"

_SERIAL = re.compile(r"[0-9]{6}")
_REPLAY_FILE = re.compile(r"[0-9]{6}-rank[0-9]+\.npz")
_LEFT_OVER = re.compile(r"[0-9]{6}(\.tmp|-rank[0-9]+\.npz)")
_OWN_FILE = re.compile(r"manifest\.json|rank[0-9]+\.npz")  # in the folder of a checkpoint

Arrays = Mapping[str, np.ndarray]


@dataclass
class Saved:
    """A checkpoint that has been verified to be complete.

    Attributes:
        path: Directory of the checkpoint.
        run: Description of the run that it belongs to; see `describe_run`.
        counters: Position of the run (`epoch`, `step`) and other plain values, as JSON.
        num_ranks: Number of ranks that wrote it.
        replay: Files with steps of replay buffers, the oldest first, each a dict with the keys
            file, first, end, size and sha256.
    """

    path: Path
    run: dict
    counters: dict
    num_ranks: int
    replay: list


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


class Checkpoints:
    """The checkpoints in the directory of a run.

    All MPI ranks must see the same directory; on several machines it must be on a shared file
    system.

    Args:
        run_dir: Directory of the run.
        keep: Number of checkpoints to keep.
        saved: Checkpoint that the run is resumed from, if any.
    """

    def __init__(self, run_dir: str | os.PathLike, keep: int = 2, saved: Saved | None = None):
        self.root, self.keep = Path(run_dir, DIRECTORY), keep
        self.replay = saved.replay if saved else []  # files that the next checkpoint may need

    def path_of(self, serial: int) -> Path:
        """Return the directory of a checkpoint."""
        return self.root / f"{serial:06d}"

    # ------------------------------------------------------------------------------ reading

    def newest(self) -> Saved | None:
        """Return the newest complete checkpoint; None if there are none. Collective.

        Damaged ones that come after it are named in a warning.

        Raises:
            UserError: All checkpoints are damaged, or one cannot be read by this version.
        """

        def find():
            problems = []
            for serial in self._serials():
                try:
                    saved = self.check(serial)
                except DamagedCheckpoint as error:
                    problems.append(f"{self.path_of(serial)} is damaged: {error}")
                    continue
                if saved is None:
                    continue
                for problem in problems:
                    warn(f"{problem}. The one before is used.")
                return saved
            if problems:
                raise UserError(
                    f"{'; '.join(problems)}. There is no complete checkpoint to resume from; start "
                    "the run again with --overwrite (overwrite=True), or in another directory."
                )
            return None

        return on_root(find)

    def check(self, serial: int) -> Saved | None:
        """Return a checkpoint if it is complete; None if it is somebody's copy.

        Raises:
            DamagedCheckpoint: It is not complete.
        """
        content, path = self._content(serial), self.path_of(serial)
        if content is None:
            return None
        for name, expected in content["files"].items():
            _check_file(path / name, expected)
        for each in content["replay"]:
            _check_file(self.root / REPLAY / each["file"], each)
        run, counters, files, replay = (
            content[key] for key in ("run", "counters", "files", "replay")
        )
        return Saved(path, run, counters, len(files), replay)

    def describe(self) -> dict[str, Any] | None:
        """Return `run` of the newest checkpoint with a valid manifest; None without one. Rank 0.

        Two entries are added: `epochs_done`, the number of completed epochs, and `stopped`, the
        reason why a callback ended training before the last epoch ("" if none did).
        """
        for _, content in self._contents():
            counters = content["counters"]
            stopped = counters.get("stopped", "")
            return content["run"] | dict(epochs_done=counters["epoch"], stopped=stopped)
        return None

    def best(self) -> tuple[list[np.ndarray], dict[str, Any]]:
        """Return the best weights, and a dict with their epoch and score.

        Raises:
            UserError: No checkpoint has any.
        """
        for serial, content in self._contents():
            path = self.path_of(serial) / rank_file(0)
            with suppress(DamagedCheckpoint, KeyError, TypeError):
                _check_file(path, content["files"][path.name])
                best = content["counters"]["best"]
                known = best["score"], best["epoch"], best["success"]
                if all(isinstance(number, int | float) for number in known):
                    own = read_npz(path, lambda name: name.startswith("best/"))
                    return numbered(own, "best/"), best
        raise UserError(
            f"{self.root.parent} has no checkpoint with weights that have done best: no episode "
            "had ended, or checkpoint_freq was 0."
        )

    def _contents(self, *skipped):
        """Yield number and manifest of each checkpoint with a valid one, the newest first.

        Those for which one of the exceptions `skipped` is raised are passed over.
        """
        for serial in self._serials():
            with suppress(DamagedCheckpoint, *skipped):
                if content := self._content(serial):
                    yield serial, content

    def _content(self, serial):
        """Return the contents of a manifest, after checking that it is unchanged and valid.

        They are None if it names another number.
        """
        path = self.path_of(serial) / MANIFEST
        with _reading(path):
            _check_regular(path)
            content = read_json(path)
            digest = content.pop("sha256")
            if digest != digest_of(content):
                raise DamagedCheckpoint(f"{MANIFEST} is not what was written")
            if content["format"] == FORMAT:
                _check_content(content)
                return content if content["serial"] == serial else None
        raise UserError(  # it is not damaged, and must not be removed
            f"{path.parent} is of format {content['format']}, and this version of spinup_tf2 reads "
            f"{FORMAT}; resume it with the version that wrote it."
        )

    def _serials(self):
        """Return the numbers of all checkpoints on disk, the newest first.

        A folder without a manifest is none: somebody else's, or what a crash has left.
        """
        for folder in (self.root, self.root / REPLAY):
            if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
                raise UserError(
                    f"{folder} is a link, or no directory; checkpoints lie in the run's own "
                    "directory. Remove it, or choose another exp_name, seed or data_dir."
                )
        found = [path.parent.name for path in self.root.glob(f"*/{MANIFEST}")]
        return sorted((int(name) for name in found if _SERIAL.fullmatch(name)), reverse=True)

    # ------------------------------------------------------------------------------ writing

    def has_steps(self) -> bool:
        """Return whether the files of earlier steps are still there; else forget them. Collective.

        Somebody may have removed them, and a checkpoint that needed them would be worth nothing.
        """
        paths = [self.root / REPLAY / each["file"] for each in self.replay]
        there = on_root(lambda: all(map(os.path.isfile, paths)))
        self.replay = self.replay if there else []
        return there

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
            before: Function that rank 0 calls before anything is written. An OSError that it
                raises counts as a failure to write.

        Raises:
            OSError: On all ranks, if any of them cannot write. Existing checkpoints are kept.
        """
        _on_root(before)
        serial = _on_root(self._begin)
        folder = self.path_of(serial).with_suffix(".tmp")  # until it is complete
        try:
            written = _on_all(lambda: self._write_own(serial, folder, arrays, steps))
            files = {rank_file(rank): digest for rank, (digest, _) in enumerate(written)}
            replay = []
            if steps is not None:
                replay = [each for each in self.replay if each["end"] > steps.oldest]
                replay += [each for _, each in written]
            content = dict(
                format=FORMAT,
                serial=serial,
                run=dict(description),
                counters=dict(counters),
                files=files,
                replay=replay,
            )
            _on_root(lambda: self._complete(serial, folder, content))
        except OSError:
            if proc_id() == 0:
                own = (self.root / REPLAY).glob(f"{serial:06d}-rank*.npz")
                for path in (folder, self.path_of(serial), *own):
                    _clear(path)
            raise
        self.replay = replay
        if proc_id() == 0:
            with suppress(OSError):  # the new checkpoint is complete, even if cleaning up fails
                self.clean()

    def _begin(self):
        """Make the folder of a new checkpoint; return its number."""
        serial = max((serial for serial, _ in self._contents(UserError)), default=0) + 1
        for folder in (self.root, self.root / REPLAY):
            folder.mkdir(exist_ok=True)  # without parents: the run may have been moved away
        while True:
            folder = self.path_of(serial).with_suffix(".tmp")
            _clear(folder)  # left over from a crash
            if not any(map(os.path.lexists, (folder, self.path_of(serial)))):
                folder.mkdir()
                return serial
            serial += 1  # it is somebody else's, or damaged

    def _write_own(self, serial, folder, arrays, steps):
        """Write this rank's own files, and return what the manifest needs about them.

        That is size and digest of its file in `folder`, and its entry in `replay` or None.
        """
        name = rank_file(proc_id())
        own = _write_npz(folder / name, arrays)
        if steps is None:
            return own, None
        name = f"{serial:06d}-{name}"
        digest = _write_npz(self.root / REPLAY / name, steps.arrays)
        return own, dict(file=name, first=steps.first, end=steps.end, **digest)

    def _complete(self, serial, folder, content):
        """Write the manifest; then rename the folder."""
        text = json.dumps(dict(content, sha256=digest_of(content)), indent=1)
        (folder / MANIFEST).write_text(text, encoding="utf-8")
        for path in (folder / MANIFEST, self.root / REPLAY, folder):
            _sync(path)
        os.rename(folder, self.path_of(serial))
        _sync(self.root)

    def clean(self) -> None:
        """Remove old checkpoints, files that are no longer needed, and leftovers of crashes.

        To be called on rank 0 only.
        """
        own = [*self._contents(UserError)]
        for serial, _ in own[self.keep :]:
            _clear(self.path_of(serial))
        kept = [each for _, content in own[: self.keep] for each in content["replay"]]
        needed = {each["file"] for each in [*self.replay, *kept]}
        newest = own[0][0] if own else 0
        for path in (*self.root.glob("*"), *(self.root / REPLAY).glob("*")):
            left_over = _LEFT_OVER.fullmatch(path.name) and path.name not in needed
            if left_over and int(path.name[:6]) <= newest:
                _clear(path)


def rank_file(rank: int) -> str:
    """Return the name of the file of an MPI rank's state."""
    return f"rank{rank}.npz"


def read_ranks(saved: Saved) -> list[dict[str, np.ndarray]]:
    """Return the arrays that each of the ranks wrote."""
    return [read_npz(saved.path / rank_file(rank)) for rank in range(saved.num_ranks)]


def read_steps(saved: Saved, wanted: Callable[[str], bool]) -> list[tuple[dict, dict]]:
    """Return (manifest entry, arrays) for each file with steps, the oldest first.

    Args:
        saved: The checkpoint.
        wanted: Function of an array's name that returns whether to read it.
    """
    folder = saved.path.parent / REPLAY
    return [(each, read_npz(folder / each["file"], wanted)) for each in saved.replay]


# ---------------------------------------------------------------------------------- files


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Context manager in which a file that cannot be used is a DamagedCheckpoint."""
    try:
        yield
    except FileNotFoundError as error:
        raise DamagedCheckpoint(f"{path.name} is missing") from error
    except OSError as error:  # it may be undamaged, and readable again in a moment
        raise UserError(f"{path} cannot be read ({error.strerror}).") from error
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise DamagedCheckpoint(
            f"{path.name} cannot be read ({type(error).__name__}: {error})"
        ) from error


def _check_content(content):
    """Raise DamagedCheckpoint if the contents of a manifest are not of the expected form."""
    files, replay, counters = content["files"], content["replay"], content["counters"]
    numbers = [counters["epoch"], counters["step"], content["serial"]]
    numbers += [each[key] for each in replay for key in ("first", "end")]
    sound = (
        all(isinstance(each, dict) for each in (content["run"], *files.values(), *replay))
        and all(type(number) is int and number >= 0 for number in numbers)
        and {*files} == {rank_file(rank) for rank in range(max(1, len(files)))}
        and all(_REPLAY_FILE.fullmatch(each["file"]) for each in replay)
    )
    if not sound:
        raise DamagedCheckpoint(f"{MANIFEST} is not of the form in which manifests are written")


def digest_of(content):
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _check_regular(path):
    """Raise DamagedCheckpoint unless it is a regular file; a link could lead anywhere."""
    if not stat.S_ISREG(os.lstat(path).st_mode) or stat.S_ISLNK(os.lstat(path.parent).st_mode):
        raise DamagedCheckpoint(f"{path.name} is a link, or no file")


def _check_file(path, expected):
    with _reading(path):
        _check_regular(path)
        found = _measure(path)
    if found != {key: expected.get(key) for key in found}:
        raise DamagedCheckpoint(f"{path.name} is not what was written (another size or SHA-256)")


def _measure(path):
    """Return the size and the digest of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(2**20):
            digest.update(block)
        return dict(size=file.tell(), sha256=digest.hexdigest())


def _clear(path):
    """Remove a file of steps, or from a folder what a checkpoint consists of, and then itself.

    The manifest goes first, so that what is left is no checkpoint. Errors are ignored.
    """
    with suppress(OSError):
        if path.parent.name == REPLAY:
            path.unlink()
        elif not path.is_symlink():
            for own in sorted(path.iterdir()):
                if _OWN_FILE.fullmatch(own.name):
                    own.unlink()
            path.rmdir()  # unless there is something else in it


def _write_npz(path, arrays):
    """Write arrays to a file, which no manifest names yet; return its size and digest."""
    path.unlink(missing_ok=True)  # left over from a crash, or a link
    with open(path, "xb") as file:
        np.savez(file, **arrays)
    _sync(path)
    return _measure(path)


def _sync(path):
    """Flush a file or a directory to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ---------------------------------------------------------------------------------- ranks


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


def _on_root(function):
    """Return the result of `function()` on rank 0; OSError on all if it failed."""
    return _on_all(function if proc_id() == 0 else lambda: None)[0]
