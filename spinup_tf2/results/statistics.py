"""Statistics over several runs: curves with their intervals, and final performance.

Estimators are those common in the field (mean, median, interquartile mean: Agarwal et al. 2021,
"Deep Reinforcement Learning at the Edge of the Statistical Precipice"), with matching intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from spinup_tf2.errors import UserError
from spinup_tf2.files.printing import print_safely
from spinup_tf2.results.datasets import env_of, experiment, named_by_env, numbers

if TYPE_CHECKING:
    import pandas as pd

# pandas and scipy are imported where they are used, so that --help does not have to wait for them.

Estimator = Literal["mean", "median", "iqm", "min", "max", "sum", "std"]
Errorbar = Literal["sd", "se", "ci", "none"]
ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)
ERRORBARS: tuple[Errorbar, ...] = get_args(Errorbar)

# These are not values that a run could have, so there is no meaningful interval around them.
WITHOUT_INTERVAL = ("sum", "std")

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
        raise UserError(f"There is no estimator {estimator!r} in {', '.join(ESTIMATORS)}.")
    possible = ("none",) if estimator in WITHOUT_INTERVAL else ERRORBARS
    errorbar = errorbar or possible[0]
    if errorbar not in possible:
        raise UserError(
            f"The {estimator} of the runs has no interval {errorbar!r} (errorbar); choose from "
            f"{', '.join(possible)}."
        )
    return errorbar


def get_curves(
    data: Sequence[pd.DataFrame] | pd.DataFrame,
    xaxis: str = "TotalEnvInteracts",
    value: str = "Performance",
    condition: str = "Condition1",
    smooth: int = 1,
    estimator: Estimator = "mean",
    errorbar: Errorbar | None = None,
) -> dict[str, Curve]:
    """Compute the curves of a figure, each with its interval.

    Args:
        data: Runs, as from `get_datasets`. Those without numbers are reported and left out.
        xaxis: Column for the horizontal axis.
        value: Column for the vertical axis.
        condition: Column that tells the curves apart.
        smooth: Width, in rows, of the centered moving average with which each run is smoothed
            first.
        estimator: Statistic that combines the runs of a curve; see `summarize`.
        errorbar: The interval around it; by default `sd`, or `none` for `sum` and `std`.

    Returns:
        {name of the curve: (x, estimate, low, high), arrays [points]}

    Raises:
        UserError: A column, estimator or interval does not exist, or no run has numbers.
    """
    errorbar = check_statistics(estimator, errorbar)
    runs = [data] if hasattr(data, "columns") else list(data)
    check_columns(runs, (xaxis, value))
    groups: dict[str, list] = {}
    for run in runs:
        if xy := _xy(run, xaxis, value, smooth):
            groups.setdefault(str(run[condition].iloc[0]), []).append(xy)
    if not groups:
        raise UserError(f"There are no numbers to plot in column {value!r} against {xaxis!r}.")
    return {name: curve_of(group, estimator, errorbar) for name, group in groups.items()}


def check_columns(runs: Sequence[pd.DataFrame], columns: Sequence[str]) -> None:
    """Raise UserError if there is a column that none of the runs has."""
    for column in columns:
        if not any(column in run for run in runs):
            there = dict.fromkeys(name for run in runs for name in run.columns)
            raise UserError(f"No run has a column {column!r}; there is {', '.join(there)}.")


def _xy(run, xaxis, value, smooth):
    """Return two columns of a run, with the second one smoothed.

    If a column is missing, or no row has numbers in both, report it and return None.
    """
    import pandas as pd

    path = run.attrs.get("path", "a run")
    missing = [column for column in (xaxis, value) if column not in run]
    if missing:
        print_safely(f"Leaving out {path}: it has no column {' and no column '.join(missing)}")
        return None
    x, y = numbers(run[xaxis]), numbers(run[value])
    # Epochs without data (no finished episode) stay blank: they are neither averaged nor filled in.
    known = ~np.isnan(x) & ~np.isnan(y)
    if not known.any():
        print_safely(f"Leaving out {path}: there are no numbers in {value}")
        return None
    if smooth > 1:
        y[known] = pd.Series(y[known]).rolling(smooth, center=True, min_periods=1).mean()
    return x, y


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
    import pandas as pd

    rows = pd.Series(np.where(np.isfinite(y), y, np.nan), x)[np.isfinite(x)]
    means = rows.groupby(level=0).mean()
    return means.index.to_numpy(), means.to_numpy()


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
        confidence_level=0.95,
        method="percentile",
        rng=np.random.default_rng(0),
    )


def final_performance(
    data: Sequence[pd.DataFrame],
    values: str | Sequence[str] = "Performance",
    estimator: Estimator = "mean",
    errorbar: Errorbar | None = None,
) -> pd.DataFrame:
    """Compute the final performance of experiments.

    The final performance of a run is the mean over the last tenth of its rows (only rows with a
    number count, and at least one). Runs without numbers are reported and left out.

    Args:
        data: Runs, as returned by `get_datasets`.
        values: Column, or columns, of the runs.
        estimator: Estimator that combines the runs of an experiment in an environment.
        errorbar: Interval around the estimate; see `summarize`. Unlike the bands of a figure, it is
            not clipped to the range of the runs.

    Returns:
        A DataFrame with a row for each value, environment and experiment, and the columns `value`,
        `environment`, `experiment`, `estimate`, `low` and `high` (NaN for one seed), `seeds`.

    Raises:
        UserError: No run has numbers in these columns.
    """
    import pandas as pd

    errorbar = check_statistics(estimator, errorbar)
    data = named_by_env(data)
    rows = []
    for value in [values] if isinstance(values, str) else dict.fromkeys(values):
        groups: dict[tuple[str, str], list[float]] = {}
        for run in data:
            final = tail_mean(numbers(run[value])) if value in run else math.nan
            if not math.isfinite(final):
                path = run.attrs.get("path") or run["Condition2"].iloc[0]
                print_safely(f"Left out of the table: {path} has no numbers in column {value!r}.")
            else:
                groups.setdefault((env_of(run), experiment(run)), []).append(final)
        if not groups:
            raise UserError(f"There are no numbers in column {value!r} to make a table of.")
        for (env, name), finals in sorted(groups.items()):
            summary = summarize(np.array(finals)[:, None], estimator, errorbar)
            rows.append((value, env, name, *map(float, np.ravel(summary)), len(finals)))
    columns = ["value", "environment", "experiment", "estimate", "low", "high", "seeds"]
    return pd.DataFrame(rows, columns=columns)


def tail_mean(y: np.ndarray) -> float:
    """Return the mean of the last tenth of a run's numbers, at least one; NaN if there are none."""
    y = y[np.isfinite(y)]
    return float(np.mean(y[-math.ceil(TAIL * len(y)) :])) if len(y) else math.nan
