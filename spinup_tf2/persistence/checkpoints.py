"""Checkpoints on disk: written atomically, verified before they are used, without pickles.

A run's directory `checkpoint/` holds

    000012/                       a checkpoint; those with higher numbers are newer
      manifest.json               the run's description and position, and a digest of each file
      variables.index, .data-...  networks, targets, optimizers, normalizers (tf.train.Checkpoint)
      best.npz                    the best weights so far
      rank0.npz, rank1.npz, ...   the state of each MPI rank and of its environments
    replay/
      000012-rank0.npz, ...       steps of the replay buffers since the previous checkpoint

A checkpoint is written under a temporary name, synced, and renamed. Steps of a replay buffer are
written only once: a manifest lists all files in `replay/` that it needs, and these are kept until
no remaining checkpoint needs them. TensorFlow is imported only to write or read variables.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spinup_tf2.errors import UserError
from spinup_tf2.files.printing import warn
from spinup_tf2.files.run_directory import read_json
from spinup_tf2.parallel.mpi import on_root

if TYPE_CHECKING:
    import keras

FORMAT = 1
DIRECTORY = "checkpoint"

MANIFEST, VARIABLES, BEST, REPLAY = "manifest.json", "variables", "best.npz", "replay"
_SERIAL = re.compile(r"\d{6,}")
_FILE = re.compile(r"variables\.(index|data-00000-of-00001)|best\.npz|rank\d+\.npz")
_REPLAY_FILE = re.compile(r"\d{6,}-rank\d+\.npz")

# Errors that reading a damaged file may raise, including those of NumPy and TensorFlow.
_READ_ERRORS = (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError, EOFError)


class DamagedCheckpoint(Exception):
    """A checkpoint that cannot be used; the message says why."""


@dataclass
class Saved:
    """A checkpoint that has been verified to be complete.

    Attributes:
        path: Directory of the checkpoint.
        run: Description of the run that it belongs to; see `describe_run`.
        counters: Position of the run and other plain values, as JSON.
        variables: Shapes of the variables.
        num_ranks: Number of ranks that wrote it.
        replay: Files with steps of replay buffers, the oldest first, each a dict with the keys
            file, rank, first, end, size and sha256.
    """

    path: Path
    run: dict
    counters: dict
    variables: list
    num_ranks: int
    replay: list


class Checkpoints:
    """Finds and reads the checkpoints in the directory of a run."""

    def __init__(self, run_dir: str | os.PathLike):
        self.root = Path(run_dir, DIRECTORY)

    def path_of(self, serial: int) -> Path:
        """Return the directory of a checkpoint."""
        return self.root / f"{serial:06d}"

    def replay_files(self, serial: int) -> list[Path]:
        """Return the checkpoint's own files in `replay/`, if there are any."""
        return [*(self.root / REPLAY).glob(f"{self.path_of(serial).name}-rank*")]

    def newest(self) -> Saved | None:
        """Return the newest complete checkpoint; None if there are no checkpoints. Collective.

        Damaged ones that are newer are removed with a warning.

        Raises:
            UserError: All checkpoints are damaged, or one cannot be read by this version.
        """

        def find():
            problems = []
            for serial in reversed(self._serials()):
                try:
                    saved = self.check(serial)
                except DamagedCheckpoint as error:
                    problems.append(f"{self.path_of(serial)} is damaged: {error}")
                    continue
                for problem in problems:
                    warn(f"{problem}. It is removed.")
                for damaged in self._serials():
                    if damaged > serial:
                        remove(self.path_of(damaged))
                        for path in self.replay_files(damaged):
                            remove(path)
                return saved
            if problems:
                raise UserError(
                    f"{'; '.join(problems)}. There is no complete checkpoint to resume from; start "
                    "the run anew with --overwrite (overwrite=True), or in another directory."
                )
            return None

        return on_root(find)

    def describe(self) -> dict[str, Any] | None:
        """Return `run` of the newest checkpoint with a valid manifest; None without one. Rank 0.

        Two entries are added: `epochs_done`, the number of completed epochs, and `stopped`, the
        reason why a callback ended training before the last epoch ("" if none did).
        """
        for serial in reversed(self._serials()):
            try:
                content = self._content(serial)
            except DamagedCheckpoint:
                continue
            counters = content["counters"]
            done, stopped = counters.get("epoch", 0), counters.get("stopped", "")
            return content["run"] | dict(epochs_done=done, stopped=stopped)
        return None

    def best(self) -> tuple[list[np.ndarray], dict[str, Any]]:
        """Return the best weights, and a dict with their epoch and score.

        Raises:
            UserError: No checkpoint has any.
        """
        for serial in reversed(self._serials()):
            path = self.path_of(serial)
            try:
                content = self._content(serial)
                _check_file(path / BEST, content["files"][BEST])
                best = content["counters"]["best"]
                known = best["score"], best["epoch"], best.get("success", 0)
                if all(isinstance(number, int | float) for number in known):
                    return read_best(path), best
            except (AttributeError, DamagedCheckpoint, KeyError, TypeError):
                continue
        raise UserError(
            f"{self.root.parent} has no checkpoint with weights that have done best: no episode "
            "had ended, or checkpoint_freq was 0."
        )

    def check(self, serial: int) -> Saved:
        """Return a checkpoint if it is complete; raise DamagedCheckpoint if it is not."""
        content = self._content(serial)
        path = self.path_of(serial)
        for name, expected in content["files"].items():
            _check_file(path / name, expected)
        for each in content["replay"]:
            _check_file(self.root / REPLAY / each["file"], each)
        keys = ("run", "counters", "variables", "num_ranks", "replay")
        return Saved(path, **{key: content[key] for key in keys})

    def _content(self, serial):
        """Return the contents of a manifest, after checking that it is unchanged and valid."""
        path = self.path_of(serial) / MANIFEST
        try:
            _check_regular(path)
            content = read_json(path)
            digest = content.pop("sha256")
            if digest != digest_of(content):
                raise DamagedCheckpoint(f"{MANIFEST} is not what was written")
            written_in = content["format"]
            if written_in == FORMAT:
                _check_content(content)
        except FileNotFoundError as error:
            raise DamagedCheckpoint(f"{MANIFEST} is missing") from error
        except OSError as error:  # it may be undamaged, and readable again in a moment
            raise UserError(f"{path} cannot be read ({error.strerror}).") from error
        except (*_READ_ERRORS, RecursionError) as error:
            raise DamagedCheckpoint(
                f"{MANIFEST} cannot be read ({type(error).__name__}: {error})"
            ) from error
        if written_in != FORMAT:  # not damaged, so it must not be removed
            raise UserError(
                f"{path.parent} is of format {written_in}, and this version of spinup_tf2 reads "
                f"{FORMAT}; resume it with the version that wrote it."
            )
        return content

    def _serials(self):
        """Return the numbers of all checkpoints on disk, the oldest first."""
        for folder in (self.root, self.root / REPLAY):
            if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
                raise UserError(
                    f"{folder} is a link, or no directory; checkpoints lie in the run's own "
                    "directory. Remove it, or choose another exp_name, seed or data_dir."
                )
        try:
            names = os.listdir(self.root)
        except FileNotFoundError:
            return []
        return sorted(int(name) for name in names if _SERIAL.fullmatch(name))


