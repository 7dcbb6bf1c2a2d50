"""Ends an MPI job that is stuck; launchers would wait forever for a host that is lost.

The training loops of the algorithms look like this:

    with Watchdog(600, "go on with: python -m spinup_tf2.run resume DIRECTORY"):
        while training:
            beat()
"""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
import threading
import time

from spinup_tf2.parallel import launched, mpi, reaper
from spinup_tf2.parallel.heartbeat import beat, has_beaten


class Watchdog:
    """Context manager that ends the MPI job if a process has no `beat` for `timeout` seconds.

    Each process watches itself. One that is stuck prints the tracebacks of all its threads, what
    has happened, and `message`; then MPI ends the job, or, if MPI cannot, this process exits and
    the launcher on this machine is killed. The exit status of the job is not 0. Time during which
    the whole process was suspended does not count.

    Does nothing if `timeout` is None or if this is the only process.

    Args:
        timeout: Seconds without progress after which the job is ended, or None.
        message: Text that is printed last, such as how to resume the run.
    """

    def __init__(self, timeout: float | None, message: str):
        self.timeout = timeout
        self.message = message
        self._left = threading.Event()
        self._thread = None

    def __enter__(self) -> Watchdog:
        if self.timeout is not None and launched.size() > 1:
            beat()
            self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_):
        self._left.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self):
        interval = min(1.0, self.timeout / 4)
        silence = 0.0  # sum of the waits: a clock would go on while the process is suspended
        while not self._left.wait(interval):
            silence = 0.0 if has_beaten() else silence + interval
            if silence >= self.timeout:
                self._end_job()

    def _end_job(self):
        # This comes first: MPI can hang, and so can output, which goes through the launcher.
        threading.Thread(target=_exit_later, daemon=True).start()
        _start_reaper()
        where = launched.where()
        _write(f"\nNo progress for {self.timeout:g} s {where}. What its threads are doing:\n")
        faulthandler.dump_traceback(2)
        _write(
            f"\nThe job ends: there was no progress for {self.timeout:g} s {where}. Another "
            "process or machine is lost, or one step takes longer than stall_timeout. "
            f"{self.message}\n"
        )
        time.sleep(1)  # let processes that wait for the same one print their tracebacks, too
        mpi.abort(1)


def _write(text):
    os.write(2, text.encode())


def _exit_later():
    time.sleep(reaper.GRACE)
    os._exit(1)


def _start_reaper():
    """Start the reaper in a session of its own, so that it survives the end of the job."""
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    command = [sys.executable, reaper.__file__, str(os.getpid())]
    subprocess.Popen(command, start_new_session=True, **streams)
