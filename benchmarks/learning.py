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
    import spinup_tf2
    from spinup_tf2.errors import ExperimentsFailed, Interrupted
    from spinup_tf2.presets import load
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
    have not come as far there, what the file holds already stays.
    """
    from spinup_tf2.utils.plot import get_datasets

    path = file_of(protocol)
    tables = dict(iter(read(protocol).groupby(KEYS, sort=False))) if path.exists() else {}
    found = False
    for key in protocol.runs():
        for rows in get_datasets(data_dir / protocol.run_directory(*key)):
            found = True
            logged = [rows["TotalEnvInteracts"], rows["Performance"]]
            table = pd.DataFrame(dict(zip(COLUMNS, [*key, *logged], strict=True)))
            table = table[table["return"].notna() | (table.index == table.index[-1])]
            if key not in tables or len(table) > len(tables[key]):
                tables[key] = table
    if not found:
        sys.exit(f"There are no runs of {protocol.name} in {data_dir}; train them first (run).")
    RESULTS.mkdir(parents=True, exist_ok=True)
    pd.concat(tables.values()).to_csv(path, index=False, float_format="%.5g", lineterminator="\n")
    return path


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
            table.to_csv(path, index=False, float_format="%.5g", lineterminator="\n")
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
    Columns: `mean`, `low`, `high` (95 % interval of the mean, percentile bootstrap over the seeds),
    `sd`, `seeds`, and of each source its mean, deviation and `better`, the probability that a run
    of ours is better than one of theirs, which are taken to be normal.
    """
    from scipy.stats import norm

    from spinup_tf2.results.statistics import summarize

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
                    row = dict(zip(COLUMNS, key, strict=False), steps=steps, seeds=len(runs))
                    if len(runs):
                        summary = summarize(runs[:, None], "mean", "ci")
                        row |= {"mean": summary.estimate[0], "sd": np.std(runs, ddof=len(runs) > 1)}
                        row |= dict(low=summary.low[0], high=summary.high[0])
                    for source, cell in theirs.items():
                        if steps in cell:
                            mean, sd = row[source], row[f"{source} sd"] = cell[steps]
                            if len(runs):
                                row[f"{source} better"] = norm.cdf((runs - mean) / sd).mean()
                    rows.append(row)
    return pd.DataFrame(rows)


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
        if row["seeds"]:
            interval = (
                f"{rounded(row['low'])} to {rounded(row['high'])}" if row["seeds"] > 1 else ""
            )
            line += [rounded(row["mean"]), interval, str(row["seeds"])]
        else:
            line += ["not run", "", "0"]
        for source in sources:
            known = not math.isnan(row[source])
            mean, deviation = rounded(row[source]), rounded(row[f"{source} sd"])
            line += [f"{mean} ± {deviation}" if known else "-"]
            line += [verdict(row, source)]
        lines.append(line)
    text = f"{markdown_table(head, lines)}\n"
    for source in sources:
        verdicts = [verdict(row, source) for row in table.to_dict("records")]
        known = [each for each in verdicts if each]
        if known:
            good = sum(each != "below" for each in known)
            better = table[f"{source} better"].mean()
            text += (
                f"\n{source}: {good} of {len(known)} measured cells at least at its mean less one "
                f"standard deviation; a run of ours is better than one of its with probability "
                f"{better:.2f}, on average over the cells.\n"
            )
    return text


def rounded(x: float) -> str:
    """A return in a table: three digits, and all of those before the point."""
    return f"{x:.0f}" if abs(x) >= 100 else f"{x:.3g}"


def scores(protocol: Protocol, table: pd.DataFrame, data: pd.DataFrame) -> str:
    """Of each algorithm and variant the interquartile mean of all runs' normalised scores.

    The score of a run is its final return on a scale on which random actions have 0, and the best
    mean of the protocol in the same environment 1.
    """
    from spinup_tf2.results.statistics import summarize

    final = table[(table["steps"] == protocol.steps) & (table["seeds"] > 0)]
    best = final.groupby("environment")["mean"].max()
    runs = performance(data, protocol.steps).reset_index()
    nothing = {env: published(RANDOM, "random", env)[0][0] for env in best.index}
    worst, best = (runs["environment"].map(each) for each in (nothing, best))
    runs["score"] = (runs["return"] - worst) / (best - worst)
    lines = []
    for (algorithm, variant), group in runs.groupby(["algorithm", "variant"], sort=False):
        estimate, low, high = (
            array[0] for array in summarize(group["score"].to_numpy()[:, None], "iqm", "ci")
        )
        interval = f"{low:.2f} to {high:.2f}" if len(group) > 1 else ""
        lines.append([algorithm, variant or "-", f"{estimate:.2f}", interval, len(group)])
    head = ["algorithm", "variant", "IQM of scores", "95 % CI", "runs"]
    return f"{markdown_table(head, lines)}\n"


