"""Environment steps per second of whole runs, ours against others.

    python benchmarks/throughput.py
    python benchmarks/throughput.py --contestants spinup_tf2 --profile
    python benchmarks/throughput.py --algorithms sac td3 ddpg --sbx-python sbx/bin/python
    python benchmarks/throughput.py --algorithms a2c --envs PongNoFrameskip-v4 --num-envs 16
    python benchmarks/throughput.py --algorithms dqn --envs CartPole-v1 --steps 36000
    python benchmarks/throughput.py --contestants spinup_tf2 spinup_tf2_2_ranks spinup_tf2_2_runs
    python benchmarks/throughput.py --chart speed.png

The contestants take turns (A B C A B C ...), each run in a process of its own, on cores of its own.
Prints Markdown; see benchmarks/README.md for what is measured.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path
from statistics import mean, median

from contestants import runs_of
from measure import OFF_POLICY, ON_POLICY, PACKAGES

HERE = Path(__file__).resolve().parent
OURS = "spinup_tf2"
TWO_RANKS = "spinup_tf2_2_ranks"  # mpirun -np 2, each with as many cores as others have in all
TWO_RUNS = "spinup_tf2_2_runs"  # the same, each by itself: the most that two ranks could reach
CONTESTANTS = {
    OURS: "spinup_tf2",
    TWO_RANKS: "spinup_tf2, two processes",
    TWO_RUNS: "spinup_tf2, two runs at once",
    "spinup_tf2_evaluating": "spinup_tf2, with evaluation",
    "sb3": "Stable-Baselines3",
    "sb3_same_work": "Stable-Baselines3, the same gradient steps",
    "sbx": "sbx",
    "spinningup_torch": "Spinning Up's loop in PyTorch",
    "spinningup_torch_checked": "the same with PyTorch's checks of arguments",
    "dqn_torch": "CleanRL's loop in PyTorch",
}
DEFAULT = [name for name in CONTESTANTS if name not in (TWO_RANKS, TWO_RUNS)]
ONE_ENVIRONMENT_ONLY = {"spinningup_torch", "spinningup_torch_checked"}
ON_POLICY_DEFAULTS = {
    "envs": ["CartPole-v1", "HalfCheetah-v5"],
    "num_envs": [1, 8],
    "steps": 36_000,  # nine epochs after the first, so that each run saves once in ten epochs
}
SETTING = ("algorithm", "environment", "num_envs")  # the first columns of all tables
OFF_POLICY_DEFAULTS = {"envs": ["HalfCheetah-v5"], "num_envs": [1], "steps": 8_000}


def parse_arguments(argv=None):
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    algorithms = (*ON_POLICY, *OFF_POLICY)
    add("--algorithms", nargs="+", choices=algorithms, default=["ppo"], help="default: ppo")
    add("--envs", nargs="+", help="default: CartPole-v1 and HalfCheetah-v5; off-policy, the latter")
    add("--num-envs", nargs="+", type=int, help="default: 1 and 8; off-policy, only 1 is measured")
    add(
        "--steps",
        type=int,
        help="timed environment steps per run, rounded up to whole epochs (default: 36000;"
        " off-policy, 8000)",
    )
    add("--repeats", type=int, default=5, help="default: %(default)s")
    add("--contestants", nargs="+", choices=CONTESTANTS, default=DEFAULT)
    add("--cores", type=int, choices=(1, 2), default=1, help="cores per run")
    add("--sbx-python", default=sys.executable, help="the interpreter that has sbx (default: this)")
    add("--output", type=Path, help="write every run to this JSON file")
    add("--chart", type=Path, help="draw the speeds in this file (.png, .svg)")
    add(
        "--profile",
        action="store_true",
        help=f"one more run of {OURS} per setting, to see where its time goes",
    )
    args = parser.parse_args(argv)
    numbers = [args.steps, args.repeats, *(args.num_envs or [])]
    if any(number is not None and number < 1 for number in numbers):
        parser.error("--steps, --repeats and --num-envs must be at least 1")
    if args.num_envs not in (None, [1]) and {*args.algorithms} & {*OFF_POLICY}:
        parser.error(f"--num-envs must be 1 for {', '.join(OFF_POLICY)}")
    needed = args.cores * (2 if {TWO_RANKS, TWO_RUNS} & {*args.contestants} else 1)
    if needed > len(os.sched_getaffinity(0)):
        parser.error(f"{needed} cores are needed, and this process may use fewer")
    return args


def settings(args):
    """What is measured, as a run of each contestant sees it."""
    for algorithm in args.algorithms:
        defaults = OFF_POLICY_DEFAULTS if algorithm in OFF_POLICY else ON_POLICY_DEFAULTS
        envs, num_envs = args.envs or defaults["envs"], args.num_envs or defaults["num_envs"]
        for env, n in product(envs, num_envs):
            steps = args.steps or defaults["steps"]
            yield {"algorithm": algorithm, "env": env, "num_envs": n, "steps": steps}


def schedule(args):
    """All runs in their order: within a repeat of a setting the contestants take turns."""
    for setting in settings(args):
        able = [name for name in args.contestants if name in runs_of(setting["algorithm"])]
        if setting["num_envs"] > 1:
            able = [name for name in able if name not in ONE_ENVIRONMENT_ONLY]
        for repeat, contestant in product(range(args.repeats), able):
            yield setting | {"contestant": contestant, "seed": repeat, "profile": False}


def run_once(spec, args):
    """Run one contestant in a fresh process and return the spec with what it measured."""
    python = args.sbx_python if spec["contestant"] == "sbx" else sys.executable
    launcher = []
    if spec["contestant"] == TWO_RANKS:
        beside = Path(sys.executable).with_name("mpirun")
        launcher = [beside if beside.exists() else "mpirun", "-np", "2"]
    with tempfile.TemporaryDirectory() as directory:
        processes = []
        for place in range(2 if spec["contestant"] == TWO_RUNS else 1):
            own = Path(directory, str(place))
            own.mkdir()
            bound = json.dumps(spec | {"cores": args.cores, "place": place})
            with (own / "errors.txt").open("w", encoding="utf-8") as errors:
                command = [*launcher, python, HERE / "contestants.py", bound]
                process = subprocess.Popen(
                    command, cwd=own, stdout=subprocess.DEVNULL, stderr=errors
                )
            processes.append((own, process))
        # All of them, before the first failure: the directory is theirs.
        failed = [own for own, process in processes if process.wait()]
        if failed:
            errors = (failed[0] / "errors.txt").read_text(encoding="utf-8")
            raise SystemExit(f"{errors}\nThis run failed: {spec}")
        texts = [(own / "result.json").read_text(encoding="utf-8") for own, _ in processes]
    return spec | together([*map(json.loads, texts)])


def together(results):
    """One result for runs that went on at the same time: the steps of all, in their mean time."""
    ends = zip(*(result["epoch_ends"] for result in results), strict=True)
    sums = ("steps_per_epoch", "steps_without_updates")
    return (
        results[0]
        | {"epoch_ends": [[*map(mean, zip(*clocks, strict=True))] for clocks in ends]}
        | {name: sum(result[name] for result in results) for name in sums if name in results[0]}
    )


def steps_per_second(result):
    """The throughput of all epochs but the first, which warms up."""
    ends = [wall for wall, _ in result["epoch_ends"]]
    return (len(ends) - 1) * result["steps_per_epoch"] / (ends[-1] - ends[0])


def cpu_share(result):
    """CPU time over wall time of the timed epochs; far from 1 per core, the core was shared."""
    (wall, cpu), (wall_end, cpu_end) = result["epoch_ends"][0], result["epoch_ends"][-1]
    return (cpu_end - cpu) / (wall_end - wall)


def start_up_seconds(result):
    """What a run costs once: the time to the end of epoch 1, less its steps at the later speed.

    Imports, building the networks and environments, and compilation; off-policy also the steps
    before the first update.
    """
    first_epoch_end, _ = result["epoch_ends"][0]
    steps = result["steps_per_epoch"] - result.get("steps_without_updates", 0)
    return first_epoch_end - steps / steps_per_second(result)


def setting_of(record):
    """What must be equal for two runs, or rows, to be compared."""
    return record["algorithm"], record["env"], record["num_envs"]


def summarise(runs):
    """One row of medians for each setting and contestant."""
    groups = {}
    for run in runs:
        groups.setdefault((*setting_of(run), run["contestant"]), []).append(run)
    rows = []
    for group in groups.values():
        speeds = [steps_per_second(run) for run in group]
        returns = [run["last_return"] for run in group if run["last_return"] is not None]
        same = ("algorithm", "env", "num_envs", "contestant", "steps_per_epoch")
        rows.append(
            {name: group[0][name] for name in same}
            | {
                "speed": median(speeds),
                "slowest": min(speeds),
                "fastest": max(speeds),
                "cpu_share": min(map(cpu_share, group)),
                "start_up": median(map(start_up_seconds, group)),
                "peak_memory": max(run["peak_memory"] for run in group),
                "gradient_steps": median(median(run["gradient_steps"][1:]) for run in group),
                "last_return": median(returns) if returns else None,
            }
        )
    return rows


def our_ratio(row, rows):
    """How many times faster ours is, at the same setting; None if one of the two did not run."""
    for other in rows:
        if other["contestant"] == OURS and setting_of(other) == setting_of(row):
            return other["speed"] / row["speed"]
    return None


def markdown_table(header, rows):
    """Format rows of cells as a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def throughput_table(rows):
    """The medians of all contestants as a Markdown table."""

    def cells(row):
        ratio, last_return = our_ratio(row, rows), row["last_return"]
        return {
            **dict(zip(SETTING, setting_of(row), strict=True)),
            "contestant": CONTESTANTS[row["contestant"]],
            "steps/s": f"{row['speed']:,.0f}",
            "slowest to fastest run": f"{row['slowest']:,.0f} to {row['fastest']:,.0f}",
            "least CPU share": f"{row['cpu_share']:.0%}",
            "ours is faster by": f"{ratio:.1f} x" if ratio and row["contestant"] != OURS else "",
            "start-up": f"{row['start_up']:.1f} s",
            "peak memory": f"{row['peak_memory'] / 1e6:,.0f} MB",
            "steps per epoch": f"{row['steps_per_epoch']:,}",
            "gradient steps per epoch": f"{row['gradient_steps']:,.0f}",
            "last return": "" if last_return is None else f"{last_return:.0f}",
        }

    table = [cells(row) for row in rows]
    return markdown_table([*table[0]], [row.values() for row in table])


