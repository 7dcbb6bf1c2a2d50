"""Statistics and tables of the learning benchmark, from its CSV files alone."""

import math
from collections.abc import Mapping
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from learning_data import (
    CELL,
    KEYS,
    RANDOM,
    Protocol,
    about,
    file_of,
    nameof,
    protocols,
    published,
    read,
)
from throughput import markdown_table

SMOOTHED = 11  # epochs, of Spinning Up's curves
BETWEEN_TESTS = 30_000  # steps, of Tianshou
RESAMPLES = 2000  # of the bootstrap
UNFOLDED = 8  # rows of a table that is not folded up
OTHERS = ["SLM-Lab", "RL Baselines3 Zoo", "CleanRL", "Tianshou"]

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
    """A point of Spinning Up's curves: the mean over eleven epochs, at the end over the last six."""
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


def scores(protocol: Protocol, data: pd.DataFrame) -> str:
    """Of each algorithm and variant the interquartile mean over environments, as a table.

    The score of a run is its final return on a scale on which random actions have 0 and `anchor`
    has 1. A quarter of the environments' means, rounded down, is left out at either end. Only
    environments count in which all have finished runs; nothing is written of fewer than two, or
    if there is nothing to compare. The interval is from the bootstrap with the environments as
    strata, if all have five runs or more.
    """
    from scipy.stats import bootstrap, trim_mean

    def interquartile_mean(*strata, axis=0):
        return trim_mean([each.mean(axis=axis) for each in strata], 0.25, axis=0)

    per_epoch = protocol.arguments["steps_per_epoch"]
    runs = performance(data, protocol.steps, protocol.measure, per_epoch)
    anchors = {env: anchor(protocol, env) for env in protocol.environments}
    anchors = {env: at for env, at in anchors.items() if not math.isnan(at)}
    runs = runs.rename_axis(KEYS).rename("return").reset_index()
    ways = [group for _, group in runs.groupby(["algorithm", "variant"], sort=False)]
    common = set(anchors).intersection(*(group["environment"] for group in ways))
    wanted = len(protocol.algorithms) * len(protocol.variant_names)
    if len(common) < 2 or not len(ways) == wanted > 1:
        return ""
    runs = runs[runs["environment"].isin(common)]
    nothing = {env: published(RANDOM, "random", env)[0][0] for env in common}
    worst, best = (runs["environment"].map(each) for each in (nothing, anchors))
    runs = runs.assign(score=(runs["return"] - worst) / (best - worst))
    lines = []
    for algorithm, variant in product(protocol.algorithms, protocol.variant_names):
        group = runs[(runs["algorithm"] == algorithm) & (runs["variant"] == variant)]
        strata = [part.to_numpy() for _, part in group.groupby("environment")["score"]]
        low = high = math.nan
        if min(map(len, strata)) >= 5:
            rng = np.random.default_rng(0)
            settings = dict(n_resamples=RESAMPLES, method="percentile", vectorized=True, rng=rng)
            low, high = bootstrap(strata, interquartile_mean, **settings).confidence_interval
        estimate = interquartile_mean(*strata)
        span = _between(low, high, "{:.2f}".format)
        lines.append([algorithm, variant or "-", f"{estimate:.2f}", span, len(group)])
    head = ["algorithm", "variant", "IQM of scores", "95 % CI", "runs"]
    where = ", ".join(
        f"{rounded(anchors[name])} in {name}" for name in protocol.environments if name in common
    )
    return f"{markdown_table(head, lines)}\n\nReturns with a score of 1: {where}.\n"


# ------------------------------------------------------------------------------------- tables


def markdown(protocol: Protocol, table: pd.DataFrame, data: pd.DataFrame) -> str:
    """The pooled differences, the scores, the cells, and what is to be said of them."""
    if table.empty:
        return f"No run of {protocol.name} is finished.\n"
    parts = [_pooled_table(protocol, table), scores(protocol, data)]
    parts += [_cell_table(protocol, table, data), _outlier_lines(protocol, table)]
    return "\n".join(part for part in parts if part)


