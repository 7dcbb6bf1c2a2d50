"""Spinning Up's MPI functions, from `spinup_tf2.parallel.mpi` and `launch`."""

from spinup_tf2.parallel.launch import mpi_fork
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
