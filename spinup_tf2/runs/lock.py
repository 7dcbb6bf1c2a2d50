"""One writer for each run's directory."""

import errno
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from spinup_tf2.errors import UserError
from spinup_tf2.runs.files import LOCK

# How often, and after how many seconds, a run asks once more for a lock that it did not get.
_ATTEMPTS, _PAUSE = 5, 0.02

_held = set()  # descriptors of locks


def _let_go():
    # A process that is forked, such as one of an environment's own, would keep the lock of a run
    # that is over or was killed.
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_let_go)


@contextmanager
def run_lock(run_dir: str | os.PathLike) -> Iterator[None]:
    """Hold the directory of a run, which is made if need be, against other processes.

    The lock is the operating system's and ends with the process, however it ends: a file that a
    crash has left behind locks nobody out.

    Raises:
        UserError: Another run holds it, or the directory cannot be written.
    """
    path = Path(run_dir, LOCK)
    made = [folder for folder in path.parents if not folder.exists()]
    try:
        os.makedirs(run_dir, exist_ok=True)
        descriptor = _locked(path)
    except OSError as error:
        raise UserError(
            f"Cannot write to the output directory {run_dir} ({error.strerror}); choose another "
            "data_dir (output_dir)."
        ) from error
    _held.add(descriptor)
    try:
        yield
    finally:
        if descriptor in _held:  # not in a process that was forked meanwhile
            with suppress(OSError):
                path.unlink()  # while it is still ours
            _held.remove(descriptor)
            os.close(descriptor)
            with suppress(OSError):  # the first that is not empty
                for folder in made:
                    folder.rmdir()


def is_locked(run_dir: str | os.PathLike) -> bool:
    """Whether a run is writing to this directory. Changes nothing and keeps nobody waiting.

    Where the file system knows no locks, the file that a run makes counts, which a crash leaves.
    """
    try:
        descriptor = os.open(Path(run_dir, LOCK), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        # Shared, so that several may ask at once. No run can get it now, so it asks again: _locked.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _locked(path):
    """The descriptor of the file at `path`, which nobody else holds."""
    attempts = _ATTEMPTS
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.exists(path) and os.path.samestat(os.fstat(descriptor), os.stat(path)):
                holder = dict(pid=os.getpid(), host=socket.gethostname(), since=time.ctime())
                os.ftruncate(descriptor, 0)
                os.write(descriptor, json.dumps(holder).encode())
                return descriptor
        except BlockingIOError:
            attempts -= 1
            if attempts:  # somebody may only be asking: see is_locked
                os.close(descriptor)
                time.sleep(_PAUSE)
                continue
            holder = os.read(descriptor, 1000).decode(errors="replace")
            os.close(descriptor)
            raise UserError(
                f"{path.parent} is being written to by another run ({holder}); wait for its end, "
                "or choose another exp_name, seed or data_dir."
            ) from None
        except OSError as error:
            if error.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                return descriptor  # this file system knows no locks
            os.close(descriptor)
            raise
        os.close(descriptor)  # its owner has removed the file in the meantime
