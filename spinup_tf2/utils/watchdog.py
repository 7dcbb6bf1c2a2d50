"""Ends an MPI job that no longer gets anywhere; launchers wait for ever for a host that is lost.

The loops of the algorithms are made like this::

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
from collections.abc import Iterable
from contextlib import suppress

import psutil

# What starts the processes of a job, on the machine of mpirun and on the others.
LAUNCHERS = {
    *("mpirun", "mpiexec", "mpiexec.hydra", "hydra_pmi_proxy"),  # MPICH
    *("prterun", "prte", "prted", "orterun", "orted"),  # Open MPI
}

GRACE = 5.0  # seconds that MPI has for ending the job by itself

_alive = False


def beat() -> None:
    """Tell the watchdog of this process that there is progress."""
    global _alive
    _alive = True


class Watchdog:
    """While it is entered, MPI processes without a `beat` for `timeout` seconds end their job.

    Each process watches itself. One that gets nowhere prints what all its threads are doing, what
    has happened and `message`; then MPI ends the job, or, if it cannot, this process and the
    launcher on this machine are killed. The exit status of the job is not 0. The time for which
    the whole process was suspended does not count.

    Does nothing if `timeout` is None, or if this is the only process.
    """

    def __init__(self, timeout: float | None, message: str):
        self.timeout = timeout
        self.message = message
        self._left = threading.Event()
        self._thread = None

    def __enter__(self) -> Watchdog:
        from spinup_tf2.utils import mpi_tools

        if self.timeout is not None and mpi_tools.launched_size() > 1:
            beat()
            self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_):
        self._left.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self):
        global _alive
        interval = min(1.0, self.timeout / 4)
        silence = 0.0  # counted in waits: a clock would run on while the process is suspended
        while not self._left.wait(interval):
            silence = 0.0 if _alive else silence + interval
            _alive = False
            if silence >= self.timeout:
                self._end_job()

    def _end_job(self):
        from spinup_tf2.utils import mpi_tools

        # First of all: MPI can hang, and so can output, which goes through the launcher.
        threading.Thread(target=_exit_later, daemon=True).start()
        _start_reaper()
        where = mpi_tools.where()
        _write(f"\nNo progress for {self.timeout:g} s {where}. What its threads are doing:\n")
        faulthandler.dump_traceback(2)
        _write(
            f"\nThe job ends: there was no progress for {self.timeout:g} s {where}. Another "
            "process or machine is lost, or one step takes longer than stall_timeout. "
            f"{self.message}\n"
        )
        time.sleep(1)  # processes that wait for the same one can say what they were doing, too
        mpi_tools.abort(1)


def _write(text):
    os.write(2, text.encode())


def _exit_later():
    time.sleep(GRACE)
    os._exit(1)


def _start_reaper():
    """Start `_reap` in a process that nobody's end takes along."""
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    command = [sys.executable, __file__, str(os.getpid())]
    subprocess.Popen(command, start_new_session=True, **streams)


# ---------------------------------------------------------------- the processes of a job


def launcher_of(process: psutil.Process) -> psutil.Process | None:
    """The outermost process on this machine of the MPI launcher that runs `process`."""
    launcher = None
    for parent in process.parents():
        if parent.name() in LAUNCHERS:
            launcher = parent
        elif launcher is not None:
            break
    return launcher


def family_of(process: psutil.Process) -> set[psutil.Process]:
    """A process and all that it has started, without the one that is asking."""
    try:
        return {process, *process.children(recursive=True)} - {psutil.Process()}
    except psutil.NoSuchProcess:
        return set()


def kill_all(processes: Iterable[psutil.Process]) -> None:
    """Kill those of the processes that are still there."""
    for process in processes:
        with suppress(psutil.Error):
            process.kill()


def _reap(pid):
    """Kill the launcher that runs process `pid`, and all it has started, if MPI does not end it."""
    launcher = launcher_of(psutil.Process(pid))
    if launcher is not None:
        family = family_of(launcher)
        _, alive = psutil.wait_procs(family, timeout=GRACE)
        kill_all(alive)


if __name__ == "__main__":
    _reap(int(sys.argv[1]))
