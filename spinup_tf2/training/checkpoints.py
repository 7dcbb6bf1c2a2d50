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
no remaining checkpoint needs them. Only a folder with such a manifest is a checkpoint; whatever
else lies there is neither read nor removed.
"""

import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spinup_tf2.errors import UserError
from spinup_tf2.files.arrays import DamagedCheckpoint, numbered, read_npz
from spinup_tf2.files.printing import warn
from spinup_tf2.files.run_directory import read_json
from spinup_tf2.parallel.mpi import on_root

FORMAT = 2
DIRECTORY = "checkpoint"

MANIFEST, REPLAY = "manifest.json", "replay"
SERIAL = re.compile(r"\d{6}")
_FILE = re.compile(r"rank\d+\.npz")
REPLAY_FILE = re.compile(r"\d{6}-rank\d+\.npz")
LEFT_OVER = re.compile(r"\d{6}(-rank\d+\.npz)?\.tmp")  # by a crash

# Errors that reading a damaged file may raise, including those of NumPy.
_READ_ERRORS = (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError, EOFError)

Arrays = Mapping[str, np.ndarray]


@dataclass
class Saved:
    """A checkpoint that has been verified to be complete.

    Attributes:
        path: Directory of the checkpoint.
        run: Description of the run that it belongs to; see `describe_run`.
        counters: Position of the run and other plain values, as JSON.
        num_ranks: Number of ranks that wrote it.
        replay: Files with steps of replay buffers, the oldest first, each a dict with the keys
            file, rank, first, end, size and sha256.
    """

    path: Path
    run: dict
    counters: dict
    num_ranks: int
    replay: list


class Checkpoints:
    """The checkpoints in the directory of a run."""

    def __init__(self, run_dir: str | os.PathLike):
        self.root = Path(run_dir, DIRECTORY)

    def path_of(self, serial: int) -> Path:
        """Return the directory of a checkpoint."""
        return self.root / f"{serial:06d}"

    def newest(self) -> Saved | None:
        """Return the newest complete checkpoint; None if there are no checkpoints. Collective.

        Damaged ones that are newer are named in a warning.

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
                    warn(f"{problem}. The one before is used.")
                return saved
            if problems:
                raise UserError(
                    f"{'; '.join(problems)}. There is no complete checkpoint to resume from; start "
                    "the run again with --overwrite (overwrite=True), or in another directory."
                )
            return None

        return on_root(find)

    def describe(self) -> dict[str, Any] | None:
        """Return `run` of the newest checkpoint with a valid manifest; None without one. Rank 0.

        Two entries are added: `epochs_done`, the number of completed epochs, and `stopped`, the
        reason why a callback ended training before the last epoch ("" if none did).
        """
        for _, content in self._contents():
            counters = content["counters"]
            done, stopped = counters.get("epoch", 0), counters.get("stopped", "")
            return content["run"] | dict(epochs_done=done, stopped=stopped)
        return None

    def best(self) -> tuple[list[np.ndarray], dict[str, Any]]:
        """Return the best weights, and a dict with their epoch and score.

        Raises:
            UserError: No checkpoint has any.
        """
        for serial, content in self._contents():
            path = self.path_of(serial) / rank_file(0)
            with suppress(AttributeError, DamagedCheckpoint, KeyError, TypeError):
                _check_file(path, content["files"][path.name])
                best = content["counters"]["best"]
                known = best["score"], best["epoch"], best.get("success", 0)
                if all(isinstance(number, int | float) for number in known):
                    return numbered(
                        read_npz(path, lambda name: name.startswith("best/")), "best/"
                    ), best
        raise UserError(
            f"{self.root.parent} has no checkpoint with weights that have done best: no episode "
            "had ended, or checkpoint_freq was 0."
        )

    def _contents(self):
        """Yield the number and the manifest of each checkpoint with a valid one, newest first."""
        for serial in reversed(self._serials()):
            with suppress(DamagedCheckpoint):
                yield serial, self._content(serial)

    def check(self, serial: int) -> Saved:
        """Return a checkpoint if it is complete; raise DamagedCheckpoint if it is not."""
        content = self._content(serial)
        path = self.path_of(serial)
        for name, expected in content["files"].items():
            _check_file(path / name, expected)
        for each in content["replay"]:
            _check_file(self.root / REPLAY / each["file"], each)
        keys = ("run", "counters", "num_ranks", "replay")
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
        """Return the numbers of all checkpoints on disk, the oldest first.

        A folder without a manifest is none: somebody else's, or what a crash has left.
        """
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
        found = [name for name in names if SERIAL.fullmatch(name)]
        return sorted(int(name) for name in found if os.path.lexists(self.root / name / MANIFEST))


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


def measure(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(2**20):
            digest.update(block)
        return dict(size=file.tell(), sha256=digest.hexdigest())


def _check_content(content):
    """Raise DamagedCheckpoint if the contents of a manifest are not of the expected form."""
    number = lambda x: type(x) is int and x >= 0  # noqa: E731
    files, replay = content["files"], content["replay"]
    ranks = {f"rank{rank}.npz" for rank in range(min(content["num_ranks"], len(files)))}
    sound = (
        all(isinstance(content[key], dict) for key in ("run", "counters", "files"))
        and isinstance(replay, list)
        and content["num_ranks"] == len(ranks) > 0
        and all(_FILE.fullmatch(name) for name in files)
        and ranks == {*files}
        and all(REPLAY_FILE.fullmatch(each["file"]) for each in replay)
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
