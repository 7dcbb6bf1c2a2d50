"""Rank and size as the MPI launcher passes them to its processes in environment variables.

So they are known before MPI is started, and without mpi4py.
"""

import os
import socket

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
