"""A lock for each run's directory, so that only one process writes to it."""

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
from spinup_tf2.files.run_directory import LOCK

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
        if descriptor in _held:  # it is not in a process that was forked in the meantime
            # The directory may have been moved, and another run may have made one of its name.
            with suppress(OSError):
                ours = os.path.samestat(os.fstat(descriptor), os.stat(path))
                if ours:
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


def _locked(path):
    """Lock the file at `path`; return its descriptor."""
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
            if attempts:  # another process may only be checking it; see is_locked
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
                return descriptor  # this file system has no locks
            os.close(descriptor)
            raise
        os.close(descriptor)  # the previous owner has removed the file in the meantime
