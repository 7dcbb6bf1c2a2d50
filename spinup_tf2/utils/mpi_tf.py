"""Spinning Up's MPI functions for TensorFlow, from `spinup_tf2.parallel.tensors`."""

from spinup_tf2.parallel.tensors import (
    MpiAdamOptimizer,
    assign_params_from_flat,
    check_params,
    flat_concat,
    mpi_avg_grads,
    mpi_avg_scalars,
    sync_params,
)
