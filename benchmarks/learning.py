"""Learning curves over seeds, beside those that others have published.

    python benchmarks/learning.py run on-policy --workers 2   # train what is missing
    python benchmarks/learning.py collect on-policy           # what was logged, into one CSV file
    python benchmarks/learning.py evaluate procgen            # let the final agents play elsewhere
    python benchmarks/learning.py report on-policy            # tables and figures from these files
    python benchmarks/learning.py random on-policy            # what random actions reach
    python benchmarks/learning.py status                      # which runs of all are finished

learning.toml says what each protocol trains, published.toml what others have reached.
"""

import argparse
import math
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import pandas as pd
from throughput import markdown_table

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "learning"
KEYS = ["algorithm", "environment", "variant", "seed"]
COLUMNS = [*KEYS, "interactions", "return"]
EVALUATED = [*KEYS, "evaluation", "episodes", "return"]
RANDOM = "Random actions"
RESAMPLES = 2000  # of the bootstrap
SMOOTHED = 11  # epochs of a figure's curves, or a twentieth of the run if that is less
VERBS = ["run", "collect", "evaluate", "report", "random", "status"]


@dataclass(frozen=True)
class Protocol:
    """What is trained, and beside what it is shown; see learning.toml."""

    name: str
    algorithms: list[str]
    environments: list[str]
    seeds: list[int]
    steps: int
    arguments: dict[str, Any]
    only: dict[str, dict[str, Any]] = field(default_factory=dict)
    variants: dict[str, list] = field(default_factory=dict)
    evaluations: dict[str, dict[str, Any]] = field(default_factory=dict)
    published: list[str] = field(default_factory=list)
    preset: str | None = None
    continues: str | None = None

    @property
    def directory(self) -> str:
        """The name of the directory of its runs, and of the file of their results."""
        return self.continues or self.name

    @property
    def variant_names(self) -> list[str]:
        """The values that are compared; an empty one if none are."""
        [values] = self.variants.values() or [[""]]
        return [*map(str, values)]

    def run_directory(self, algorithm: str, environment: str, variant: str, seed: int) -> str:
        """Where one of its runs is, as ExperimentGrid names it."""
        from spinup_tf2.utils.run_utils import valid_str

        parts = [self.directory, algorithm, valid_str(environment), variant]
        name = "_".join(part for part in parts if part)
        return f"{name}/{name}_s{seed}"

    def runs(self) -> Iterator[tuple[str, str, str, int]]:
        """(algorithm, environment, variant, seed) of each of its runs, first seeds first."""
        for seed in self.seeds:
            for algorithm in self.algorithms:
                for environment in self.environments:
                    for variant in self.variant_names:
                        yield algorithm, environment, variant, seed


def protocols() -> dict[str, Protocol]:
    """All of learning.toml."""
    tables = tomllib.loads((HERE / "learning.toml").read_text(encoding="utf-8"))
    return {name: Protocol(name, **table) for name, table in tables.items()}


def published(source: str, algorithm: str, environment: str) -> dict[int, tuple[float, float]]:
    """{steps: (mean, standard deviation)} of a source; empty if it has none."""
    rows = _published_tables()[source].get(environment.partition("-")[0], {}).get(algorithm, {})
    return {int(steps): tuple(cell) for steps, cell in rows.items()}


@cache
def _published_tables():
    return tomllib.loads((HERE / "published.toml").read_text(encoding="utf-8"))


# ------------------------------------------------------------------------------------ training


