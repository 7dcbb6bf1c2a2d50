"""The files in a run's directory: their names, and how to write, read and remove them."""

import itertools
import json
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from spinup_tf2.errors import UserError
from spinup_tf2.files.printing import warn

LARGEST_TEXT = 2**28  # bytes, the rows of more than 500,000 epochs
LARGEST_JSON = 2**25

# Exists while a run writes to its directory (see runs.lock).
LOCK = ".lock"

# Output of a run, if it was one of several that ran at the same time.
OUTPUT = "output.txt"

# Environment variable with the path of that file, which the parent process has already opened.
PRINTED_TO = "SPINUP_TF2_OUTPUT"

# Files that a run leaves in its directory, and those that a crash may leave (see atomic_save).
_RUN_FILES = re.compile(
    r"(config\.json|env_spec\.json|progress\.txt|vars\d*\.pkl|tf2_save\d*|checkpoint|"
    r"output\.txt|videos|tensorboard|wandb)(\.tmp|\.old)?"
)

EXISTING_RUN = (
    "{} already holds a run; choose another exp_name, seed or data_dir, or pass --overwrite "
    "(overwrite=True) to replace it."
)


def fresh_directory() -> str:
    """Make `experiments-<uid>/<time>` in the temporary directory, with a suffix if it exists.

    The uid keeps users apart: they share the temporary directory, and cannot write to each other's.
    """
    parent = os.path.join(tempfile.gettempdir(), f"experiments-{os.getuid()}")
    os.makedirs(parent, exist_ok=True)
    name = str(int(time.time()))
    for suffix in itertools.chain([""], (f"-{n}" for n in itertools.count(2))):
        path = os.path.join(parent, name + suffix)
        try:
            os.mkdir(path)
        except FileExistsError:
            continue
        return path


# Where a run is kept, in its own directory, until the run that replaces it has begun.
REPLACED = ".replaced"
_MOVING = f"{REPLACED}.tmp"  # used while it is being moved there or back

# A directory that contains one of these is the directory of a run.
_MARKS = ("progress.txt", "config.json", "checkpoint")


def holds_run(output_dir: str | os.PathLike, output_fname: str = "progress.txt") -> bool:
    """Return whether a run has been written to this directory."""
    names = (output_fname, *_MARKS, _MOVING)  # the last exists if a crash has left it half-moved
    # A dangling link counts as well: writing through it would write elsewhere.
    return any(os.path.lexists(os.path.join(output_dir, name)) for name in names)


def holds_rows(output_dir: str | os.PathLike, output_fname: str = "progress.txt") -> bool:
    """Return whether the run in this directory has completed an epoch; True if it is unknown."""
    try:
        return len(Path(output_dir, output_fname).read_bytes().splitlines()) > 1
    except FileNotFoundError:
        return False
    except OSError:
        return True


def remove_run(output_dir: str | os.PathLike, output_fname: str, keep: Container[str] = ()) -> None:
    """Remove the files of a run except those in `keep`; other files in the directory are kept."""
    for name in files_of_run(output_dir, output_fname):
        if name not in keep:
            _remove(os.path.join(output_dir, name))


def files_of_run(output_dir: str | os.PathLike, output_fname: str) -> list[str]:
    """Return the names of a run's files, in the order in which they should be removed.

    The file for the output of this process is left out, as it belongs to the next run.
    """
    ours = os.environ.get(PRINTED_TO) or None
    # Checkpoints come first, so that what a crash may leave cannot be resumed. The files that mark
    # the directory as a run come last, so that the rest can then still be removed.
    order = dict.fromkeys((output_fname, *_MARKS), 2) | {"checkpoint": 0}
    return [
        name
        for name in sorted(os.listdir(output_dir), key=lambda name: order.get(name, 1))
        if (name == output_fname or _RUN_FILES.fullmatch(name))
        and os.path.abspath(os.path.join(output_dir, name)) != ours
    ]


def set_aside(output_dir: str | os.PathLike, output_fname: str) -> None:
    """Move the files of a run to `.replaced`, until the run that replaces it has begun.

    Raises:
        UserError: They cannot be moved. If possible, they are moved back to where they were.
    """
    aside, moving = os.path.join(output_dir, REPLACED), os.path.join(output_dir, _MOVING)
    with _moving(output_dir):
        _move_out(output_dir)
        if os.path.isdir(aside):
            if not holds_rows(output_dir, output_fname):  # the replacing run has never begun
                remove_run(output_dir, output_fname)
                return
            forget_replaced(output_dir)
        try:
            os.mkdir(moving)
            for name in files_of_run(output_dir, output_fname):
                os.rename(os.path.join(output_dir, name), os.path.join(moving, name))
            os.rename(moving, aside)
        except BaseException:
            _move_out(output_dir)
            raise


def put_back(output_dir: str | os.PathLike, output_fname: str) -> None:
    """Undo `set_aside`, if `.replaced` still exists; raise UserError if that fails."""
    aside = os.path.join(output_dir, REPLACED)
    with _moving(output_dir):
        if os.path.isdir(aside):
            remove_run(output_dir, output_fname)
            os.rename(aside, os.path.join(output_dir, _MOVING))
            _move_out(output_dir)


def move_back(output_dir: str | os.PathLike) -> None:
    """Move back files that a crash has left halfway to `.replaced`; UserError if that fails."""
    with _moving(output_dir):
        _move_out(output_dir)


def _move_out(output_dir):
    moving = os.path.join(output_dir, _MOVING)
    if os.path.isdir(moving):
        for name in os.listdir(moving):
            os.rename(os.path.join(moving, name), os.path.join(output_dir, name))
        os.rmdir(moving)


