"""Starts and ends multiprocessing's fork server, and says what it imports.

The server and the processes that it forks run with the signals blocked that ask a run to stop;
these stay pending until an environment handles them in its own way. In other processes, which a
script may fork from the same server, they are unblocked, so that `terminate` works.
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

import gymnasium.vector  # noqa: F401  (needed by environments, imported once for all of them)

from spinup_tf2.parallel.stopping import SIGNALS

PATIENCE = 2.0  # seconds that multiprocessing's own processes are given to end


def start(preload: Sequence[str] = ()) -> None:
    """Start the fork server and multiprocessing's resource tracker so that they survive signals.

    Args:
        preload: Modules that the server imports once for all processes that it forks, besides this
            one.
    """
    _find_room_for_sockets()
    if forkserver._forkserver._forkserver_pid is None:
        # Runs last at exit: finalizers that may still need these processes have priority 0 or more.
        multiprocessing.util.Finalize(None, _end, exitpriority=-1000)
    forkserver.set_forkserver_preload([__name__, *preload])
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # inherited by both processes
    try:
        resource_tracker.ensure_running()  # unblocks some of the signals
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


# Longest path of a socket in bytes (the limit with the terminating null is 104 on macOS and 108 on
# Linux), less what multiprocessing adds to the directory.
_LONGEST_TMPDIR = 103 - len("/pymp-12345678/listener-12345678")


def _find_room_for_sockets():
    """Put multiprocessing's sockets into /tmp if TMPDIR is too long for the path of a socket."""
    before = tempfile.tempdir
    if len(os.fsencode(tempfile.gettempdir())) > _LONGEST_TMPDIR:
        tempfile.tempdir = "/tmp"
    try:
        multiprocessing.util.get_temp_dir()  # the first call decides for good
    finally:
        tempfile.tempdir = before


def _end():
    """End multiprocessing's own processes, and wait for them.

    They would otherwise outlive this process for a moment and look like leftovers; and in a
    container there is often no other process to reap them. There is no public API for this.
    """
    server, tracker = forkserver._forkserver, resource_tracker._resource_tracker
    for helper, pid, pipe in (
        (server, "_forkserver_pid", "_forkserver_alive_fd"),
        (tracker, "_pid", "_fd"),
    ):
        if getattr(helper, pid, None) is None or getattr(helper, pipe, None) is None:
            continue
        os.close(getattr(helper, pipe))  # tells it to end
        deadline = time.monotonic() + PATIENCE  # others may hold the pipe open as well
        with suppress(ChildProcessError):
            while os.waitpid(getattr(helper, pid), os.WNOHANG) == (0, 0):
                if time.monotonic() > deadline:
                    break
                time.sleep(0.01)
        setattr(helper, pid, None)
        setattr(helper, pipe, None)


def _unblock(_):
    """Unblock the signals in a forked process, unless it is a worker of a vector environment."""
    target = process.current_process()._target
    if getattr(target, "__module__", None) != "gymnasium.vector.async_vector_env":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


multiprocessing.util.register_after_fork(sys.modules[__name__], _unblock)
