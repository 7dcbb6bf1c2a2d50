"""multiprocessing's fork server: how it is started and ended, and what it imports.

It runs with the signals blocked that ask a run to stop, and so does what it forks: until an
environment listens to them in its own way, they wait. A script may use the same server for
processes of its own, which `terminate` must reach.
"""

import multiprocessing.util
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import forkserver, process, resource_tracker

import gymnasium.vector  # noqa: F401  (what environments need, once for all of them)

from spinup_tf2.errors import UserError
from spinup_tf2.parallel.interruption import SIGNALS

PATIENCE = 2.0  # seconds that multiprocessing's processes have to end


def start(preload: Sequence[str] = ()) -> None:
    """Start the fork server and multiprocessing's resource tracker so that they outlive signals.

    Args:
        preload: Modules that the server imports, once for all that it forks; this one is.

    Raises:
        UserError: The directory for temporary files has too long a name, and there is no other.
    """
    _find_room_for_sockets()
    if forkserver._forkserver._forkserver_pid is None:
        # Last of all that is done at exit: what may still need them has priority 0 or more.
        multiprocessing.util.Finalize(None, _end, exitpriority=-1000)
    forkserver.set_forkserver_preload([__name__, *preload])
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # which they inherit
    try:
        resource_tracker.ensure_running()  # unblocks some of them
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


# Bytes that the path of a socket may have (104 with its end on macOS, 108 on Linux), and those of
# the name that multiprocessing gives one.
_LONGEST_PATH, _NAME = 103, len("/listener-12345678")


def _find_room_for_sockets():
    """Let multiprocessing's sockets lie in /tmp if TMPDIR is too long for the path of one."""
    longest = _LONGEST_PATH - _NAME
    chosen, folder = tempfile.gettempdir(), len("/pymp-12345678")
    before = tempfile.tempdir
    if len(os.fsencode(chosen)) + folder > longest:
        tempfile.tempdir = "/tmp"
    try:
        path = multiprocessing.util.get_temp_dir()  # which stays what it is the first time
    except OSError:
        path = chosen
    finally:
        tempfile.tempdir = before
    if len(os.fsencode(path)) > longest:
        raise UserError(
            f"TMPDIR is {chosen}, which is too long for the sockets of processes; set it to a "
            f"directory with a shorter path (at most {longest - folder} bytes)."
        )


def _end():
    """End multiprocessing's own processes, and wait for them.

    They would end a moment after this one. Who looks then finds them, and in a container there is
    often nobody but this process to clear them away. There is no public way to do it.
    """
    server, tracker = forkserver._forkserver, resource_tracker._resource_tracker
    for helper, pid, pipe in (
        (server, "_forkserver_pid", "_forkserver_alive_fd"),
        (tracker, "_pid", "_fd"),
    ):
        if getattr(helper, pid, None) is None or getattr(helper, pipe, None) is None:
            continue
        os.close(getattr(helper, pipe))  # which tells it to end
        deadline = time.monotonic() + PATIENCE  # others may hold the pipe, too
        with suppress(ChildProcessError):
            while os.waitpid(getattr(helper, pid), os.WNOHANG) == (0, 0):
                if time.monotonic() > deadline:
                    break
                time.sleep(0.01)
        setattr(helper, pid, None)
        setattr(helper, pipe, None)


def _unblock(_):
    """In a process that has been forked, before it begins its work."""
    target = process.current_process()._target
    if getattr(target, "__module__", None) != "gymnasium.vector.async_vector_env":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


multiprocessing.util.register_after_fork(sys.modules[__name__], _unblock)