def run(protocol: Protocol, data_dir: Path, workers: int) -> None:
    """Train what is missing of a protocol; runs that were stopped go on.

    What has been collected already is not missing, wherever it was trained.
    """
    from spinup_tf2.experiments.presets import load

    import spinup_tf2
    from spinup_tf2.errors import ExperimentsFailed, Interrupted
    from spinup_tf2.utils.run_utils import ExperimentGrid

    done = finished(protocol)
    missing = [key for key in protocol.runs() if key not in done]
    print(f"{protocol.name}: {len(missing)} runs are missing.")
    if not missing:
        return

    class Missing(ExperimentGrid):
        def variants(self):
            return [complete(variant) for variant in super().variants() if key(variant) in missing]

    def key(variant):
        own = [str(variant[name]) for name in protocol.variants] or [""]
        return variant["algorithm"].__name__, variant["env_name"], *own, variant["seed"]

    def complete(variant):
        algorithm, environment, *_ = key(variant)
        own = variant | protocol.only.get(algorithm, {})
        if protocol.preset is None:
            return own
        return load(algorithm, protocol.preset, environment).arguments | own

    per_epoch = protocol.arguments["steps_per_epoch"]
    base = dict(protocol.arguments, epochs=math.ceil(protocol.steps / per_epoch), resume=True)
    grid = Missing(protocol.directory, base)
    grid.add("seed", protocol.seeds)
    functions = [getattr(spinup_tf2, name) for name in protocol.algorithms]
    grid.add("algorithm", functions, "", in_name=True)
    grid.add("env_name", protocol.environments, "", in_name=True)
    for name, values in protocol.variants.items():
        grid.add(name, values, "", in_name=True)
    workers = min(workers, len(missing))
    options = dict(preset=protocol.preset, workers=workers, skip_finished=True)
    try:
        grid.run("algorithm", data_dir=data_dir, **options)
    except Interrupted as stopped:
        sys.exit(stopped.status)
    except ExperimentsFailed:
        sys.exit(1)  # the summary has named them


def collect(protocol: Protocol, data_dir: Path) -> Path:
    """Write what the runs of a protocol have logged so far to its CSV file; returns its path.

    A row for each epoch with a return, that of the test episodes if there are any, and for the last
    epoch in any case, which says how far the run has come. Of runs that are not in `data_dir`, or
    have not come as far there, what the file holds already stays. Where a run has other numbers
    than the file, these replace it, and what `evaluate` has found out about its agent is dropped.
    """
    from spinup_tf2.utils.plot import get_datasets

    path = file_of(protocol)
    tables = dict(iter(read(protocol).groupby(KEYS, sort=False))) if path.exists() else {}
    found, replaced = False, []
    for key in protocol.runs():
        for rows in get_datasets(data_dir / protocol.run_directory(*key)):
            found = True
            logged = [rows["TotalEnvInteracts"], rows["Performance"]]
            table = pd.DataFrame(dict(zip(COLUMNS, [*key, *logged], strict=True)))
            table = table[table["return"].notna() | (table.index == table.index[-1])]
            if key not in tables or _newer(table, tables[key]):
                tables[key] = table
                replaced.append(key)
    if not found:
        sys.exit(f"There are no runs of {protocol.name} in {data_dir}; train them first (run).")
    RESULTS.mkdir(parents=True, exist_ok=True)
    _write(pd.concat(tables.values()), path)
    if evaluations_of(protocol).exists():
        known = _read(evaluations_of(protocol))
        stale = [key in replaced for key in known[KEYS].itertuples(index=False, name=None)]
        _write(known[~np.array(stale, bool)], evaluations_of(protocol))
    return path


def _newer(table, collected):
    """Whether a run has come at least as far as what was collected of it, with other numbers."""
    steps, returns = (table[name].to_numpy() for name in COLUMNS[-2:])
    if len(table) != len(collected):
        return steps[-1] >= collected["interactions"].iloc[-1]
    return not np.allclose(returns, collected["return"], rtol=1e-4, equal_nan=True)


def _write(table, path):
    from spinup_tf2.files.run_directory import atomic_output

    with atomic_output(path) as temporary:  # a full disk leaves what was there
        table.to_csv(temporary, index=False, float_format="%.5g", lineterminator="\n")


def file_of(protocol: Protocol) -> Path:
    """The CSV file of the results of a protocol, and of those that continue it."""
    return RESULTS / f"{protocol.directory}.csv"


def finished(protocol: Protocol) -> set[tuple]:
    """The runs of a protocol that its CSV file holds to their end."""
    if not file_of(protocol).exists():
        return set()
    last = read(protocol).groupby(KEYS)["interactions"].max()
    return {*last[last >= 0.99 * protocol.steps].index}


