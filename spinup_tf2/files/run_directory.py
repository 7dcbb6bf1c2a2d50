"""A run's directory: the files in it, how they are read and written, its lock, and commands."""

import errno
import fcntl
import json
import os
import re
import shlex
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from spinup_tf2.envs.modules import import_flag
from spinup_tf2.errors import UserError
from spinup_tf2.files.disk import atomic_save, read_text
from spinup_tf2.files.printing import warn

# Exists while a run writes to its directory; see `run_lock`.
LOCK = ".lock"

# Output of a run, if it was one of several that ran at the same time.
OUTPUT = "output.txt"

# Environment variable with the path of that file, which the parent process has already opened.
PRINTED_TO = "SPINUP_TF2_OUTPUT"

# Files that a run leaves in its directory, and those that a crash may leave (see atomic_save).
_RUN_FILES = re.compile(
    r"(config\.json|env_spec\.json|progress\.txt|vars[0-9]*\.pkl|tf2_save[0-9]*|checkpoint|"
    r"output\.txt|videos|tensorboard|wandb)(\.tmp|\.old)?"
)

# Added to the name of the file of rows: those that a resumption has cut off.
CUT = ".cut"

CANNOT_WRITE = "Cannot write to the output directory {} ({}); choose another data_dir (output_dir)."

EXISTING_RUN = (
    "{} already holds a run; choose another exp_name, seed or data_dir, or pass --overwrite "
    "(overwrite=True) to replace it."
)


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
    taken = plain and name != "progress.txt" and _RUN_FILES.fullmatch(name)
    if not plain or taken or name in ("", ".", "..", LOCK):
        raise UserError(
            f"output_fname is {name!r}; it must be the name of a file in the run's directory, "
            "without a path and not that of another file of a run; progress.txt is the usual one."
        )


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
        text = read_text(path, errors="surrogateescape")
    except FileNotFoundError:
        text = ""
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
    raise UserError(
        f"{file.name} was moved, replaced or removed while the run wrote to it, or its directory "
        "was. The training has ended, so that nothing is written elsewhere. A run that was moved "
        "can be resumed where it is now."
    )


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


# ---------------------------------------------------------------- the lock

# Number of attempts to get a lock, and seconds between them.
_ATTEMPTS, _PAUSE = 5, 0.02

_held = set()  # descriptors of the locks that this process holds


def _let_go():
    # Otherwise a forked process, such as one of an environment, would keep the lock of a run that
    # has ended or was killed.
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_let_go)


@contextmanager
def run_lock(run_dir: str | os.PathLike) -> Iterator[None]:
    """Context manager that locks the directory of a run, and creates it if necessary.

    The lock belongs to the operating system and ends with the process, however that ends. So a lock
    file left behind by a crash does no harm.

    Raises:
        UserError: Another run holds the lock, or the directory cannot be written to.
    """
    path = Path(run_dir, LOCK)
    try:
        made = [folder for folder in path.parents if not folder.exists()]
        os.makedirs(run_dir, exist_ok=True)
        descriptor = _locked(path)
    except OSError as error:
        raise UserError(CANNOT_WRITE.format(run_dir, error.strerror)) from error
    _held.add(descriptor)
    try:
        yield
    finally:
        if descriptor in _held:  # it is not in a process that was forked in the meantime
            # The directory may have been moved, and another run may have made one of its name.
            with suppress(OSError):
                if _is_at(descriptor, path):
                    path.unlink()  # while the lock is still held
            _held.remove(descriptor)
            os.close(descriptor)
            with suppress(OSError):  # stops at the first folder that is not empty
                for folder in made:
                    folder.rmdir()


def is_locked(run_dir: str | os.PathLike) -> bool:
    """Return whether a run is writing to this directory, without changing anything or waiting.

    On a file system without locks, the existence of the lock file counts, even if a crash left it.
    """
    try:
        descriptor = os.open(Path(run_dir, LOCK), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        # Shared, so that several processes can check at once. A run cannot get the lock meanwhile;
        # that is why _locked tries several times.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _is_at(descriptor, path):
    return os.path.exists(path) and os.path.samestat(os.fstat(descriptor), os.stat(path))


def _locked(path):
    """Lock the file at `path`; return its descriptor."""
    attempts = _ATTEMPTS
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(descriptor, path):
                holder = dict(pid=os.getpid(), host=socket.gethostname(), since=time.ctime())
                os.ftruncate(descriptor, 0)
                os.write(descriptor, json.dumps(holder).encode())
                return descriptor
            os.close(descriptor)  # the previous owner has removed the file in the meantime
        except OSError as error:
            if error.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                return descriptor  # this file system has no locks
            holder = os.read(descriptor, 1000).decode(errors="replace")
            os.close(descriptor)
            if not isinstance(error, BlockingIOError):
                raise
            attempts -= 1
            if not attempts:
                raise UserError(
                    f"{path.parent} is being written to by another run ({holder}); wait for its "
                    "end, or choose another exp_name, seed or data_dir."
                ) from None
            time.sleep(_PAUSE)  # another process may only be checking it; see is_locked


# ---------------------------------------------------------------- commands, to be printed

_COMMAND = "python -m spinup_tf2.run"


def resume_command(
    run_dir: str | os.PathLike, env_name: object = "", modules: Iterable[str] = ()
) -> str:
    """Return the command that resumes a run; modules, and the environment's, go into --import."""
    return f"{_COMMAND} resume {_quoted(run_dir)}{import_flag(env_name, modules)}"


def watch_command(
    run_dir: str | os.PathLike, env_name: object = "", modules: Iterable[str] = ()
) -> str:
    """Return the command that shows the agent of a run."""
    return f"{_COMMAND} test_policy {_quoted(run_dir)}{import_flag(env_name, modules)}"


def plot_command(run_dir: str | os.PathLike) -> str:
    """Return the command that plots a run. Without the slash, s1 would stand for s10 as well."""
    return f"{_COMMAND} plot {_quoted(run_dir)}/"


def _quoted(run_dir):
    # With ./ a directory whose name begins with a dash is not taken for a flag.
    path = os.fspath(run_dir)
    return shlex.quote(f"./{path}" if path.startswith("-") else path)
