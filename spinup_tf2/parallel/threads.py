"""Processors: each MPI rank uses its share of the cores, and not all of them.

Imports nothing but the standard library: the variables must be set before numpy is loaded.
"""

import os

# For TensorFlow, before it is loaded. It takes Intel's oneDNN by itself on processors with AVX-512
# VNNI only; on others, convolutions are more than twice as fast with it, too. Small dense networks
# are slower.
FAST_CONVOLUTIONS = {"TF_ENABLE_ONEDNN_OPTS": "1"}

# What OpenMP and the BLAS libraries look at, and TensorFlow.
_OPENMP = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_TENSORFLOW = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")

_LOCAL_SIZE = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_STEP_TASKS_PER_NODE")


def local_ranks() -> int:
    """How many ranks of this MPI job run on this host, as its launcher says; 1 without MPI."""
    for name in _LOCAL_SIZE:
        # Slurm writes "4", "4(x2)" or "4,3"; the first number is close enough for a share.
        digits = os.environ.get(name, "").partition("(")[0].partition(",")[0]
        if digits.isdigit():
            return max(1, int(digits))
    return 1


def available_cores() -> int:
    """The number of cores that this process may use."""
    return len(getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0))


def threads_per_rank() -> int:
    """The number of threads that one rank may use.

    What the user or Slurm has said, else its share of the cores that this process may use.
    """
    for name in ("OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK"):
        if os.environ.get(name, "").isdigit():
            return max(1, int(os.environ[name]))
    return max(1, available_cores() // local_ranks())


def chosen_threads() -> int | None:
    """The number of threads that the user has chosen for each process, in OMP_NUM_THREADS."""
    text = os.environ.get("OMP_NUM_THREADS", "")
    return int(text) if text.isdigit() and int(text) > 0 else None


def threads_of_each(processes: int) -> int:
    """The number of threads of each of several processes, which share the cores of this one.

    It is what the user has chosen, if that is known.
    """
    return chosen_threads() or max(1, available_cores() // processes)


def limited_environment(processes: int) -> dict[str, str]:
    """The environment of one of several processes that share the cores of this one.

    What the user has set stays.
    """
    threads = str(threads_of_each(processes))
    return dict.fromkeys((*_OPENMP, *_TENSORFLOW), threads) | os.environ


def limit_openmp() -> None:
    """Limit OpenMP and the BLAS libraries to the rank's share, unless the user has set them."""
    if local_ranks() > 1:
        for name in _OPENMP:
            os.environ.setdefault(name, str(threads_per_rank()))


def limit_tensorflow() -> None:
    """Limit TensorFlow to the rank's share; it must not have computed anything yet."""
    import tensorflow as tf

    if local_ranks() > 1:
        try:
            tf.config.threading.set_intra_op_parallelism_threads(threads_per_rank())
            tf.config.threading.set_inter_op_parallelism_threads(threads_per_rank())
        except RuntimeError:
            pass  # TensorFlow is running already; its thread pools cannot be changed any more