def evaluate(protocol: Protocol, data_dir: Path, episodes: int = 200) -> Path:
    """Let the agents of finished runs play with sampled actions, once for each of `evaluations`.

    Writes a row for each to a CSV file, whose path it returns. What that holds already stays.
    """
    from spinup_tf2.cli.evaluate import evaluate_run

    if not protocol.evaluations:
        sys.exit(f"learning.toml names no evaluations of {protocol.name}.")
    path = evaluations_of(protocol)
    table = _read(path) if path.exists() else pd.DataFrame(columns=EVALUATED)
    known = {*table[[*KEYS, "evaluation"]].itertuples(index=False, name=None)}
    done = finished(protocol)
    for key in (key for key in protocol.runs() if key in done):
        directory = data_dir / protocol.run_directory(*key)
        for name, env_kwargs in protocol.evaluations.items():
            if (*key, name) in known or not directory.exists():
                continue
            row = evaluate_run(directory, episodes, env_kwargs=env_kwargs)["sampled"]
            table.loc[len(table)] = [*key, name, row["Episodes"], row["EpRet"]]
            _write(table, path)
    if table.empty:
        sys.exit(f"No run of {protocol.name} in {data_dir} is finished and collected.")
    return path


def evaluations_of(protocol: Protocol) -> Path:
    """The CSV file of what the final agents of a protocol reach."""
    return RESULTS / f"{protocol.name}-evaluated.csv"


def random_returns(protocol: Protocol, episodes: int = 100) -> str:
    """The mean returns of random actions and their deviations, as lines of published.toml."""
    from spinup_tf2.envs.making import EnvFn

    lines = []
    for environment in protocol.environments:
        env, returns = EnvFn(environment, protocol.arguments.get("env_kwargs"))(), []
        env.action_space.seed(0)
        for episode in range(episodes):
            env.reset(seed=episode)
            total, over = 0.0, False
            while not over:
                _, rew, terminated, truncated, _ = env.step(env.action_space.sample())
                total, over = total + float(rew), terminated or truncated
            returns.append(total)
        numbers = f"random = {{0 = [{np.mean(returns):.1f}, {np.std(returns):.1f}]}}"
        lines += [f'["{RANDOM}"."{environment.partition("-")[0]}"]', numbers]
    return "\n".join(lines)


# ------------------------------------------------------------------------------------- results


def read(protocol: Protocol) -> pd.DataFrame:
    """What `collect` has written."""
    path = file_of(protocol)
    if not path.exists():
        sys.exit(f"There is no {path}; collect the results of {protocol.name} first.")
    return _read(path)


def _read(path):
    missing = {"return": ""}
    return pd.read_csv(path, keep_default_na=False, na_values=missing, dtype={"variant": str})


def performance(data: pd.DataFrame, steps: int) -> pd.Series:
    """For each run that has come as far as `steps`: its mean return over the last tenth of these.

    Published curves are smoothed over 11 epochs; this is smoother, and later by a twentieth.
    """
    reached = data.groupby(KEYS)["interactions"].transform("max") >= 0.99 * steps
    tail = data[reached & data["interactions"].between(0.9 * steps, steps, inclusive="right")]
    return tail.groupby(KEYS)["return"].mean()


def cells(protocol: Protocol, data: pd.DataFrame) -> pd.DataFrame:
    """A row for each algorithm, environment, variant and number of steps.

    The number of steps is the protocol's own, and those that were published.
    Columns: `mean`, `low`, `high` (see `interval`), `sd`, `seeds`, and of each source its mean,
    deviation and `better`, the probability that a run of ours is better than one of theirs, which
    are taken to be normal.
    """
    from scipy.stats import norm

    rows = []
    finals_at = cache(partial(performance, data))
    for environment in protocol.environments:
        for algorithm in protocol.algorithms:
            theirs = {s: published(s, algorithm, environment) for s in protocol.published}
            at = {protocol.steps} | {n for each in theirs.values() for n in each}
            for steps in sorted(n for n in at if n <= 1.01 * protocol.steps):
                finals = finals_at(steps)
                for variant in protocol.variant_names:
                    key = (algorithm, environment, variant)
                    runs = finals[key].to_numpy() if key in finals else np.empty(0)
                    low, high = interval(runs)
                    row = dict(zip(COLUMNS, key, strict=False), steps=steps, seeds=len(runs))
                    row |= dict(mean=_mean(runs), low=low, high=high, sd=math.nan)
                    if len(runs):
                        row["sd"] = np.std(runs, ddof=len(runs) > 1)
                    for source, cell in theirs.items():
                        if steps in cell:
                            mean, sd = row[source], row[f"{source} sd"] = cell[steps]
                            if len(runs):
                                row[f"{source} better"] = norm.cdf((runs - mean) / sd).mean()
                    rows.append(row)
    return pd.DataFrame(rows)


def _mean(runs):
    return np.mean(runs) if len(runs) else math.nan


