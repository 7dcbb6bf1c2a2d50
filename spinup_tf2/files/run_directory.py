"""The files in a run's directory: their names, and how to write, read and remove them."""

import itertools
import json
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

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

# Added to the name of the file of rows: those that a resumption has cut off.
CUT = ".cut"

EXISTING_RUN = (
    "{} already holds a run; choose another exp_name, seed or data_dir, or pass --overwrite "
    "(overwrite=True) to replace it."
)


def fresh_directory() -> str:
    """Make `experiments-<uid>/<time>` in the temporary directory, with a suffix if it exists.

    The uid keeps users apart: they share the temporary directory, and cannot write to each other's.

    Raises:
        UserError: Somebody else owns `experiments-<uid>`, or it is a link.
    """
    parent = os.path.join(tempfile.gettempdir(), f"experiments-{os.geteuid()}")
    with suppress(FileExistsError):
        os.mkdir(parent, 0o755)
    status = os.lstat(parent)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise UserError(
            f"{parent} is not used, since it is not a directory of user {os.geteuid()} (mode "
            f"{stat.filemode(status.st_mode)}, owner {status.st_uid}). Choose another data_dir "
            "(output_dir)."
        )
    os.chmod(parent, status.st_mode & 0o755)  # others could replace the runs in it
    name = str(int(time.time()))
    for suffix in itertools.chain([""], (f"-{n}" for n in itertools.count(2))):
        path = os.path.join(parent, name + suffix)
        try:
            os.mkdir(path)
        except FileExistsError:
            continue
        return path


# In the name of the directory that holds a run which another one has replaced.
ASIDE = ".old-"

# A directory that contains one of these is the directory of a run.
_MARKS = ("progress.txt", "config.json", "checkpoint")


def holds_run(output_dir: str | os.PathLike, output_fname: str = "progress.txt") -> bool:
    """Return whether a run has been written to this directory."""
    names = (output_fname, *_MARKS)
    # A dangling link counts as well: writing through it would write elsewhere.
    return any(os.path.lexists(os.path.join(output_dir, name)) for name in names)


def holds_rows(output_dir: str | os.PathLike, output_fname: str = "progress.txt") -> bool:
    """Return whether the run in this directory has completed an epoch; True if it is unknown."""
    try:
        return read_text(Path(output_dir, output_fname), errors="replace").count("\n") > 1
    except FileNotFoundError:
        return False
    except (OSError, UserError):
        return True


def check_output_fname(name: object) -> None:
    """Raise UserError unless a name is that of a file in a run's directory, and not taken there."""
    plain = isinstance(name, str) and name.isprintable() and os.path.basename(name) == name
    if not plain or name in ("", ".", "..") or _taken(name):
        raise UserError(
            f"output_fname is {name!r}; it must be the name of a file in the run's directory, "
            "without a path and not that of another file of a run; progress.txt is the usual one."
        )


def _taken(name):
    own = _RUN_FILES.fullmatch(name) or name in (LOCK, "mlflow", "mlflow.db")
    return own and not name.startswith("progress.txt")


def files_of_run(output_dir: str | os.PathLike, output_fname: str) -> list[str]:
    """Return the names of a run's files, in the order in which they should be moved away.

    The file for the output of this process is left out, as it belongs to the next run.
    """
    ours = os.environ.get(PRINTED_TO) or None
    # Checkpoints come first, so that what a crash may leave cannot be resumed. The files that mark
    # the directory as a run come last, so that the rest can then still be moved.
    order = dict.fromkeys((output_fname, *_MARKS), 2) | {"checkpoint": 0}
    return [
        name
        for name in sorted(os.listdir(output_dir), key=lambda name: order.get(name, 1))
        if (name.removesuffix(CUT) == output_fname or _RUN_FILES.fullmatch(name))
        and os.path.abspath(os.path.join(output_dir, name)) != ours
    ]


def set_aside(output_dir: str | os.PathLike, output_fname: str) -> str:
    """Move the files of a run to a new directory beside it, and return that.

    Other files in the directory stay where they are.

    Raises:
        UserError: They cannot be moved.
    """
    aside = f"{os.path.abspath(output_dir)}{ASIDE}{time.strftime('%Y%m%d-%H%M%S')}"
    try:
        while os.path.lexists(aside):
            aside += "_"
        os.mkdir(aside)
        for name in files_of_run(output_dir, output_fname):
            os.rename(os.path.join(output_dir, name), os.path.join(aside, name))
    except OSError as error:
        raise UserError(
            f"the run in {output_dir} cannot be moved to {aside} ({error.strerror}: "
            f"{error.filename}). Move or remove it yourself, or choose another exp_name, seed or "
            "data_dir."
        ) from error
    return aside


