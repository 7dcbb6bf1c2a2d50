"""Learning curves over seeds, beside those that others have published.

    python benchmarks/learning.py run on-policy --workers 2   # train what is missing
    python benchmarks/learning.py collect on-policy           # what was logged, into one CSV file
    python benchmarks/learning.py evaluate procgen            # let the final agents play elsewhere
    python benchmarks/learning.py report                      # all tables and figures, from these
    python benchmarks/learning.py random on-policy            # what random actions reach
    python benchmarks/learning.py status                      # which runs of all are finished

learning.toml says what each protocol trains, published.toml what others have reached.
"""

import argparse
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import learning_data
import learning_figure
import numpy as np
import pandas as pd
from learning_data import (
    COLUMNS,
    EVALUATED,
    KEYS,
    RANDOM,
    Protocol,
    evaluations_of,
    file_of,
    finished,
    nameof,
    protocols,
    read,
    read_table,
)
from learning_statistics import cells
from learning_tables import OVERVIEW, evaluated, folded, markdown, overview, references
from throughput import markdown_table

HERE = Path(__file__).parent
VERBS = ["run", "collect", "evaluate", "report", "random", "status"]
# Those whose returns stand beside those of other libraries in references.md.
REFERRED = ("on-policy", "off-policy", "ppo-mujoco", "classic-discrete", "classic-continuous")


def run(protocol: Protocol, data_dir: Path, workers: int) -> None:
    """Train what is missing of a protocol; runs that were stopped go on.

    What has been collected already is not missing, wherever it was trained.
    """
    import spinup_tf2
    from spinup_tf2.errors import ExperimentsFailed, Interrupted
    from spinup_tf2.experiments.presets import load
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
    grid.add("seed", protocol.all_seeds)
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
    learning_data.RESULTS.mkdir(parents=True, exist_ok=True)
    _write(pd.concat(tables.values()), path)
    if evaluations_of(protocol).exists():
        known = read_table(evaluations_of(protocol))
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
    from spinup_tf2.files.disk import atomic_output

    with atomic_output(path) as temporary:  # a full disk leaves what was there
        table.to_csv(temporary, index=False, float_format="%.5g", lineterminator="\n")


def evaluate(protocol: Protocol, data_dir: Path, episodes: int = 200) -> Path:
    """Let the agents of finished runs play with sampled actions, once for each of `evaluations`.

    Writes a row for each to a CSV file, whose path it returns. What that holds already stays.
    """
    from spinup_tf2.cli.evaluate import evaluate_run

    if not protocol.evaluations:
        sys.exit(f"learning.toml names no evaluations of {protocol.name}.")
    path = evaluations_of(protocol)
    table = read_table(path) if path.exists() else pd.DataFrame(columns=EVALUATED)
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
        lines += [f'["{RANDOM}"."{nameof(environment)}"]', numbers]
    return "\n".join(lines)


def report(protocol: Protocol) -> None:
    """Write the tables of a protocol (.md, .csv) and its figure (.svg), and print the tables.

    Without a finished run there is only a sentence.
    """
    data = read(protocol)
    table = cells(protocol, data)
    text = text_of(protocol, table, data)
    out = learning_data.RESULTS / protocol.name
    out.with_suffix(".md").write_text(text, encoding="utf-8")
    if not table.empty:
        csv = table.drop(columns="runs")
        csv.to_csv(out.with_name(f"{protocol.name}-table.csv"), index=False, float_format="%.5g")
        learning_figure.figure(protocol, data, out.with_suffix(".svg"))
    print(text)


def text_of(protocol: Protocol, table: pd.DataFrame, data: pd.DataFrame) -> str:
    """The tables of a protocol, with those of what `evaluate` has found out."""
    text = markdown(protocol, table, data)
    if evaluations_of(protocol).exists():
        text += f"\n{evaluated(protocol, read_table(evaluations_of(protocol)))}"
    return text


def texts_over_all() -> dict[str, str]:
    """The tables over several protocols, by the names of their files."""
    return {
        "overview": overview(),
        "references": references(REFERRED),
        "status": folded(status(protocols()), "Finished runs"),
    }


def show(text: str) -> None:
    """Put the overview into the page of results, in the place of the last one."""
    page = learning_data.PAGE.read_text(encoding="utf-8")
    before, begin, rest = page.partition("<!-- overview -->\n")
    _, end, after = rest.partition("\n<!-- end of overview -->")
    learning_data.PAGE.write_text(f"{before}{begin}\n{text}{end}{after}", encoding="utf-8")


def status(some_protocols: Mapping[str, Protocol]) -> str:
    """How many seeds are finished of each protocol, algorithm and environment, in Markdown.

    What has no finished run is left out.
    """
    lines = []
    for protocol in some_protocols.values():
        done = finished(protocol)
        for algorithm in protocol.algorithms:
            runs = []
            for environment in protocol.environments:
                keys = [key for key in protocol.runs() if key[:2] == (algorithm, environment)]
                count = sum(key in done for key in keys)
                if count:
                    runs.append(f"{nameof(environment)} {count} of {len(keys)}")
            if runs:
                lines.append([protocol.name, algorithm, f"{protocol.steps:,}", ", ".join(runs)])
    return markdown_table(["protocol", "algorithm", "steps", "finished runs"], lines)


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
    names = args.protocols or [*known]
    if args.verb == "status":
        print(status({name: known[name] for name in names}))
        return
    if args.verb == "report":
        for name in names:
            if args.protocols or file_of(known[name]).exists():
                report(known[name])
        for name, text in texts_over_all().items():
            (learning_data.RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
            print(text)
        show(texts_over_all()["overview"])
        learning_figure.overview(OVERVIEW, learning_data.RESULTS / "overview.svg")
        return
    if not args.protocols:
        parser.error(f"name a protocol: {', '.join(known)}")
    for name in names:
        if args.verb == "run":
            run(known[name], args.data_dir, args.workers)
        elif args.verb == "collect":
            print(collect(known[name], args.data_dir))
        elif args.verb == "evaluate":
            print(evaluate(known[name], args.data_dir))
        else:
            print(random_returns(known[name]))


if __name__ == "__main__":
    from spinup_tf2.files.printing import lose_lines

    lose_lines(BrokenPipeError)  # of `status | head`
    main()
