"""Limits the threads of each MPI rank to its share of the cores.

Imports only the standard library: the variables must be set before numpy is loaded.
"""

import os

# To be set before TensorFlow is loaded. By default it uses Intel's oneDNN only on processors with
# AVX-512 VNNI, but on others it makes convolutions more than twice as fast as well. It makes small
# dense networks slower.
FAST_CONVOLUTIONS = {"TF_ENABLE_ONEDNN_OPTS": "1"}

# Variables that OpenMP and the BLAS libraries read, and those that TensorFlow reads.
_OPENMP = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_TENSORFLOW = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")

_LOCAL_SIZE = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_STEP_TASKS_PER_NODE")


def local_ranks() -> int:
    """Return the number of ranks on this host according to the MPI launcher; 1 without MPI."""
    for name in _LOCAL_SIZE:
        # Slurm writes "4", "4(x2)" or "4,3"; the first number is close enough for a share.
        digits = os.environ.get(name, "").partition("(")[0].partition(",")[0]
        if digits.isdigit():
            return max(1, int(digits))
    return 1


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0))


def threads_per_rank() -> int:
    """Return the number of threads that one rank may use.

    It is the number set by the user or Slurm, or else the rank's share of the available cores.
    """
    for name in ("OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK"):
        if os.environ.get(name, "").isdigit():
            return max(1, int(os.environ[name]))
    return max(1, available_cores() // local_ranks())


def chosen_threads() -> int | None:
    """Return the number of threads per process set in OMP_NUM_THREADS, or None."""
    text = os.environ.get("OMP_NUM_THREADS", "")
    return int(text) if text.isdigit() and int(text) > 0 else None


def threads_of_each(processes: int) -> int:
    """Return the number of threads for each of several processes that share the available cores.

    The number that the user has set in OMP_NUM_THREADS takes precedence.
    """
    return chosen_threads() or max(1, available_cores() // processes)


def limited_environment(processes: int) -> dict[str, str]:
    """Return environment variables for one of several processes that share the available cores.

    Variables that are already set are kept.
    """
    threads = str(threads_of_each(processes))
    return dict.fromkeys((*_OPENMP, *_TENSORFLOW), threads) | os.environ


def limit_openmp() -> None:
    """Limit OpenMP and the BLAS libraries to the rank's share, unless the user has set them."""
    if local_ranks() > 1:
        for name in _OPENMP:
            os.environ.setdefault(name, str(threads_per_rank()))


def limit_tensorflow() -> None:
    """Limit TensorFlow to the rank's share of cores; has no effect once it has been in use."""
    import tensorflow as tf

    if local_ranks() > 1:
        try:
            tf.config.threading.set_intra_op_parallelism_threads(threads_per_rank())
            tf.config.threading.set_inter_op_parallelism_threads(threads_per_rank())
        except RuntimeError:
            pass  # TensorFlow is already in use; its thread pools can no longer be changed