def _pooled_table(protocol, table):
    rows = pooled(protocol, table)
    if rows.empty or (rows["cells"] < 2).all():
        return ""
    head = ["algorithm", *protocol.variants, "beside", "environments", "pooled difference"]
    lines = [
        [row["algorithm"], *[row["variant"]] * len(protocol.variants), row["source"]]
        + [row["cells"], _difference(row)]
        for row in rows.to_dict("records")
    ]
    return f"{markdown_table(head, lines)}\n"


def _difference(row):
    """A pooled difference and its interval."""
    return "{difference:+.2f} ({low:+.2f} to {high:+.2f})".format(**row)


def _cell_table(protocol, table, data):
    sources = [source for source in protocol.published if source in table]
    goals = {env: about("Solved").get(nameof(env)) for env in protocol.environments}
    head = ["environment", "algorithm", *protocol.variants, "steps", "return", "95 % CI"]
    head += ["seeds", "", *["solved"] * any(map(bool, goals.values()))]
    for source in sources:
        head += [source, ""]
    lines = []
    for row in table.to_dict("records"):
        line = [row["environment"], row["algorithm"], *[row["variant"]] * len(protocol.variants)]
        line += [f"{row['steps']:,}", rounded(row["mean"]), _between(row["low"], row["high"])]
        line += [row["seeds"], ", ".join(map(rounded, row["runs"])) if row["seeds"] > 1 else ""]
        if "solved" in head:
            line.append(_solved(data, row, goals[row["environment"]]))
        for source in sources:
            line += [_theirs(row, source), _words(protocol, row, source)]
        lines.append(line)
    return _folded(markdown_table(head, lines), len(lines))


def _folded(table, rows):
    """A long table, folded up until the reader asks for it."""
    if rows <= UNFOLDED:
        return f"{table}\n"
    return f"<details><summary>{rows} rows</summary>\n\n{table}\n\n</details>\n"


def _solved(data, row, goal):
    """How many finished runs have reached the goal within these steps, and after how many."""
    if goal is None:
        return ""
    runs = data[(data[CELL] == [row[name] for name in CELL]).all(axis=1)]
    end = runs.groupby("seed")["interactions"].transform("max")
    runs = runs[(end >= 0.99 * row["steps"]) & (runs["interactions"] <= row["steps"])]
    first = runs[runs["return"] >= goal].groupby("seed")["interactions"].min()
    text = f"{len(first)} of {runs['seed'].nunique()}"
    if first.empty:
        return text
    when = dict.fromkeys(f"{steps:,}" for steps in (first.min(), first.max()))
    return f"{text}, after {' to '.join(when)}"


def _theirs(row, source):
    """The mean of a source and its standard deviation."""
    if math.isnan(row[source]):
        return "-"
    return f"{rounded(row[source])} ± {rounded(row[f'{source} sd'])}"


def _words(protocol, row, source):
    """The verdict, and our mean as this source measures it if that is another number."""
    words = [verdict(row, source)]
    if about(source)["measure"] != protocol.measure and not math.isnan(row[source]):
        words.insert(0, f"ours: {rounded(row[f'{source} ours'])}")
    return ", ".join(word for word in words if word)


def _outlier_lines(protocol, table):
    lines = []
    for row in outliers(protocol, table):
        way = " ".join(word for word in (row["algorithm"].upper(), row["variant"]) if word)
        runs = "run is" if row["seeds"] == 1 else "runs is" if row["count"] == 1 else "runs are"
        lines.append(
            f"{way} in {row['environment']}: {row['count']} of {row['seeds']} {runs} below "
            f"{row['bound']:,.0f}, as none of the {row['theirs']} published runs can have been "
            f"(p = {row['chance']:.2g}).\n"
        )
    return "\n".join(lines)


def rounded(x: float) -> str:
    """A return in a table: three digits, and all of those before the point."""
    return f"{x:.0f}" if abs(x) >= 100 else f"{x:.3g}"


def _between(low, high, write=rounded):
    """An interval in a table; nothing if there is none."""
    return "" if math.isnan(low) else f"{write(low)} to {write(high)}"