def restore_variables(saved: Saved, variables: Sequence[keras.Variable]) -> None:
    """Restore variables from a checkpoint; raise DamagedCheckpoint if that fails."""
    import tensorflow as tf

    try:
        checkpoint = tf.train.Checkpoint(variables=[each.value for each in variables])
        with path_for_tensorflow(saved.path) as path:
            checkpoint.read(str(path / VARIABLES)).assert_consumed()
    except (AssertionError, tf.errors.OpError, *_READ_ERRORS) as error:
        raise DamagedCheckpoint(f"its variables cannot be read ({error})") from error


@contextmanager
def path_for_tensorflow(path: str | os.PathLike) -> Iterator[Path]:
    """Context manager that yields a path to the directory `path` which TensorFlow can read from.

    When reading, though not when writing, TensorFlow takes a path for a glob pattern, in which [1]
    stands for 1. So a path with brackets is read through a temporary link.
    """
    if "[" not in os.path.abspath(path):
        yield Path(path)
        return
    temporary = tempfile.gettempdir()
    with tempfile.TemporaryDirectory(dir="/tmp" if "[" in temporary else temporary) as folder:
        link = Path(folder, "link")
        link.symlink_to(os.path.abspath(path))
        yield link


def read_best(path: Path) -> list[np.ndarray]:
    """Return the best weights as of the checkpoint in `path`, ordered like the actor-critic's.

    Raises:
        DamagedCheckpoint: They cannot be read.
    """
    return read_numbered(path / BEST)


