"""What this process was given by its launcher and its machine: rank, threads, standard streams.

Rank and size are those that an MPI launcher passes in environment variables, so they are known
before MPI is started, and without mpi4py. Imports no library: streams and variables must be set
before any is loaded.
"""

import multiprocessing
import os
import socket
import sys
from pathlib import Path

from spinup_tf2.errors import UserError

# Variables that launchers set: (size of the world, rank in it). MPI's own launchers come before the
# scheduler, which may have started them.
_LAUNCHERS = (
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),  # Open MPI
    ("PMI_SIZE", "PMI_RANK"),  # MPICH, Intel MPI, srun --mpi=pmi2
    ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),  # srun
)


def _world():
    """Return (size, rank) from the launcher's environment variables; None without a launcher."""
    for size_name, rank_name in _LAUNCHERS:
        size, rank = os.environ.get(size_name, ""), os.environ.get(rank_name, "")
        # A single Slurm task is no MPI job: an interactive `srun --pty bash` is one as well.
        is_job = size_name != "SLURM_STEP_NUM_TASKS" or size != "1"
        if size.isdigit() and rank.isdigit() and is_job:
            return int(size), int(rank)
    return None


def by_mpi() -> bool:
    """Return whether an MPI launcher started this process."""
    return _world() is not None


def rank() -> int:
    """Return the rank that the launcher gave this process; 0 without a launcher."""
    world = _world()
    return world[1] if world else 0


def size() -> int:
    """Return the number of processes that the launcher started; 1 without a launcher."""
    world = _world()
    return world[0] if world else 1


def where() -> str:
    """Return where this process runs, for messages: "on rank 1 of 4, host node2"."""
    return f"on rank {rank()} of {size()}, host {socket.gethostname()}"


# ---------------------------------------------------------------- threads

# To be set before TensorFlow is loaded. By default it uses Intel's oneDNN only on processors with
# AVX-512 VNNI, but on others it makes convolutions more than twice as fast as well. It makes small
# dense networks slower.
FAST_CONVOLUTIONS = {"TF_ENABLE_ONEDNN_OPTS": "1"}

# Variables that OpenMP and the BLAS libraries read, and those that TensorFlow reads.
OPENMP = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
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


def chosen_threads(*others: str) -> int | None:
    """Return the number of threads set in OMP_NUM_THREADS, or else in other variables, or None."""
    texts = (os.environ.get(name, "") for name in ("OMP_NUM_THREADS", *others))
    return next((int(text) for text in texts if text.isdigit() and int(text) > 0), None)


def threads_per_rank() -> int:
    """Return the number of threads that one rank may use.

    It is the number set by the user or Slurm, or else the rank's share of the available cores.
    """
    return chosen_threads("SLURM_CPUS_PER_TASK") or max(1, available_cores() // local_ranks())


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
    return dict.fromkeys((*OPENMP, *_TENSORFLOW), threads) | os.environ


def limit_openmp() -> None:
    """Limit OpenMP and the BLAS libraries to the rank's share, unless the user has set them."""
    if local_ranks() > 1:
        for name in OPENMP:
            os.environ.setdefault(name, str(threads_per_rank()))


def limit_tensorflow() -> None:
    """Limit TensorFlow to the rank's share of cores; has no effect once it has been in use.

    Raises:
        UserError: It was in use when this process was forked, so that it would wait forever for
            threads that only its parent has.
    """
    import tensorflow as tf

    limits = tf.config.threading
    before = limits.get_intra_op_parallelism_threads()
    share = threads_per_rank() if local_ranks() > 1 else before
    try:
        limits.set_intra_op_parallelism_threads(before + 1)  # the number it has is never refused
        limits.set_intra_op_parallelism_threads(share)
        if local_ranks() > 1:
            limits.set_inter_op_parallelism_threads(share)
    except RuntimeError as error:  # it is already in use
        names = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]  # in Linux
        forked = multiprocessing.parent_process() is not None and names
        if forked and not any(name.startswith("tf_") for name in names):
            raise UserError(
                "this process was forked from one that had used TensorFlow, and so cannot use it; "
                "start it with multiprocessing.get_context('spawn'), or before TensorFlow is used."
            ) from error


# ---------------------------------------------------------------- streams


def open_missing_streams() -> None:
    """Open /dev/null in the place of standard streams that are closed, as after `2>&-`.

    Otherwise the next file to be opened would get the number of such a stream, and what is written
    there, such as the text about a signal, would go into that file.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number
        stream = getattr(sys, name)
        if stream is None or getattr(stream, "closed", False):
            opened = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, opened)