def evaluated(protocol: Protocol, table: pd.DataFrame) -> str:
    """A table in Markdown of what the final agents reach, a column for each of `evaluations`."""
    from spinup_tf2.results.statistics import summarize

    head = ["environment", "algorithm", *protocol.variants, "agents"]
    for name in protocol.evaluations:
        head += [name, "95 % CI"]
    lines = []
    for key, group in table.groupby(KEYS[:3], sort=False):
        algorithm, environment, variant = key
        line = [environment, algorithm, *([variant] * len(protocol.variants))]
        line.append(str(group["seed"].nunique()))
        for name in protocol.evaluations:
            returns = group.loc[group["evaluation"] == name, "return"].to_numpy()
            mean, low, high = (x[0] for x in summarize(returns[:, None], "mean", "ci"))
            line += [f"{mean:.2f}", f"{low:.2f} to {high:.2f}" if len(returns) > 1 else ""]
        lines.append(line)
    return f"{markdown_table(head, lines)}\n"


def figure(protocol: Protocol, data: pd.DataFrame, path: Path) -> None:
    """A panel for each environment: our curves with their range, and what was published.

    Algorithms have colours, variants line styles, sources markers.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    from spinup_tf2.results import look

    look.set_style("paper")
    environments = [e for e in protocol.environments if e in set(data["environment"])]
    colors = look.colors_for(protocol.algorithms)
    styles = dict(zip(protocol.variant_names, ("-", "--", ":", "-."), strict=False))
    markers = dict(zip(protocol.published, "os^D", strict=False))
    fig = plt.figure(layout="constrained")
    for axis, environment in zip(
        look.panels(fig, len(environments), "paper"), environments, strict=True
    ):
        axis.set_title(environment)
        look.label(axis, "TotalEnvInteracts", "Performance")
        for algorithm, color in colors.items():
            for variant, style in styles.items():
                key = (algorithm, environment, variant)
                _draw_curve(axis, data, key, color, style, protocol.arguments["steps_per_epoch"])
            for source, marker in markers.items():
                _draw_published(axis, protocol, source, algorithm, environment, color, marker)
        look.format_ticks(axis, "paper")
    handles = {name.upper(): Line2D([], [], color=color) for name, color in colors.items()}
    if protocol.variants:
        handles |= {name: Line2D([], [], color="0.3", ls=style) for name, style in styles.items()}
    for source, marker in markers.items():
        handles[source] = Line2D([], [], color="0.3", marker=marker, ls="", mfc="w")
    look.shared_legend(fig, handles)
    look.save_figure(fig, path)
    plt.close(fig)


def _draw_curve(axis, data, key, color, style, steps_per_epoch):
    from spinup_tf2.results.statistics import curve_of

    runs = data[(data[KEYS[:3]] == list(key)).all(axis=1)].dropna()
    if runs.empty:
        return
    curves = []
    for _, run in runs.groupby("seed"):
        x, y = run["interactions"].to_numpy(), run["return"].to_numpy()
        curves.append((x, _smooth(x, y, steps_per_epoch)))
    curve = curve_of(curves, "mean", "sd")
    axis.plot(curve.x, curve.estimate, color=color, ls=style)
    axis.fill_between(curve.x, curve.low, curve.high, color=color, alpha=0.15, lw=0)


def _draw_published(axis, protocol, source, algorithm, environment, color, marker):
    points = published(source, algorithm, environment)
    points = {n: cell for n, cell in points.items() if n <= 1.01 * protocol.steps}
    if points:
        means, sds = zip(*points.values(), strict=True)
        axis.errorbar(
            [*points], means, sds, color=color, fmt=marker, ms=5, capsize=3, mfc="white", lw=1
        )


def _smooth(x, y, steps_per_epoch, epochs=11):
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
    if len(protocol.algorithms) * len(protocol.variant_names) > 1:
        text += f"\n{scores(protocol, table, data)}"
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
                runs.append(f"{name} {count} of {len(keys)}" if count else f"{name} not run")
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
    main()
