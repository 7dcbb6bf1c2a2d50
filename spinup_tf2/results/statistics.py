"""Statistics over several runs: an estimate and an interval for each x, and final performance.

Estimators are those common in the field (mean, median, interquartile mean: Agarwal et al. 2021,
"Deep Reinforcement Learning at the Edge of the Statistical Precipice"), with matching intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np

from spinup_tf2.errors import UserError

# scipy is imported where it is used, so that --help does not have to wait for it.

Estimator = Literal["mean", "median", "iqm", "min", "max", "sum", "std"]
Errorbar = Literal["sd", "se", "ci", "none"]
ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)
ERRORBARS: tuple[Errorbar, ...] = get_args(Errorbar)

# These are not values that a run could have, so there is no meaningful interval around them.
WITHOUT_INTERVAL = ("sum", "std")

CONFIDENCE = 0.95
RESAMPLES = 1000  # number of bootstrap resamples
_BATCH = 2**20  # numbers that the bootstrap holds in memory at a time

_FEW = 10  # rows; if no run has more, the curve has a point for every row of any run

TAIL = 0.1  # share of a run's rows that counts as its final performance


class Summary(NamedTuple):
    """Arrays [points] of the estimates and their intervals; NaN where there is none."""

    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray


class Curve(NamedTuple):
    """Arrays [points] of x, the estimates and their intervals."""

    x: np.ndarray
    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray


def check_statistics(estimator: str, errorbar: str | None) -> Errorbar:
    """Check estimator and interval; return the interval, or the estimator's default if it is None.

    Raises:
        UserError: One of them is unknown, or they cannot be combined.
    """
    if estimator not in ESTIMATORS:
        raise UserError(
            f"There is no estimator {estimator!r}; choose from {', '.join(ESTIMATORS)}."
        )
    if errorbar is None:
        return "none" if estimator in WITHOUT_INTERVAL else "sd"
    if errorbar not in ERRORBARS:
        raise UserError(
            f"There is no interval {errorbar!r} (errorbar); choose from {', '.join(ERRORBARS)}."
        )
    if estimator in WITHOUT_INTERVAL and errorbar != "none":
        raise UserError(
            f"The {estimator} of the runs has no interval {errorbar!r}; give errorbar 'none', or "
            "another estimator."
        )
    return errorbar


def curve_of(
    runs: Sequence[tuple[np.ndarray, np.ndarray]],
    estimator: Estimator = "mean",
    errorbar: Errorbar = "sd",
) -> Curve:
    """Compute the curve of an experiment.

    Its interval is clipped to the range of the runs at each x. There is none where only one run has
    a value.

    Args:
        runs: (x, y) of each run, arrays [rows]; NaN where a row has no number.
        estimator: Estimator that combines the runs, one of `ESTIMATORS`.
        errorbar: One of `ERRORBARS`; see `summarize`.
    """
    x, values = align(runs)
    summary = summarize(values, estimator, errorbar)
    # fmin and fmax ignore NaN; summary has NaN where there is only one run.
    worst, best = np.fmin.reduce(values), np.fmax.reduce(values)
    return Curve(
        x, summary.estimate, np.maximum(summary.low, worst), np.minimum(summary.high, best)
    )


def align(runs: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Align runs to common values of x, in ascending order.

    These are all x at which any of the runs has a row. A run without a row at some x is
    interpolated linearly between its neighboring rows; it has no value before its first row and
    after its last. If that gave more than twice as many points as the longest run has rows (no two
    runs share values of wall-clock time, for example), and a run has more than ten rows, there are
    instead as many evenly spaced points as the longest run has rows. Rows of a run with the same x
    are replaced by their mean.

    A row without a number is not interpolated: the run has no value at its x, nor at evenly spaced
    points whose nearest row it is.

    Args:
        runs: (x, y) of each run, arrays [rows]; NaN where a row has no number.

    Returns:
        x [points] and values [runs, points], NaN where a run has no value.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        rows = [_in_order(np.asarray(x, float), np.asarray(y, float)) for x, y in runs]
        grid = np.unique(np.concatenate([x for x, _ in rows]))
        longest = max(len(x) for x, _ in rows)
        even = longest > _FEW and len(grid) > 2 * longest
        if even:
            grid = np.linspace(grid[0], grid[-1], longest)
        values = np.array([_at(grid, x, y, even) for x, y in rows]).reshape(len(rows), len(grid))
    values[~np.isfinite(values)] = np.nan
    some = np.isfinite(values).any(axis=0)
    return grid[some], values[:, some]


def _in_order(x, y):
    """Return the rows in ascending order of x, with rows of the same x averaged."""
    known = np.isfinite(x)
    x, where = np.unique(x[known], return_inverse=True)
    y = y[known]
    valid = np.isfinite(y)
    count = np.bincount(where[valid], minlength=len(x))
    total = np.bincount(where[valid], y[valid], minlength=len(x))
    return x, np.divide(total, count, out=np.full(len(x), np.nan), where=count > 0)


def _at(grid, x, y, even):
    """Return a run's values on a grid of evenly spaced points, or of the rows of all runs."""
    valid = np.isfinite(y)
    if not valid.any():
        return np.full(len(grid), np.nan)
    values = np.interp(grid, x[valid], y[valid], left=np.nan, right=np.nan)
    # A blank row is not filled. On an even grid it blanks the points up to halfway to its
    # neighbors; not all points up to these, or tests in every other epoch would leave no values.
    nearest = np.searchsorted((x[1:] + x[:-1]) / 2, grid)
    values[~valid[nearest] if even else np.isin(grid, x[~valid])] = np.nan
    return values


