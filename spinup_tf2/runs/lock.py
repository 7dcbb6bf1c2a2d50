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


def _locked(path):
    """The descriptor of the file at `path`, which nobody else holds."""
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