@contextmanager
def _moving(output_dir):
    try:
        yield
    except OSError as error:
        raise UserError(
            f"the run in {output_dir} cannot be moved ({error.strerror}: {error.filename}). Files "
            f"of it may be in {REPLACED} or {_MOVING} there. Move or remove it yourself, or "
            "choose another exp_name, seed or data_dir."
        ) from error


def forget_replaced(output_dir: str | os.PathLike) -> None:
    """Remove the files kept by `set_aside`, as the new run has begun."""
    aside = os.path.join(output_dir, REPLACED)
    with suppress(FileNotFoundError):
        # Renamed first, so that nothing is put back if it cannot be removed.
        os.rename(aside, f"{aside}-{time.time_ns()}")
    for path in Path(output_dir).glob(f"{REPLACED}-*"):
        shutil.rmtree(path, ignore_errors=True)


def trim_rows(path: str | os.PathLike, count: int) -> list[str]:
    """Keep only the first `count` rows in a file of rows; return its columns."""
    try:
        # -sig: some editors put a byte order mark before the first column.
        lines = Path(path).read_text(encoding="utf-8-sig", errors="replace").splitlines(True)
    except FileNotFoundError:
        lines = []
    lines = [line for line in lines if line.endswith("\n")][: count + 1 if count else 0]
    if len(lines) < count + 1 and count:
        warn(
            f"{path} has {max(0, len(lines) - 1)} complete rows, and the checkpoint was made "
            f"after {count}."
        )
    with atomic_save(path) as temporary:
        Path(temporary).write_text("".join(lines), encoding="utf-8")
    return lines[0].rstrip("\n").split("\t") if lines else []


def _remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.remove(path)


@contextmanager
def atomic_save(path: str | os.PathLike) -> Iterator[str]:
    """Context manager that yields a temporary path, which becomes `path` if nothing is raised.

    Works for files and directories. After a crash at any moment, either the old or the new one is
    there, and complete.
    """
    temporary, old = f"{path}.tmp", f"{path}.old"
    _remove(temporary)  # left over from a crash
    try:
        yield temporary
    except BaseException:
        _remove(temporary)
        raise
    if os.path.isdir(path):
        # A directory cannot be renamed to an existing one. Between the two renames the complete one
        # is called .old, where `test_policy` finds it.
        _remove(old)
        os.rename(path, old)
    os.replace(temporary, path)
    _remove(old)


@contextmanager
def atomic_output(path: str | os.PathLike) -> Iterator[str]:
    """Like `atomic_save`, for a path given by the user, who may have other files next to it.

    The temporary path has the same name, in a new directory next to `path`.
    """
    path = os.path.abspath(path)
    with tempfile.TemporaryDirectory(prefix=".spinup_tf2_", dir=os.path.dirname(path)) as folder:
        new, old = os.path.join(folder, "new"), os.path.join(folder, "old")
        os.mkdir(new)
        temporary = os.path.join(new, os.path.basename(path))
        yield temporary
        if not os.path.isdir(path):
            os.replace(temporary, path)
            return
        os.rename(path, old)
        try:
            os.rename(temporary, path)
        except BaseException:
            os.rename(old, path)
            raise


def read_text(path: str | os.PathLike, limit: int = LARGEST_TEXT, *, errors: str = "strict") -> str:
    """Read the text of a file.

    Args:
        path: The file.
        limit: Largest number of bytes that it may have.
        errors: How to handle bytes that are not UTF-8, as in `bytes.decode`.

    Raises:
        OSError: It does not exist or cannot be read.
        UserError: It is not text, larger than `limit` bytes, or not a regular file: reading a pipe
            would block, and a device may never end.
    """
    # O_NONBLOCK, because opening a pipe would wait for a writer.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise UserError(f"{path} is not a file.")
        contents = file.read(limit + 1)  # no more than that, whatever size is reported
    if len(contents) > limit:
        raise UserError(f"{path} is larger than {limit} bytes, which is not what a run writes.")
    try:
        return contents.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not text ({error}).") from error


def read_json(path: str | os.PathLike, limit: int = LARGEST_JSON) -> Any:
    """Read the value in a JSON file.

    Raises:
        OSError: As in `read_text`.
        UserError: As in `read_text`, and if it is not JSON.
    """
    text = read_text(path, limit)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not readable as JSON ({error}).") from error


def runs_aside(folder: str | os.PathLike) -> str:
    """Return a sentence about runs in `.replaced` in or below a directory; "" if there are none.

    A crash has left them there, and nothing else finds them.
    """
    found = [path for depth in ("", "*/", "*/*/") for path in Path(folder).glob(depth + REPLACED)]
    there = sorted(str(path) for path in found if path.is_dir())
    if not there:
        return ""
    shown = ", ".join(there[:10] + ["..."] * (len(there) > 10))
    return f" What was to be replaced there, and has not been, is in {shown}."


def runs_in(folder: str | os.PathLike, holding: str) -> str:
    """Return the first runs below a directory, separated by commas; "" if there are none.

    Args:
        folder: The directory.
        holding: Glob pattern of a file that a run must contain.
    """
    found = [path for depth in ("*", "*/*") for path in Path(folder).glob(f"{depth}/{holding}")]
    runs = {path.parent for path in found if not path.parent.name.startswith(REPLACED)}
    runs = sorted(str(run.relative_to(folder)) for run in runs)
    return ", ".join(runs[:10] + ["..."] * (len(runs) > 10))
