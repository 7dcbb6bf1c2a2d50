"""Spinning Up's MPI verbs, and `mpi_fork`. The verbs are those of `spinup_tf2.parallel.mpi`."""

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
    """Run the current script again as `n` MPI processes, and leave with their exit status.

    Returns at once if `n` is 1 or an MPI launcher started this process; that is how the processes
    started here pass this line.
    """
    if n <= 1 or launched.by_mpi():
        return
    # orig_argv knows more than argv: `python -m package.module` stays what it was.
    command = launch.mpirun_command(n, sys.orig_argv[1:], bind_to_core=bind_to_core)
    try:
        status = launch.run_to_end(command, mpi=True, env=launch.mpirun_environment(n))
    except Interrupted as interruption:
        status = interruption.status
    sys.exit(status)
