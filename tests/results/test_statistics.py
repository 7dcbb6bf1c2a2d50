"""Statistics over runs, against NumPy and SciPy computed here, one point at a time."""

import numpy as np
import pytest
import scipy.stats

from spinup_tf2.errors import UserError
from spinup_tf2.results.statistics import (
    ESTIMATORS,
    RESAMPLES,
    align,
    check_statistics,
    curve_of,
    summarize,
    tail_mean,
)

VALUES = np.random.default_rng(1).exponential(100, size=(9, 4))


def by_hand(estimator, column):
    if estimator == "iqm":
        return np.sort(column)[2:-2].mean()  # of nine, int(9 / 4) are left out at each end
    return getattr(np, estimator)(column)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_estimates(estimator):
    result = summarize(VALUES, estimator, "none")
    expected = [by_hand(estimator, column) for column in VALUES.T]
    np.testing.assert_allclose(result.estimate, expected)
    assert np.isnan([result.low, result.high]).all()


@pytest.mark.parametrize("estimator", ["mean", "median", "iqm", "max"])
def test_confidence_intervals_are_those_of_the_estimator(estimator):
    """Percentiles of the estimates of resamples, drawn here in a loop."""
    result = summarize(VALUES, estimator, "ci")
    rng = np.random.default_rng(0)
    picks = rng.integers(0, 9, (RESAMPLES, 9))
    for i, column in enumerate(VALUES.T):
        estimates = [by_hand(estimator, column[pick]) for pick in picks]
        low, high = np.percentile(estimates, [2.5, 97.5])
        # Other resamples would give other numbers within the error of their percentiles.
        tolerance = 0.1 * np.std(column)
        np.testing.assert_allclose([result.low[i], result.high[i]], [low, high], atol=tolerance)
    direct = scipy.stats.bootstrap(
        (VALUES[:, 0],),
        lambda x, axis: np.apply_along_axis(lambda each: by_hand(estimator, each), axis, x),
        n_resamples=RESAMPLES,
        confidence_level=0.95,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    np.testing.assert_allclose([result.low[0], result.high[0]], direct)


def test_standard_deviation_and_standard_error():
    mean, std = VALUES.mean(axis=0), VALUES.std(axis=0, ddof=1)
    for errorbar, half in (("sd", std), ("se", std / 3)):
        _, low, high = summarize(VALUES, "mean", errorbar)
        np.testing.assert_allclose([low, high], [mean - half, mean + half])
    _, low, high = summarize(VALUES, "median", "sd")
    np.testing.assert_allclose(high - low, 2 * std)
    # Of the median of n normal numbers it is 1.25 / sqrt(n) standard deviations.
    normal = np.random.default_rng(0).normal(size=(400, 5))
    _, low, high = summarize(normal, "median", "se")
    np.testing.assert_allclose(((high - low) / 2).mean(), 1.2533 / 20, rtol=0.15)


def test_each_point_has_its_own_runs():
    values = VALUES.copy()
    values[:3, 1] = np.nan
    values[1:, 2] = np.nan
    values[:, 3] = np.nan
    result = summarize(values, "mean", "sd")
    np.testing.assert_allclose(
        result.estimate, [values[:, 0].mean(), values[3:, 1].mean(), values[0, 2], np.nan]
    )
    half = result.high - result.estimate
    np.testing.assert_allclose(
        half, [values[:, 0].std(ddof=1), values[3:, 1].std(ddof=1), np.nan, np.nan]
    )


def test_the_iqm_of_fewer_than_four_is_the_mean():
    np.testing.assert_allclose(summarize(VALUES[:3], "iqm").estimate, VALUES[:3].mean(axis=0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sum", "ci"), "The sum of the runs has no interval 'ci' .* choose from none"),
        (("mean", "sem"), "no interval 'sem' .* choose from sd, se, ci, none"),
        (("system", None), "no estimator 'system' in mean, me"),
    ],
)
def test_what_does_not_go_together(arguments, message):
    with pytest.raises(UserError, match=message):
        check_statistics(*arguments)


# ---------------------------------------------------------------- runs with different x


def test_runs_of_one_grid_are_taken_as_they_are():
    x = np.array([1.0, 2, 3])
    grid, values = align([(x, x), (x[:2], 10 * x[:2])])
    np.testing.assert_array_equal(grid, x)
    np.testing.assert_array_equal(values, [[1, 2, 3], [10, 20, np.nan]])


def test_other_runs_are_interpolated_between_their_rows_and_not_beyond():
    a = (np.array([1.0, 3.0]), np.array([10.0, 30.0]))
    b = (np.array([2.0, 3.0, 4.0]), np.array([1.0, 2.0, 4.0]))
    grid, values = align([a, b])
    np.testing.assert_array_equal(grid, [1, 2, 3, 4])
    np.testing.assert_array_equal(values, [[10, 20, 30, np.nan], [np.nan, 1, 2, 4]])
    np.testing.assert_array_equal(curve_of([a, b], "mean", "none").estimate, [10, 10.5, 16, 4])


def test_a_blank_row_is_not_filled_and_a_missing_row_is():
    x = np.arange(4.0)
    blank = np.array([0, np.nan, 2, 3.0])
    _, values = align([(x, x), (x, blank), (x[[0, 2, 3]], blank[[0, 2, 3]])])
    np.testing.assert_array_equal(values, [[0, 1, 2, 3], [0, np.nan, 2, 3], [0, 1, 2, 3]])


def test_wall_clock_time_gets_an_even_grid():
    rng = np.random.default_rng(0)
    runs = [(x := np.sort(rng.uniform(0, 100, 50)), 2 * x) for _ in range(3)]
    grid, values = align(runs)
    assert len(grid) == 50
    np.testing.assert_allclose(np.diff(grid), np.diff(grid)[0])
    np.testing.assert_allclose(curve_of(runs, "mean", "none").estimate, 2 * grid)


def test_a_blank_row_is_not_filled_on_an_even_grid_either():
    """Against the nearest row, looked for one point at a time."""
    rng = np.random.default_rng(1)
    runs = []
    for _ in range(3):
        x = np.sort(rng.uniform(0, 100, 50))
        y = 2 * x
        y[rng.permutation(50)[:15]] = np.nan
        runs.append((x, y))
    grid, values = align(runs)
    for (x, y), found in zip(runs, values, strict=True):
        valid = np.isfinite(y)
        within = (grid >= x[valid][0]) & (grid <= x[valid][-1])
        blank = np.array([np.isnan(y[np.abs(x - point).argmin()]) for point in grid])
        assert (blank & within).any()
        expected = np.where(within & ~blank, 2 * grid, np.nan)
        np.testing.assert_allclose(found, expected)


def test_rows_in_any_order_and_twice():
    x, y = np.array([3.0, 1, 1, np.nan, 2]), np.array([30.0, 1, 3, 99, np.nan])
    grid, values = align([(x, y)])
    np.testing.assert_array_equal(grid, [1, 3])
    np.testing.assert_array_equal(values, [[2, 30]])


@pytest.mark.parametrize(("rows", "counted"), [(1, 1), (10, 1), (11, 2), (100, 10)])
def test_the_last_tenth(rows, counted):
    y = np.random.default_rng(rows).normal(size=rows)
    assert tail_mean(y) == pytest.approx(y[-counted:].mean())
    assert tail_mean(np.append(y, np.nan)) == tail_mean(y)
    assert np.isnan(tail_mean(np.array([np.nan])))
