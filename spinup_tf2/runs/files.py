"""The files in a run's directory: what they are called, how they are written, read and removed."""

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
from spinup_tf2.runs.printing import warn

LARGEST_TEXT = 2**28  # bytes: the rows of more than 500,000 epochs
LARGEST_JSON = 2**25

# Is there while a run writes to its directory (see runs.lock).
LOCK = ".lock"

# What a run has printed, if it was one of several at a time.
OUTPUT = "output.txt"

# The variable that tells a run where that file is, which its parent process has opened already.
PRINTED_TO = "SPINUP_TF2_OUTPUT"

# What a run leaves in its directory, and what a crash may leave beside it (see atomic_save).
_RUN_FILES = re.compile(
    r"(config\.json|env_spec\.json|progress\.txt|vars\d*\.pkl|tf2_save\d*|checkpoint|"
    r"output\.txt|videos|tensorboard|wandb)(\.tmp|\.old)?"
)

EXISTING_RUN = (
    "{} already holds a run; choose another exp_name, seed or data_dir, or pass --overwrite "
    "(overwrite=True) to replace it."
)


def fresh_directory() -> str:
    """Make `experiments-<uid>/<time>` in the temporary directory, with a suffix if there is one.

    All users of a machine share that directory, and none can write to another's.
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


# Where a run is, in its directory, until the one that takes its place has begun.
REPLACED = ".replaced"
_MOVING = f"{REPLACED}.tmp"  # only while it is moved there or back

# Whatever has one of these is the directory of a run.
_MARKS = ("progress.txt", "config.json", "checkpoint")


def holds_run(output_dir: str | os.PathLike, output_fname: str = "progress.txt") -> bool:
    """Whether a run has been written to this directory."""
    names = (output_fname, *_MARKS, _MOVING)  # the last: a crash has left it half-moved
    # A link that leads nowhere counts as well: to write through it would be to write elsewhere.
    return any(os.path.lexists(os.path.join(output_dir, name)) for name in names)


def holds_rows(output_dir: str | os.PathLike, output_fname: str = "progress.txt") -> bool:
    """Whether an epoch of the run in this directory is over; True if that cannot be known."""
    try:
        return len(Path(output_dir, output_fname).read_bytes().splitlines()) > 1
    except FileNotFoundError:
        return False
    except OSError:
        return True


def remove_run(output_dir: str | os.PathLike, output_fname: str, keep: Container[str] = ()) -> None:
    """Remove the files of a run but for some, and nothing else that may be in its directory."""
    for name in files_of_run(output_dir, output_fname):
        if name not in keep:
            _remove(os.path.join(output_dir, name))


def files_of_run(output_dir: str | os.PathLike, output_fname: str) -> list[str]:
    """The names of what a run has left, in the order in which they are to be taken away.

    Not the file that gets what this process prints: it belongs to the run that follows.
    """
    ours = os.environ.get(PRINTED_TO) or None
    # Checkpoints first: without them, nobody goes on with what a crash may leave. Last what marks
    # it as a run, so that the rest can still be taken away then.
    order = dict.fromkeys((output_fname, *_MARKS), 2) | {"checkpoint": 0}
    return [
        name
        for name in sorted(os.listdir(output_dir), key=lambda name: order.get(name, 1))
        if (name == output_fname or _RUN_FILES.fullmatch(name))
        and os.path.abspath(os.path.join(output_dir, name)) != ours
    ]


def set_aside(output_dir: str | os.PathLike, output_fname: str) -> None:
    """Move the files of a run to `.replaced`, until the run that takes its place has begun.

    Raises:
        UserError: That cannot be done; the files are where they were.
    """
    aside, moving = os.path.join(output_dir, REPLACED), os.path.join(output_dir, _MOVING)
    with _moving(output_dir):
        _move_out(output_dir)
        if os.path.isdir(aside):
            if not holds_rows(output_dir, output_fname):  # it has never begun
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
    """Undo `set_aside`, unless the new run has begun. Raises UserError if that cannot be done."""
    aside = os.path.join(output_dir, REPLACED)
    with _moving(output_dir):
        if os.path.isdir(aside):
            remove_run(output_dir, output_fname)
            os.rename(aside, os.path.join(output_dir, _MOVING))
            _move_out(output_dir)


def move_back(output_dir: str | os.PathLike) -> None:
    """Move back what a crash has left half-way to `.replaced`; raises UserError as put_back."""
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
    """Remove what `set_aside` has kept: the new run has begun."""
    aside = os.path.join(output_dir, REPLACED)
    with suppress(FileNotFoundError):
        # Under another name, so that nothing puts back what could not be removed.
        os.rename(aside, f"{aside}-{time.time_ns()}")
    for path in Path(output_dir).glob(f"{REPLACED}-*"):
        shutil.rmtree(path, ignore_errors=True)


def trim_rows(path: str | os.PathLike, count: int) -> list[str]:
    """Leave the first `count` rows in a file of rows; returns its columns."""
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
    """`with atomic_save(path) as temporary:` write there; it becomes `path` if nothing is raised.

    For files and directories. A crash at any moment leaves a complete one, the old or the new.
    """
    temporary, old = f"{path}.tmp", f"{path}.old"
    _remove(temporary)  # of a crash
    try:
        yield temporary
    except BaseException:
        _remove(temporary)
        raise
    if os.path.isdir(path):
        # A directory cannot be renamed over another. Between the two renames the complete one is
        # called .old, where `test_policy` finds it.
        _remove(old)
        os.rename(path, old)
    os.replace(temporary, path)
    _remove(old)


@contextmanager
def atomic_output(path: str | os.PathLike) -> Iterator[str]:
    """As `atomic_save`, for a file or directory that the user has named, who may have others there.

    `temporary` has the same name, in a new directory beside it.
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
    """The text of a file.

    Args:
        path: The file.
        limit: The most bytes that it may have.
        errors: What becomes of bytes that are no UTF-8, as for `bytes.decode`.

    Raises:
        OSError: It is not there or cannot be read.
        UserError: It is not text, larger than `limit` bytes, or not a file: a pipe would be waited
            for, and a device may never end.
    """
    # O_NONBLOCK, since to open a pipe would be to wait for somebody who writes into it.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise UserError(f"{path} is not a file.")
        contents = file.read(limit + 1)  # not more, whatever size it may say
    if len(contents) > limit:
        raise UserError(f"{path} is larger than {limit} bytes, which is not what a run writes.")
    try:
        return contents.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not text ({error}).") from error


