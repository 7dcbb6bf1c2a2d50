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

from spinup_tf2.exercises.checking import Wrong, calls, compare, expect


def indices(rank: int, size: int, num_envs: int) -> list[int]:
    """Return the numbers of a rank's environments, from 0 to E - 1, in increasing order.

    Args:
        rank: The rank, 0 to size - 1.
        size: Number of ranks.
        num_envs: Number of environments of each rank.
    """
    # answer
    first = rank * num_envs
    return [*range(first, first + num_envs)]


def seeds(seed: int, indices: list[int]) -> list[int]:
    """Return a seed for each of the environments with these numbers.

    Two environments must not have the same seed, neither in a run nor in two runs with different
    seeds: seed + index would make environment 1 of run 0 the same as environment 0 of run 1.
    numpy.random.SeedSequence([a, b]).generate_state(1)[0] makes one number from two.
    """
    # answer
    return [int(np.random.SeedSequence([seed, i]).generate_state(1)[0]) for i in indices]


def mean_return(returns: list[np.ndarray]) -> float:
    """Return the mean return of all episodes of all ranks; nan if there are none.

    Args:
        returns: For each rank, the returns of its episodes, [episodes]; may be empty.
    """
    # answer
    total = sum(each.sum() for each in returns)
    count = sum(len(each) for each in returns)
    return total / count if count else np.nan


# ---------------------------------------------------------------- checks

_LAYOUTS = [(1, 4), (2, 2), (4, 1)]  # number of ranks, and of environments of each

# Runs whose environments are compared. Among 46,000 random numbers of 32 bits there is an equal
# pair in one of five cases; a rule that repeats seeds does so hundreds of times.
_RUNS, _NUM_ENVS, _BY_CHANCE = [*range(21), 1000, 10_000], 2000, 10
_CASES = {
    f"rank {rank} of {size}, {num_envs} environments each": (rank, size, num_envs)
    for size, num_envs in [*_LAYOUTS, (3, 5)]
    for rank in range(size)
}


def _right_indices(rank, size, num_envs):
    """Count all environments, and keep those of the rank."""
    owners = [owner for owner in range(size) for _ in range(num_envs)]
    return [i for i, owner in enumerate(owners) if owner == rank]


def check_indices(student):
    mistakes = {
        "Every rank has the environments 0 to num_envs - 1.": "rank * num_envs => 0",
        "You deal them out in turns: rank 0 should have the first num_envs.": (
            "first, first + num_envs => rank, size * num_envs, size"
        ),
        "Ranks overlap: rank r begins with number r * num_envs.": "rank * num_envs => rank",
    }
    compare(
        student, lambda module, *args: [*module.indices(*args)], _CASES, _right_indices, mistakes
    )


def _of_all(student, seed, layout):
    """Return the seeds of all environments, those of rank 0 first."""
    found = []
    for rank in range(layout[0]):
        numbers = _right_indices(rank, *layout)
        given = [int(each) for each in student.seeds(seed, [*numbers])]
        expect(
            len(given) == len(numbers) and min(given) >= 0,
            f"seeds({seed}, {numbers}) is {given}; it should be {len(numbers)} numbers of at least "
            "0, which is what env.reset(seed=...) takes.",
        )
        found += given
    return found


def check_seeds(student):
    one_rank, two, four = (_of_all(student, 7, layout) for layout in _LAYOUTS)
    expect(
        len(set(one_rank)) == 4,
        f"Environments 0 to 3 of one rank have the seeds {one_rank}: each needs its own.",
    )
    expect(
        one_rank == two == four,
        "A seed has to depend on the run's seed and the environment's number alone. 1 rank with 4 "
        f"environments, 2 with 2 and 4 with 1 have {one_rank}, {two} and {four}.",
    )
    owners, again = {}, []
    for run in _RUNS:
        for index, each in enumerate(_of_all(student, run, (1, _NUM_ENVS))):
            before = owners.setdefault(each, (run, index))
            if before != (run, index):
                again.append((index, run, *reversed(before)))
    if len(again) > _BY_CHANCE:
        raise Wrong(
            "Environment {} of the run with seed {} has the same seed as environment {} of the run "
            "with seed {}: their results are not independent.".format(*again[0])
        )


def check_mean_return(student):
    def ranks(*lengths):
        rng = np.random.default_rng(11)
        return ([rng.normal(100, 30, size=length) for length in lengths],)

    cases = {
        "one rank": ranks(5),
        "the same number of episodes everywhere": ranks(3, 3),
        "1 episode here, 9 there": ranks(1, 9),
        "a rank without episodes": ranks(4, 0, 2),
    }
    mistakes = {
        "This is the mean of the ranks' means: divide all sums once.": (
            "total / count => np.mean([each.mean() for each in returns if len(each)])"
        ),
        "A rank without episodes makes all of it nan.": (
            "total / count => np.mean([each.sum() / len(each) for each in returns])"
        ),
        "A rank without episodes counts as one whose mean is 0.": (
            "total / count => np.mean([each.sum() / max(len(each), 1) for each in returns])"
        ),
    }

    def right(returns):
        return np.mean(np.concatenate(returns))

    compare(student, calls("mean_return"), cases, right, mistakes)
    nothing = student.mean_return([np.zeros(0), np.zeros(0)])
    expect(
        np.ndim(nothing) == 0 and nothing is not None and np.isnan(nothing),
        f"Without any episode there is no mean: nan is expected, and not {nothing}.",
    )
