"""Spinning Up's MPI functions, from `spinup_tf2.parallel.mpi`, and `mpi_fork`."""

import sys

from spinup_tf2.errors import Interrupted
from spinup_tf2.parallel import launch, launched
from spinup_tf2.parallel.mpi import (
    allreduce,
    broadcast,
    broadcast_object,
    comm,
    exit_together,
    mpi_avg,
    mpi_op,
    mpi_statistics_scalar,
    mpi_sum,
    msg,
    num_procs,
    proc_id,
)

__all__ = [
    "allreduce",
    "broadcast",
    "broadcast_object",
    "comm",
    "exit_together",
    "mpi_avg",
    "mpi_fork",
    "mpi_op",
    "mpi_statistics_scalar",
    "mpi_sum",
    "msg",
    "num_procs",
    "proc_id",
]


def mpi_fork(n: int, bind_to_core: bool = False) -> None:
    """Run the current script again as `n` MPI processes, and exit with their status.

    It returns at once if `n` is 1 or if an MPI launcher started this process, so that the processes
    started here continue after the call.

    Args:
        n: Number of processes.
        bind_to_core: Whether to bind each process to a core.
    """
    if n <= 1 or launched.by_mpi():
        return
    # Unlike argv, orig_argv preserves a command such as `python -m package.module`.
    command = launch.mpirun_command(n, sys.orig_argv[1:], bind_to_core=bind_to_core)
    try:
        status = launch.run_to_end(command, mpi=True, env=launch.mpirun_environment(n))
    except Interrupted as interruption:
        status = interruption.status
    sys.exit(status)