def read_json(path: str | os.PathLike, limit: int = LARGEST_JSON) -> Any:
    """The value in a JSON file. Raises as `read_text` does; UserError also if it is not JSON."""
    text = read_text(path, limit)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not readable as JSON ({error}).") from error


def runs_aside(folder: str | os.PathLike) -> str:
    """A sentence about runs in or below a directory that were to be replaced; "" if there are none.

    A crash has left them there: nothing else finds them.
    """
    found = [path for depth in ("", "*/", "*/*/") for path in Path(folder).glob(depth + REPLACED)]
    there = sorted(str(path) for path in found if path.is_dir())
    if not there:
        return ""
    shown = ", ".join(there[:10] + ["..."] * (len(there) > 10))
    return f" What was to be replaced there, and has not been, is in {shown}."


def runs_in(folder: str | os.PathLike, holding: str) -> str:
    """The first runs below a directory, as a list in words; "" if there are none.

    Args:
        folder: The directory.
        holding: The pattern of what is in a run.
    """
    found = [path for depth in ("*", "*/*") for path in Path(folder).glob(f"{depth}/{holding}")]
    runs = {path.parent for path in found if not path.parent.name.startswith(REPLACED)}
    runs = sorted(str(run.relative_to(folder)) for run in runs)
    return ", ".join(runs[:10] + ["..."] * (len(runs) > 10))