def sections_table(profiles):
    """Microseconds per environment step, and share, of each section of our runs."""
    names = dict.fromkeys(name for run in profiles for name in run["sections"])

    def cells(run):
        steps = (len(run["epoch_ends"]) - 1) * run["steps_per_epoch"]
        each = {name: seconds / steps * 1e6 for name, seconds in run["sections"].items()}
        total = sum(each.values())
        yield from setting_of(run)
        for name in names:
            yield f"{each[name]:.1f} ({each[name] / total:.0%})" if name in each else ""
        yield from (f"{total:.1f}", f"{total - each['environment']:.1f}", f"{cpu_share(run):.0%}")

    header = [*SETTING, *names, "all", "all but the environment", "CPU share"]
    return markdown_table(header, map(cells, profiles))


def limit_table(profiles):
    """How much of the machine's float32 matrix-product rate the updates reach."""
    header = [*SETTING, "gradient step", "update"]
    header += ["matmul of 2048 x 2048", "reached", "matmuls of the update's shapes", "reached"]

    def cells(run):
        limit = run["limit"]
        rate = limit["update_gflops"]
        step = run["sections"]["update"] / limit["gradient_steps"]
        yield from (*setting_of(run), f"{step * 1e3:.2f} ms", f"{rate:.0f} GFLOP/s")
        for most in (limit["large_matmul_gflops"], limit["own_shapes_gflops"]):
            yield from (f"{most:.0f} GFLOP/s", f"{rate / most:.0%}")

    return markdown_table(header, map(cells, profiles))


