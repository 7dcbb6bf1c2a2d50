"""What experiments with few seeds are worth, if one run in five fails.

python docs/course/seeds.py
"""

import numpy as np

from spinup_tf2.results.statistics import summarize


def returns(shape, rng):
    """Final returns: in 4 of 5 runs about 480, in the others about 100."""
    fails = rng.random(shape) < 0.2
    noise = rng.standard_normal(shape)
    return np.where(fails, 100 + 40 * noise, 480 + 10 * noise)


def rehearse(num_seeds, estimator, experiments=2000, seed=0):
    """Many experiments with `num_seeds` runs each.

    Returns:
        Standard deviation of the estimates, and share of intervals with the truth.
    """
    rng = np.random.default_rng(seed)
    truth = summarize(returns((100_000, 1), rng), estimator, "none").estimate[0]
    result = summarize(returns((num_seeds, experiments), rng), estimator, "ci")
    covered = (result.low <= truth) & (truth <= result.high)
    return result.estimate.std(), covered.mean()


def wrong_order(num_seeds, other=380.0, experiments=100_000, seed=0):
    """How often the mean of the runs is below 380, that of a worse algorithm which never fails."""
    rng = np.random.default_rng(seed)
    return (returns((num_seeds, experiments), rng).mean(axis=0) < other).mean()


def report(numbers=(3, 5, 10, 20, 50)):
    print("         mean                 IQM                  looks worse")
    print("seeds    spread   coverage    spread   coverage    than 380")
    for num_seeds in numbers:
        row = [*rehearse(num_seeds, "mean"), *rehearse(num_seeds, "iqm"), wrong_order(num_seeds)]
        spread, coverage, iqm_spread, iqm_coverage, wrong = row
        print(f"{num_seeds:5}{spread:10.0f}{coverage:11.0%}", end="")
        print(f"{iqm_spread:10.0f}{iqm_coverage:11.0%}{wrong:12.0%}")


if __name__ == "__main__":
    report()