def evaluated(protocol: Protocol, table: pd.DataFrame) -> str:
    """A table in Markdown of what the final agents reach, a column for each of `evaluations`."""
    head = ["environment", "algorithm", *protocol.variants, "agents"]
    for name in protocol.evaluations:
        head += [name, "95 % CI"]
    lines = []
    for key, group in table.groupby(CELL, sort=False):
        algorithm, environment, variant = key
        line = [environment, algorithm, *([variant] * len(protocol.variants))]
        of_each = [
            group.loc[group["evaluation"] == name, "return"] for name in protocol.evaluations
        ]
        # Several numbers, in the order of the columns, if the evaluation was stopped in between.
        line.append(", ".join(map(str, dict.fromkeys(map(len, of_each)))))
        for returns in of_each:
            span = _between(*interval(returns.to_numpy()), "{:.2f}".format)
            line += [f"{returns.mean():.2f}" if len(returns) else "-", span]
        lines.append(line)
    return f"{markdown_table(head, lines)}\n"


# -------------------------------------------------------------------------- of all protocols


def overview(names: tuple[str, ...] = ("on-policy", "off-policy")) -> str:
    """Algorithms by environments: our returns at the end, and the published ones below them."""
    lines = []
    for protocol in (protocols()[name] for name in names):
        if not file_of(protocol).exists():
            continue
        table = cells(protocol, read(protocol))
        table = table[table["steps"] == protocol.steps] if len(table) else table
        differences = pooled(protocol, table) if len(table) else table
        head = ["algorithm", "returns of", *protocol.environments, "pooled difference"]
        for algorithm in protocol.algorithms:
            of_all = {
                row["environment"]: row
                for row in table.to_dict("records")
                if row["algorithm"] == algorithm
            }
            if not of_all:
                continue
            ours = [_ours(of_all.get(environment)) for environment in protocol.environments]
            lines.append([f"{algorithm.upper()}, {protocol.steps:,} steps", "ours", *ours, ""])
            for row in differences[differences["algorithm"] == algorithm].to_dict("records"):
                source = row["source"]
                theirs = [
                    _beside(source, algorithm, environment, protocol.steps, of_all)
                    for environment in protocol.environments
                ]
                lines.append(["", source, *theirs, _difference(row)])
    return f"{markdown_table(head, lines)}\n" if lines else "No run is finished.\n"


def _ours(row):
    if row is None:
        return "-"
    return f"{rounded(row['mean'])} ({row['seeds']} seed{'s' * (row['seeds'] > 1)})"


def _beside(source, algorithm, environment, steps, of_all):
    """A published cell of the overview, and the verdict."""
    cell = published(source, algorithm, environment).get(steps)
    if cell is None:
        return "-"
    text = " ± ".join(map(rounded, cell))
    word = verdict(of_all[environment], source) if environment in of_all else ""
    return f"{text}, {word}" if word else text


def references(names: tuple[str, ...]) -> str:
    """Our returns at the end beside those of other libraries, after how many steps ever."""
    ours = {}
    for protocol in (protocols()[name] for name in names):
        table = cells(protocol, read(protocol)) if file_of(protocol).exists() else pd.DataFrame()
        for row in table.to_dict("records"):
            if row["steps"] == protocol.steps:
                preset = f", preset {protocol.preset}" if protocol.preset else ""
                text = f"{rounded(row['mean'])} ({_short(row['steps'])}{preset})"
                ours.setdefault((row["environment"], row["algorithm"]), []).append(text)
    lines = []
    environments = [*dict.fromkeys(environment for environment, _ in ours)]
    for environment, algorithm in sorted(ours, key=lambda key: environments.index(key[0])):
        theirs = []
        for source in OTHERS:
            at = published(source, algorithm, environment).items()
            theirs.append("; ".join(f"{rounded(cell[0])} ({_short(n)})" for n, cell in at) or "-")
        if {*theirs} != {"-"}:
            lines.append([environment, algorithm, "; ".join(ours[environment, algorithm]), *theirs])
    return _folded(markdown_table(["environment", "algorithm", "ours", *OTHERS], lines), len(lines))


def _short(steps):
    """500,000 as 500k, and 3,000,000 as 3M."""
    return f"{steps / 1e6:g}M" if steps >= 1e6 else f"{steps / 1e3:g}k"