def machine(cores, runs):
    """The machine and the versions, in one paragraph."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    cpu = names[0] if names else platform.machine()
    versions = [f"Python {platform.python_version()}"]
    for package in PACKAGES:
        found = {run["versions"][package] for run in runs if package in run["versions"]}
        if found:
            versions.append(f"{package} {' and '.join(sorted(found))}")
    bound = f"each run bound to {cores} of {os.cpu_count()} cores"
    return f"{cpu}, {bound}, {platform.system()} {platform.release()}; {', '.join(versions)}."


def report(args, runs, profiles):
    """Everything that was measured, as Markdown."""
    parts = [machine(args.cores, runs), throughput_table(summarise(runs))]
    if profiles:
        parts += ["Where the time goes, in microseconds per environment step:"]
        parts += [sections_table(profiles)]
    counted = [run for run in profiles if "limit" in run]  # of others nobody knows the products
    if counted:
        parts += ["How much of the machine's float32 matrix-product rate the update reaches:"]
        parts += [limit_table(counted)]
    return "\n\n".join(parts)


def chart(rows, path):
    """Draw the speeds: a panel for each setting, a bar for each contestant."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    drawn = [*dict.fromkeys(map(setting_of, rows))]
    colors = dict(zip(CONTESTANTS, plt.get_cmap("tab10").colors, strict=False))
    fig, axes = plt.subplots(len(drawn), figsize=(8, 0.8 + 1.7 * len(drawn)), squeeze=False)
    for axis, (algorithm, env, num_envs) in zip(axes[:, 0], drawn, strict=True):
        own = [row for row in rows if setting_of(row) == (algorithm, env, num_envs)][::-1]
        bars = axis.barh(
            [CONTESTANTS[row["contestant"]] for row in own],
            [row["speed"] for row in own],
            xerr=[
                [row["speed"] - row["slowest"] for row in own],
                [row["fastest"] - row["speed"] for row in own],
            ],
            color=[colors[row["contestant"]] for row in own],
        )
        axis.bar_label(bars, fmt=" {:,.0f}", padding=4)
        axis.set_title(f"{algorithm.upper()}, {env}, num_envs {num_envs}", loc="left", fontsize=10)
        axis.set_xlim(0, 1.15 * max(row["fastest"] for row in own))
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1, 0].set_xlabel("environment steps per second (median, slowest and fastest run)")
    fig.tight_layout()
    fig.savefig(path, dpi=130)


def main():
    """Run everything and print the report; progress goes to stderr."""
    args = parse_arguments()
    runs, profiles = [], []
    for spec in schedule(args):
        runs.append(run_once(spec, args))
        speed, share = steps_per_second(runs[-1]), cpu_share(runs[-1])
        print(f"{spec} {speed:,.0f} steps/s, CPU {share:.0%}", file=sys.stderr, flush=True)
    if args.profile:
        ours = {"contestant": OURS, "seed": 0, "profile": True}
        profiles = [run_once(setting | ours, args) for setting in settings(args)]
    if args.output:
        everything = {"machine": machine(args.cores, runs), "runs": runs, "profiles": profiles}
        args.output.write_text(json.dumps(everything, indent=1), encoding="utf-8")
    if args.chart:
        chart(summarise(runs), args.chart)
    print(report(args, runs, profiles))


if __name__ == "__main__":
    main()