def trim_rows(path: str | os.PathLike, count: int) -> list[str]:
    """Keep only the first `count` rows in a file of rows; return its columns.

    The others are added to a file beside it, because there may be more of them than are trained
    again: a run that was moved while it ran has its newest checkpoints elsewhere.
    """
    as_written = dict(encoding="utf-8", errors="surrogateescape", newline="")
    try:
        text = read_text(path, errors="surrogateescape").removeprefix("\ufeff")
    except FileNotFoundError:
        text = ""
    text = text.replace("\r\n", "\n")  # written by an editor, like the byte order mark
    lines = re.findall(r".*\n", text)  # complete ones; other separators may be in a text
    kept = lines[: count + 1 if count else 0]
    if len(kept) < count + 1 and count:
        warn(
            f"{path} has {max(0, len(kept) - 1)} complete rows, and the checkpoint was made "
            f"after {count}."
        )
    if cut := lines[max(1, len(kept)) :]:
        with open(f"{path}{CUT}", "a", **as_written) as file:
            file.writelines([lines[0], *cut])
        warn(
            f"{path} had {len(lines) - 1} rows, and the checkpoint was made after {count}. The "
            f"later ones are in {path}{CUT} now."
        )
    with atomic_save(path) as temporary, open(temporary, "w", **as_written) as file:
        file.writelines(kept)
    return kept[0].rstrip("\n").split("\t") if kept else []


def check_in_place(file: BinaryIO) -> None:
    """Raise UserError if an open file is not the one at its path any more.

    A directory that is moved or removed takes an open file along: what is written to it then goes
    elsewhere than what is opened anew.
    """
    opened = os.fstat(file.fileno())
    try:
        if os.path.samestat(opened, os.stat(file.name)):
            return
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError:  # a file system that does not answer for a while
        return
    now = ""
    if opened.st_nlink:
        with suppress(OSError):  # Linux knows
            now = f"; it is {os.readlink(f'/proc/self/fd/{file.fileno()}')} now"
    raise UserError(
        f"{file.name} was moved, replaced or removed while the run wrote to it, or its directory "
        f"was{now}. The training has ended, so that nothing is written elsewhere. A run that was "
        "moved can be resumed where it is now; one that was removed has to start again."
    )


def remove(path: str | os.PathLike) -> None:
    """Remove a file or a directory, if it exists; of a link, only the link."""
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
    remove(temporary)  # left over from a crash
    try:
        yield temporary
    except BaseException:
        remove(temporary)
        raise
    if os.path.isdir(path):
        # A directory cannot be renamed to an existing one. Between the two renames the complete one
        # is called .old, where `test_policy` finds it.
        remove(old)
        os.rename(path, old)
    os.replace(temporary, path)
    remove(old)


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


def open_regular(path: str | os.PathLike) -> BinaryIO:
    """Open a file that is not trusted, to read its bytes.

    Raises:
        OSError: It does not exist or cannot be opened.
        UserError: It is not a regular file: reading a pipe would block, and a device may never end.
    """
    # O_NONBLOCK, because opening a pipe would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UserError(f"{path} is not a file.")
    return open(descriptor, "rb")


def read_bytes(path: str | os.PathLike, limit: int = LARGEST_TEXT) -> bytes:
    """Read a file that is not trusted.

    Raises:
        OSError: As in `open_regular`.
        UserError: As in `open_regular`, and if it is larger than `limit` bytes.
    """
    with open_regular(path) as file:
        contents = file.read(limit + 1)  # no more than that, whatever size is reported
    if len(contents) > limit:
        raise UserError(f"{path} is larger than {limit} bytes, which is not what a run writes.")
    return contents


def read_text(path: str | os.PathLike, limit: int = LARGEST_TEXT, *, errors: str = "strict") -> str:
    """Read the text of a file that is not trusted.

    Args:
        path: The file.
        limit: Largest number of bytes that it may have.
        errors: How to handle bytes that are not UTF-8, as in `bytes.decode`.

    Raises:
        OSError, UserError: As in `read_bytes`, and UserError if it is not text.
    """
    contents = read_bytes(path, limit)
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


def runs_in(folder: str | os.PathLike, holding: str) -> str:
    """Return the first runs below a directory, separated by commas; "" if there are none.

    Args:
        folder: The directory.
        holding: Glob pattern of a file that a run must contain.
    """
    found = [path for depth in ("*", "*/*") for path in Path(folder).glob(f"{depth}/{holding}")]
    runs = {path.parent for path in found if ASIDE not in path.parent.name}
    runs = sorted(str(run.relative_to(folder)) for run in runs)
    return ", ".join(runs[:10] + ["..."] * (len(runs) > 10))
