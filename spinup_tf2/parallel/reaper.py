"""The processes of an MPI job, and how to end those that MPI does not.

Also a program that ends the launcher of a process from outside: `python reaper.py PID`. It imports
nothing else of this package.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress

import psutil

# What starts the processes of a job, on the machine of mpirun and on the others.
LAUNCHERS = {
    *("mpirun", "mpiexec", "mpiexec.hydra", "hydra_pmi_proxy"),  # MPICH
    *("prterun", "prte", "prted", "orterun", "orted"),  # Open MPI
}

GRACE = 5.0  # seconds that MPI has for ending the job by itself


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
