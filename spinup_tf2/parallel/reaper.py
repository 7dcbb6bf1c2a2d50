"""Finds the processes of an MPI job, and ends those that MPI does not.

Also a program that ends the launcher of a process from outside: `python reaper.py PID`. It does not
import anything else from this package.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress

import psutil

# Programs that start the processes of a job, on the machine of mpirun and on the others.
LAUNCHERS = {
    *("mpirun", "mpiexec", "mpiexec.hydra", "hydra_pmi_proxy"),  # MPICH
    *("prterun", "prte", "prted", "orterun", "orted"),  # Open MPI
}

GRACE = 5.0  # seconds that MPI is given to end the job by itself


def launcher_of(process: psutil.Process) -> psutil.Process | None:
    """Return the outermost MPI launcher process on this machine that runs `process`, or None."""
    launcher = None
    for parent in process.parents():
        if parent.name() in LAUNCHERS:
            launcher = parent
        elif launcher is not None:
            break
    return launcher


def family_of(process: psutil.Process) -> set[psutil.Process]:
    """Return a process and all its descendants, without the calling process."""
    try:
        return {process, *process.children(recursive=True)} - {psutil.Process()}
    except psutil.NoSuchProcess:
        return set()


def kill_all(processes: Iterable[psutil.Process]) -> None:
    """Kill those of the processes that are still alive."""
    for process in processes:
        with suppress(psutil.Error):
            process.kill()


def _reap(pid):
    """Kill the launcher of process `pid` and its descendants that are alive after GRACE seconds."""
    launcher = launcher_of(psutil.Process(pid))
    if launcher is not None:
        family = family_of(launcher)
        _, alive = psutil.wait_procs(family, timeout=GRACE)
        kill_all(alive)


if __name__ == "__main__":
    _reap(int(sys.argv[1]))
