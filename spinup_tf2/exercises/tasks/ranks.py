"""The work of environments, divided over MPI ranks.

A run has E = size x num_envs environments: size processes, the ranks, with num_envs each. One rank
with 4 environments, 2 with 2 and 4 with 1 should train on the same experience, so that an
experiment does not depend on the machine that it runs on. For this, environments are numbered over
all ranks, rank 0 first, and everything random about an environment depends on the run's seed and
this number, and on nothing else.

Then there is what all ranks have to agree on. The mean return of an epoch, for example: each rank
knows the episodes that have ended in its own environments, and may have had none.
"""

import numpy as np


def indices(rank: int, size: int, num_envs: int) -> list[int]:
    """Return the numbers of a rank's environments, from 0 to E - 1, in increasing order.

    Args:
        rank: The rank, 0 to size - 1.
        size: Number of ranks.
        num_envs: Number of environments of each rank.
    """
    raise NotImplementedError


def seeds(seed: int, indices: list[int]) -> list[int]:
    """Return a seed for each of the environments with these numbers.

    Two environments must not have the same seed, neither in a run nor in two runs with different
    seeds: seed + index would make environment 1 of run 0 the same as environment 0 of run 1.
    numpy.random.SeedSequence([a, b]).generate_state(1)[0] makes one number from two.
    """
    raise NotImplementedError


def mean_return(returns: list[np.ndarray]) -> float:
    """Return the mean return of all episodes of all ranks; nan if there are none.

    Args:
        returns: For each rank, the returns of its episodes, [episodes]; may be empty.
    """
    raise NotImplementedError
