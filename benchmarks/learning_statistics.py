"""Statistics of the learning benchmark: of runs, of cells, and over environments."""

import math
from collections.abc import Mapping
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from learning_data import CELL, KEYS, RANDOM, Protocol, about, nameof, protocols, published

SMOOTHED = 11  # epochs, of Spinning Up's curves
BETWEEN_TESTS = 30_000  # steps, of Tianshou
RESAMPLES = 2000  # of the bootstrap

# ------------------------------------------------------------------------------ of single runs


def performance(
    data: pd.DataFrame, steps: int, measure: str = "last tenth", steps_per_epoch: int = 1
) -> pd.Series:
    """What each run that has come as far as `steps` reaches there, by one of `MEASURES`."""
    reached = data.groupby(KEYS)["interactions"].transform("max") >= 0.99 * steps
    return MEASURES[measure](data[reached].dropna(), steps, steps_per_epoch)


def _last_tenth(data, steps, _):
    """The mean over the last tenth of the steps."""
    tail = data[data["interactions"].between(0.9 * steps, steps, inclusive="right")]
    return tail.groupby(KEYS)["return"].mean()


def _smoothed(data, steps, steps_per_epoch):
    """A point of Spinning Up's curves: the mean over eleven epochs, the last six at the end."""
    near = (data["interactions"] - steps).abs() < SMOOTHED / 2 * steps_per_epoch
    return data[near].groupby(KEYS)["return"].mean()


def _largest(data, steps, _):
    """At the time at which the mean over the runs of a cell is the largest, as in Tianshou."""
    data = data[data["interactions"] <= steps]
    times = (data["interactions"] - 1) // BETWEEN_TESTS
    means = data.groupby([*KEYS, times])["return"].mean()
    best = []
    for _, cell in means.groupby(CELL):
        of_runs = cell.unstack("interactions").dropna(axis=1)
        best.append(of_runs[of_runs.mean().idxmax()])
    return pd.concat(best) if best else pd.Series(dtype=float)


MEASURES = {"last tenth": _last_tenth, "smoothed": _smoothed, "largest": _largest}


def interval(runs: np.ndarray) -> tuple[float, float]:
    """The 95 % confidence interval of the mean of runs, by Student's t; NaN of fewer than three.

    The bootstrap over three runs would be their range, which holds the true mean in three cases
    out of four only.
    """
    from scipy.stats import sem, t

    if len(runs) < 3:
        return math.nan, math.nan
    half = sem(runs) * t.ppf(0.975, len(runs) - 1)
    return np.mean(runs) - half, np.mean(runs) + half


# ----------------------------------------------------------------------------------- of cells


def cells(protocol: Protocol, data: pd.DataFrame) -> pd.DataFrame:
    """A row for each algorithm, environment, variant and number of steps that a run has reached.

    The number of steps is the protocol's own, and those that were published, but not those of the
    protocol that it continues.
    Columns: `mean`, `low`, `high` (see `interval`), `sd`, `seeds`, `runs` (the return of each),
    and of each source its mean and deviation, and our mean as the source measures it.
    """
    per_epoch = protocol.arguments["steps_per_epoch"]
    finals_at = cache(partial(performance, data, steps_per_epoch=per_epoch))
    begin = protocols()[protocol.continues].steps if protocol.continues else 0
    rows = []
    for environment in protocol.environments:
        for algorithm in protocol.algorithms:
            theirs = {each: published(each, algorithm, environment) for each in protocol.published}
            at = {protocol.steps}.union(*theirs.values())
            for steps in sorted(n for n in at if begin < n <= 1.01 * protocol.steps):
                finals = finals_at(steps, measure=protocol.measure)
                for variant in protocol.variant_names:
                    key = (algorithm, environment, variant)
                    if key not in finals:
                        continue
                    runs = finals[key].to_numpy()
                    low, high = interval(runs)
                    row = dict(zip(CELL, key, strict=True), steps=steps, seeds=len(runs))
                    row |= dict(mean=np.mean(runs), low=low, high=high)
                    row |= dict(sd=np.std(runs, ddof=len(runs) > 1), runs=[*runs])
                    for source, cell in theirs.items():
                        if steps in cell:
                            ours = finals_at(steps, measure=about(source)["measure"])[key]
                            row[source], row[f"{source} sd"] = cell[steps]
                            row[f"{source} ours"] = ours.mean()
                    rows.append(row)
    return pd.DataFrame(rows)


def pooled(protocol: Protocol, table: pd.DataFrame) -> pd.DataFrame:
    """The mean difference from each source at the end, in its standard deviations.

    A row for each algorithm, variant and source: the mean over the environments of (ours - theirs)
    in standard deviations of theirs, and its 95 % interval, for which runs of ours are taken to
    scatter like theirs: the variance of an environment is 1 / our seeds + 1 / their seeds. Sources
    with fewer than five seeds are left out, whose deviations are hardly known.
    """
    rows = []
    final = table[table["steps"] == protocol.steps]
    for (algorithm, variant), group in final.groupby(["algorithm", "variant"], sort=False):
        for source in (source for source in protocol.published if source in group):
            known = group.dropna(subset=source)
            if known.empty or about(source)["seeds"] < 5:
                continue
            differences = (known[f"{source} ours"] - known[source]) / known[f"{source} sd"]
            variances = 1 / known["seeds"] + 1 / about(source)["seeds"]
            mean, half = differences.mean(), 1.96 * math.sqrt(variances.sum()) / len(known)
            row = dict(algorithm=algorithm, variant=variant, source=source, cells=len(known))
            rows.append(row | dict(difference=mean, low=mean - half, high=mean + half))
    return pd.DataFrame(rows)