def interval(runs: np.ndarray) -> tuple[float, float]:
    """The 95 % confidence interval of the mean of runs, by Student's t; NaN of fewer than three.

    The bootstrap over three runs would be their range, which holds the true mean in three cases
    out of four only.
    """
    from scipy.stats import sem, t

    if len(runs) < 3:
        return math.nan, math.nan
    half = sem(runs) * t.ppf(0.975, len(runs) - 1)
    return _mean(runs) - half, _mean(runs) + half


def verdict(row: Mapping[str, Any], source: str) -> str:
    """Where our mean is: above theirs, within one of their standard deviations below, or below."""
    if not row["seeds"] or math.isnan(row.get(source, math.nan)):
        return ""
    difference = (row["mean"] - row[source]) / row[f"{source} sd"]
    return "above" if difference >= 0 else "within 1 sd" if difference >= -1 else "below"


def markdown(protocol: Protocol, table: pd.DataFrame) -> str:
    """The cells as a table in Markdown, and what share of them is not below the published ones."""
    sources = [source for source in protocol.published if source in table]
    head = ["environment", "algorithm", *protocol.variants, "steps", "return", "95 % CI", "seeds"]
    for source in sources:
        head += [source, ""]
    lines = []
    for row in table.to_dict("records"):
        line = [row["environment"], row["algorithm"], *([row["variant"]] * len(protocol.variants))]
        line.append(f"{row['steps']:,}")
        mean = rounded(row["mean"]) if row["seeds"] else "not finished"
        line += [mean, _between(row["low"], row["high"]), str(row["seeds"])]
        for source in sources:
            known = not math.isnan(row[source])
            mean, deviation = rounded(row[source]), rounded(row[f"{source} sd"])
            line += [f"{mean} ± {deviation}" if known else "-"]
            line += [verdict(row, source)]
        lines.append(line)
    text = f"{markdown_table(head, lines)}\n"
    for source in sources:
        for variant, part in table.groupby("variant", sort=False):
            text += _beside(source, variant, part[part["seeds"] > 0].dropna(subset=source))
    return text


def rounded(x: float) -> str:
    """A return in a table: three digits, and all of those before the point."""
    return f"{x:.0f}" if abs(x) >= 100 else f"{x:.3g}"


def _between(low, high, write=rounded):
    """An interval in a table; nothing if there is none."""
    return "" if math.isnan(low) else f"{write(low)} to {write(high)}"


def _beside(source, variant, table):
    """In how many of the cells of a source ours are not below, in words; nothing without cells."""
    if table.empty:
        return ""

    def good(some):
        verdicts = [verdict(row, source) for row in some.to_dict("records")]
        return f"{len(verdicts) - verdicts.count('below')} of {len(verdicts)}"

    final = table[table["steps"] == table["steps"].max()]
    text = f"{source}{variant and f', {variant}'}: at {final['steps'].iloc[0]:,} steps, "
    text += f"{good(final)} measured cells are at least at the published mean less one standard "
    text += "deviation"
    if len(final) < len(table):
        text += f"; with the earlier numbers of steps, {good(table)}"
    better = final[f"{source} better"].mean()
    text += f". On average over the {'former' if len(final) < len(table) else 'cells'}, a run of "
    text += f"ours is better than a published one with probability {better:.2f}."
    return f"\n{text}\n"