def read_ranks(saved: Saved) -> list[dict[str, np.ndarray]]:
    """Return the arrays that each of the ranks wrote."""
    return [read_npz(saved.path / f"rank{rank}.npz") for rank in range(saved.num_ranks)]


def read_steps(saved: Saved, wanted: Callable[[str], bool]) -> list[tuple[dict, dict]]:
    """Return (manifest entry, arrays) for each file with steps, the oldest first.

    Args:
        saved: The checkpoint.
        wanted: Function of an array's name that returns whether to read it.
    """
    folder = saved.path.parent / REPLAY
    return [(each, read_npz(folder / each["file"], wanted)) for each in saved.replay]


def read_numbered(path: Path) -> list[np.ndarray]:
    """Read a file whose arrays are named 0, 1, ... and hold real numbers, as weights do.

    Raises:
        DamagedCheckpoint: It cannot be read, or has other arrays.
    """
    arrays = read_npz(path)
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise DamagedCheckpoint(
                f"array {name} of {path.name} is of type {array.dtype}, and not of real numbers"
            )
    try:
        return [arrays[str(i)] for i in range(len(arrays))]
    except KeyError as error:
        raise DamagedCheckpoint(f"{path.name} has no array {error}") from error


def read_npz(
    path: str | os.PathLike, wanted: Callable[[str], bool] = lambda name: True
) -> dict[str, np.ndarray]:
    """Read the arrays of a file, without running any code in it.

    Args:
        path: Path of an uncompressed npz file.
        wanted: Function of an array's name that returns whether to read it.

    Raises:
        DamagedCheckpoint: It cannot be read.
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            if any(each.compress_type != zipfile.ZIP_STORED for each in arrays.zip.infolist()):
                raise ValueError("it is compressed, and may be of any size")
            return {name: arrays[name] for name in arrays.files if wanted(name)}
    except Exception as error:  # a garbled zip file may raise almost anything
        raise DamagedCheckpoint(
            f"{os.path.basename(path)} cannot be read ({type(error).__name__}: {error})"
        ) from error


# ---------------------------------------------------------------------------------- files


def measure(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(2**20):
            digest.update(block)
        return dict(size=file.tell(), sha256=digest.hexdigest())


def _check_content(content):
    """Raise DamagedCheckpoint if the contents of a manifest are not of the expected form."""
    number = lambda x: type(x) is int and x >= 0  # noqa: E731
    files, replay, shapes = (content[key] for key in ("files", "replay", "variables"))
    ranks = {f"rank{rank}.npz" for rank in range(min(content["num_ranks"], len(files)))}
    sound = (
        all(isinstance(content[key], dict) for key in ("run", "counters", "files"))
        and all(isinstance(each, list) for each in (replay, shapes, *shapes))
        and all(number(size) for shape in shapes for size in shape)
        and content["num_ranks"] == len(ranks) > 0
        and all(_FILE.fullmatch(name) for name in files)
        and {f"{VARIABLES}.index", BEST, *ranks} <= {*files}
        and all(_REPLAY_FILE.fullmatch(each["file"]) for each in replay)
        and all(number(each[key]) for each in replay for key in ("rank", "first", "end"))
        and all(
            number(each["size"]) and isinstance(each["sha256"], str)
            for each in [*files.values(), *replay]
        )
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
    try:
        _check_regular(path)
        found = measure(path)
    except FileNotFoundError as error:
        raise DamagedCheckpoint(f"{path.name} is missing") from error
    except OSError as error:  # it may be undamaged, and readable again in a moment
        raise UserError(f"{path} cannot be read ({error.strerror}).") from error
    if found["size"] != expected["size"]:
        raise DamagedCheckpoint(
            f"{path.name} has {found['size']} bytes instead of {expected['size']}"
        )
    if found["sha256"] != expected["sha256"]:
        raise DamagedCheckpoint(f"{path.name} is not what was written (another SHA-256)")


def remove(path):
    """Remove a file or a directory; errors are ignored."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