def outliers(protocol: Protocol, table: pd.DataFrame) -> list[dict[str, Any]]:
    """Runs of ours that are worse than any published run of the cell can have been.

    None of n numbers is further from their mean than sqrt(n - 1) of their standard deviations.
    Each comes with the probability, by Fisher's exact test, that so many of all these runs are
    ours by chance.
    """
    from scipy.stats import hypergeom

    found = []
    for row in table[table["steps"] == protocol.steps].to_dict("records"):
        known = [each for each in protocol.published if not math.isnan(row.get(each, math.nan))]
        seeds = {source: about(source)["seeds"] for source in known}
        bounds = [row[each] - row[f"{each} sd"] * math.sqrt(n - 1) for each, n in seeds.items()]
        count = sum(final < min(bounds) for final in row["runs"]) if known else 0
        if count:
            theirs = sum(seeds.values())
            chance = hypergeom.sf(count - 1, theirs + row["seeds"], row["seeds"], count)
            found.append(row | dict(count=count, bound=min(bounds), theirs=theirs, chance=chance))
    return found


def verdict(row: Mapping[str, Any], source: str) -> str:
    """Where our mean is: above theirs, within one of their standard deviations below, or below.

    Nothing of fewer than three seeds: with one, an algorithm that is half a deviation worse would
    be above or within in 69 % of cases.
    """
    if row["seeds"] < 3 or math.isnan(row.get(source, math.nan)):
        return ""
    difference = (row[f"{source} ours"] - row[source]) / row[f"{source} sd"]
    return "above" if difference >= 0 else "within 1 sd" if difference >= -1 else "below"


# ------------------------------------------------------------------------------------- scores


def anchor(protocol: Protocol, environment: str) -> float:
    """The return with a score of 1; NaN if there is none.

    The one that published.toml gives, or the best that its sources publish for its algorithms
    after as many steps.
    """
    given = about("Score of 1").get(nameof(environment))
    cells = [
        published(source, algorithm, environment).get(protocol.steps)
        for source in protocol.published
        for algorithm in protocol.algorithms
    ]
    return given or max((cell[0] for cell in cells if cell), default=math.nan)


def scores(protocol: Protocol, data: pd.DataFrame) -> pd.DataFrame:
    """Of each algorithm and variant the interquartile mean over environments of their scores.

    The score of a run is its final return on a scale on which random actions have 0 and `anchor`
    has 1. A quarter of the environments' means, rounded down, is left out at either end. Only
    environments count in which all have finished runs. The table is empty if these are fewer than
    two, or if there is nothing to compare. The interval is from the bootstrap with the environments
    as strata, if all have five runs or more, and NaN otherwise.
    """
    ways = [*product(protocol.algorithms, protocol.variant_names)]
    per_epoch = protocol.arguments["steps_per_epoch"]
    runs = performance(data, protocol.steps, protocol.measure, per_epoch)
    rows = []
    common = common_environments(protocol, runs)
    for algorithm, variant in ways if len(ways) > 1 and len(common) > 1 else []:
        strata = []
        for environment in common:
            [[nothing, _]] = published(RANDOM, "random", environment).values()
            returns = runs[algorithm, environment, variant].to_numpy()
            strata.append((returns - nothing) / (anchor(protocol, environment) - nothing))
        low, high = _bootstrapped(strata)
        row = dict(algorithm=algorithm, variant=variant, score=_interquartile_mean(*strata))
        rows.append(row | dict(low=low, high=high, runs=sum(map(len, strata))))
    return pd.DataFrame(rows)


def common_environments(protocol: Protocol, runs: pd.Series) -> list[str]:
    """Those with an anchor in which each algorithm and variant has finished runs."""
    ways = [*product(protocol.algorithms, protocol.variant_names)]
    return [
        environment
        for environment in protocol.environments
        if not math.isnan(anchor(protocol, environment))
        and all((algorithm, environment, variant) in runs for algorithm, variant in ways)
    ]


def _interquartile_mean(*strata, axis=0):
    from scipy.stats import trim_mean

    return trim_mean([each.mean(axis=axis) for each in strata], 0.25, axis=0)


def _bootstrapped(strata):
    from scipy.stats import bootstrap

    if min(map(len, strata)) < 5:
        return math.nan, math.nan
    settings = dict(method="percentile", vectorized=True, rng=np.random.default_rng(0))
    result = bootstrap(strata, _interquartile_mean, n_resamples=RESAMPLES, **settings)
    return tuple(result.confidence_interval)