def scores(protocol: Protocol, data: pd.DataFrame) -> str:
    """Of each algorithm and variant the interquartile mean of all runs' normalised scores.

    The score of a run is its final return on a scale on which random actions have 0, and the best
    of our means in the same environment 1. Only environments in which all of them have finished
    runs count; nothing is written if there is none, or nothing to compare. The interval is from
    the bootstrap with the environments as strata, if there are several with three runs or more.
    """
    from scipy.stats import bootstrap, trim_mean

    def interquartile_mean(*strata, axis=0):
        return trim_mean(np.concatenate(strata, axis=axis), 0.25, axis=axis)

    runs = performance(data, protocol.steps).reset_index()
    ways = [group for _, group in runs.groupby(["algorithm", "variant"], sort=False)]
    wanted = len(protocol.algorithms) * len(protocol.variant_names)
    common = set.intersection(*(set(group["environment"]) for group in ways)) if ways else set()
    if not len(ways) == wanted > 1 or not common:
        return ""
    runs = runs[runs["environment"].isin(common)]
    best = runs.groupby(KEYS[:3])["return"].mean().groupby("environment").max()
    nothing = {env: published(RANDOM, "random", env)[0][0] for env in common}
    worst, best = (runs["environment"].map(each) for each in (nothing, best))
    runs = runs.assign(score=(runs["return"] - worst) / (best - worst))
    lines = []
    for (algorithm, variant), group in runs.groupby(["algorithm", "variant"], sort=False):
        strata = [part.to_numpy() for _, part in group.groupby("environment")["score"]]
        low = high = math.nan
        if len(strata) > 1 and min(map(len, strata)) >= 3:
            rng = np.random.default_rng(0)
            settings = dict(n_resamples=RESAMPLES, method="percentile", vectorized=True, rng=rng)
            low, high = bootstrap(strata, interquartile_mean, **settings).confidence_interval
        estimate = interquartile_mean(group["score"])
        span = _between(low, high, "{:.2f}".format)
        lines.append([algorithm, variant or "-", f"{estimate:.2f}", span, len(group)])
    head = ["algorithm", "variant", "IQM of scores", "95 % CI", "runs"]
    where = ", ".join(name for name in protocol.environments if name in common)
    return f"\n{markdown_table(head, lines)}\n\nScores are those in {where}.\n"


def evaluated(protocol: Protocol, table: pd.DataFrame) -> str:
    """A table in Markdown of what the final agents reach, a column for each of `evaluations`."""
    head = ["environment", "algorithm", *protocol.variants, "agents"]
    for name in protocol.evaluations:
        head += [name, "95 % CI"]
    lines = []
    for key, group in table.groupby(KEYS[:3], sort=False):
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


def figure(protocol: Protocol, data: pd.DataFrame, path: Path) -> None:
    """A panel for each environment, with a line for each algorithm; or, if variants are compared,
    for each environment and algorithm, with a line for each variant. Sources are markers.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    from spinup_tf2.results import look

    look.set_style("paper")
    names = protocol.variant_names if protocol.variants else _all_algorithms()
    colors = look.colors_for(names)
    markers = dict(zip(protocol.published, "os^D", strict=False))
    contents = _panels(protocol, data)
    fig = plt.figure(layout="constrained")
    handles, shown = {}, set()
    for axis, (title, lines) in zip(
        look.panels(fig, len(contents), "paper"), contents.items(), strict=True
    ):
        axis.set_title(title)
        look.label(axis, "TotalEnvInteracts", "Performance")
        for name, key in lines.items():
            if not _draw_curve(axis, protocol, data, key, colors[name]):
                continue
            text = name if protocol.variants else name.upper()
            handles[text] = Line2D([], [], color=colors[name])
            color = "0.3" if protocol.variants else colors[name]
            for number, (source, marker) in enumerate(markers.items()):
                shift = 0.012 * protocol.steps * (number - (len(markers) - 1) / 2)
                if _draw_published(axis, protocol, source, key, color, marker, shift):
                    shown.add(source)
        look.format_ticks(axis, "paper")
    for source in (source for source in markers if source in shown):
        handles[source] = Line2D([], [], color="0.3", marker=markers[source], ls="", mfc="w")
    look.shared_legend(fig, handles)
    look.save_figure(fig, path)
    plt.close(fig)


def _all_algorithms():
    """Those of all protocols, so that each has its colour in all figures."""
    return [*dict.fromkeys(name for each in protocols().values() for name in each.algorithms)]


def _panels(protocol, data):
    """{title: {name of a line: (algorithm, environment, variant)}} of what there is."""
    contents = {}
    for environment in protocol.environments:
        for algorithm in protocol.algorithms:
            for variant in protocol.variant_names:
                key = (algorithm, environment, variant)
                if (data[KEYS[:3]] == [*key]).all(axis=1).any():
                    title = environment
                    if protocol.variants:
                        title += f", {algorithm.upper()}"
                    contents.setdefault(title, {})[variant or algorithm] = key
    return contents


def _draw_curve(axis, protocol, data, key, color):
    """The mean of the finished runs and their range, or of those that there are; False if none.

    Only where all of them have come: the mean would jump at the end of one.
    """
    from spinup_tf2.results.statistics import align

    runs = data[(data[KEYS[:3]] == [*key]).all(axis=1)].dropna()
    runs = runs[runs["interactions"] <= protocol.steps]
    steps_per_epoch = protocol.arguments["steps_per_epoch"]
    window = max(1, min(SMOOTHED, protocol.steps // steps_per_epoch // 20))
    done = runs["seed"].isin(seed for *which, seed in finished(protocol) if which == [*key])
    curves = []
    for _, run in runs[done if done.any() else slice(None)].groupby("seed"):
        x, y = run["interactions"].to_numpy(), run["return"].to_numpy()
        curves.append((x, _smooth(x, y, steps_per_epoch, window)))
    if not curves:
        return False
    x, values = align(curves)
    everywhere = np.isfinite(values).all(axis=0)
    x, values = x[everywhere], values[:, everywhere]
    axis.plot(x, values.mean(axis=0), color=color)
    axis.fill_between(x, values.min(axis=0), values.max(axis=0), color=color, alpha=0.15, lw=0)
    return True


def _draw_published(axis, protocol, source, key, color, marker, shift):
    """The means and deviations of a source, moved sideways; whether it has any."""
    points = published(source, *key[:2])
    points = {n + shift: cell for n, cell in points.items() if n <= 1.01 * protocol.steps}
    if points:
        means, sds = zip(*points.values(), strict=True)
        axis.errorbar(
            [*points], means, sds, color=color, fmt=marker, ms=5, capsize=3, mfc="white", lw=1
        )
    return bool(points)


def _smooth(x, y, steps_per_epoch, epochs):
    """The mean of each row and its neighbours, as Spinning Up's figures show it."""
    if len(y) < epochs:
        return y
    near = np.abs(x[:, None] - x) < epochs / 2 * steps_per_epoch
    return near @ y / near.sum(axis=1)


