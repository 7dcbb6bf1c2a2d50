"""The work of environments, divided over MPI ranks."""

import numpy as np


def indices(rank: int, size: int, num_envs: int) -> list[int]:
    return [*range(rank * num_envs, (rank + 1) * num_envs)]


def seeds(seed: int, indices: list[int]) -> list[int]:
    return [int(np.random.SeedSequence([seed, i]).generate_state(1)[0]) for i in indices]


def mean_return(returns: list[np.ndarray]) -> float:
    total = sum(each.sum() for each in returns)
    count = sum(len(each) for each in returns)
    return total / count if count else np.nan
