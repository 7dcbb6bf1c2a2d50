"""What an MPI launcher says of the process that it started, in environment variables.

So it is known before MPI is started, and without mpi4py.
"""

import os
import socket

# What launchers tell the processes they start: (size of the world, rank in it). The launcher of a
# job comes before the scheduler that it may itself have been started by.
_LAUNCHERS = (
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),  # Open MPI
    ("PMI_SIZE", "PMI_RANK"),  # MPICH, Intel MPI, srun --mpi=pmi2
    ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),  # srun
)


def _world():
    """(size, rank) as the launcher's environment variables give them; None without a launcher."""
    for size_name, rank_name in _LAUNCHERS:
        size, rank = os.environ.get(size_name, ""), os.environ.get(rank_name, "")
        # A single Slurm task is also what an interactive `srun --pty bash` gives: no MPI job.
        is_job = size_name != "SLURM_STEP_NUM_TASKS" or size != "1"
        if size.isdigit() and rank.isdigit() and is_job:
            return int(size), int(rank)
    return None


def by_mpi() -> bool:
    """Whether an MPI launcher started this process."""
    return _world() is not None


def rank() -> int:
    """The rank that the launcher gave this process; 0 without one."""
    world = _world()
    return world[1] if world else 0


def size() -> int:
    """The number of processes that the launcher started; 1 without one."""
    world = _world()
    return world[0] if world else 1


def where() -> str:
    """This process, for messages: "on rank 1 of 4, host node2"."""
    return f"on rank {rank()} of {size()}, host {socket.gethostname()}"