def report(protocol: Protocol) -> None:
    """Write the tables of a protocol (.md, .csv) and its figure (.png), and print the tables."""
    data = read(protocol)
    table = cells(protocol, data)
    text = markdown(protocol, table)
    text += scores(protocol, data)
    if evaluations_of(protocol).exists():
        text += f"\n{evaluated(protocol, _read(evaluations_of(protocol)))}"
    out = RESULTS / protocol.name
    out.with_suffix(".md").write_text(text, encoding="utf-8")
    table.to_csv(RESULTS / f"{protocol.name}-table.csv", index=False, float_format="%.5g")
    figure(protocol, data, out.with_suffix(".png"))
    print(text)


def status(some_protocols: Mapping[str, Protocol]) -> str:
    """How many seeds are finished of each protocol, algorithm and environment, in Markdown."""
    lines = []
    for protocol in some_protocols.values():
        done = finished(protocol)
        for algorithm in protocol.algorithms:
            runs = []
            for environment in protocol.environments:
                keys = [key for key in protocol.runs() if key[:2] == (algorithm, environment)]
                count = sum(key in done for key in keys)
                name = environment.partition("-")[0]
                runs.append(f"{name} {count} of {len(keys)}" if count else f"{name} not finished")
            lines.append([protocol.name, algorithm, f"{protocol.steps:,}", ", ".join(runs)])
    return f"{markdown_table(['protocol', 'algorithm', 'steps', 'finished runs'], lines)}\n"


def main() -> None:
    known = protocols()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verb", choices=VERBS)
    parser.add_argument("protocols", nargs="*", metavar="protocol", help=", ".join(known))
    parser.add_argument("--workers", type=int, default=1, help="runs at a time; default 1")
    parser.add_argument(
        "--data_dir",
        type=Path,
        default=HERE.parent / "data" / "learning",
        help="where the runs are",
    )
    args = parser.parse_args()
    unknown = [name for name in args.protocols if name not in known]
    if unknown:
        parser.error(f"there is no protocol {unknown[0]}; there are {', '.join(known)}")
    if args.verb == "status":
        text = status({name: known[name] for name in args.protocols or known})
        if not args.protocols:
            (RESULTS / "status.md").write_text(text, encoding="utf-8")
        print(text)
        return
    if not args.protocols:
        parser.error(f"name a protocol: {', '.join(known)}")
    for name in args.protocols:
        if args.verb == "run":
            run(known[name], args.data_dir, args.workers)
        elif args.verb == "collect":
            print(collect(known[name], args.data_dir))
        elif args.verb == "evaluate":
            print(evaluate(known[name], args.data_dir))
        elif args.verb == "random":
            print(random_returns(known[name]))
        else:
            report(known[name])


if __name__ == "__main__":
    from spinup_tf2.files.printing import lose_lines

    lose_lines(BrokenPipeError)  # of `status | head`
    main()