def summarize(
    values: np.ndarray, estimator: Estimator = "mean", errorbar: Errorbar = "sd"
) -> Summary:
    """Compute the estimate and its interval at each point, over the runs that have a value there.

    The result is deterministic, as the bootstrap always uses the same random numbers.

    Args:
        values: [runs, points], NaN where a run has no value.
        estimator: One of `ESTIMATORS`. `iqm` is the mean of the middle half of the runs; for fewer
            than four runs, of which no quarter can be left out, it is the mean.
        errorbar: `sd`: the estimate plus and minus the standard deviation of the runs (n - 1).
            `se`: plus and minus the standard error of the estimate, from the formula for the mean
            and from the bootstrap for the others. `ci`: the 95 % confidence interval of the
            estimate, from the percentile bootstrap over the runs. `none`: no interval.
    """
    values = np.asarray(values, float)
    result = Summary(*np.full((3, values.shape[1]), np.nan))
    if not values.size:
        return result
    # Points at which the same runs have a value are processed together.
    sets, which = np.unique(np.isfinite(values), axis=1, return_inverse=True)
    with np.errstate(over="ignore", invalid="ignore"):
        for number, present in enumerate(sets.T):
            points = which.ravel() == number
            if present.any():
                parts = _of_the_same_runs(values[present][:, points], estimator, errorbar)
                for array, part in zip(result, parts, strict=True):
                    array[points] = part
    for array in result:
        array[~np.isfinite(array)] = np.nan  # sums of huge numbers may overflow
    return result


def _of_the_same_runs(values, estimator, errorbar):
    """Compute estimate and interval of values [runs, points] without NaN."""
    estimate = _statistic(estimator)(values, axis=0)
    number = len(values)
    if number < 2 or errorbar == "none":
        return estimate, np.nan, np.nan
    if errorbar == "ci":
        interval = _bootstrap(values, estimator).confidence_interval
        return estimate, interval.low, interval.high
    if errorbar == "sd":
        half = np.std(values, axis=0, ddof=1)
    elif estimator == "mean":
        half = np.std(values, axis=0, ddof=1) / math.sqrt(number)
    else:
        half = _bootstrap(values, estimator).standard_error
    return estimate, estimate - half, estimate + half


def _statistic(estimator):
    if estimator != "iqm":
        return getattr(np, estimator)
    from scipy.stats import trim_mean

    return lambda values, axis: trim_mean(values, 0.25, axis=axis)


def _bootstrap(values, estimator):
    from scipy.stats import bootstrap

    return bootstrap(
        (values,),
        _statistic(estimator),
        axis=0,
        vectorized=True,
        n_resamples=RESAMPLES,
        batch=max(1, _BATCH // values.size),
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(0),
    )


def tail_mean(y: np.ndarray) -> float:
    """Return the mean of the last tenth of a run's numbers, at least one; NaN if there are none."""
    y = y[np.isfinite(y)]
    return float(np.mean(y[-math.ceil(TAIL * len(y)) :])) if len(y) else math.nan
