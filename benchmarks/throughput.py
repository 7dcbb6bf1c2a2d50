"""Environment steps per second of whole PPO runs, ours against two others.

    python benchmarks/throughput.py
    python benchmarks/throughput.py --contestants spinup_tf2 --profile

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
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
OURS = "spinup_tf2"
CONTESTANTS = {
    OURS: "spinup_tf2.ppo",
    "sb3": "Stable-Baselines3 PPO",
    "spinningup_torch": "Spinning Up's loop in PyTorch",
}
ONE_ENVIRONMENT_ONLY = {"spinningup_torch"}
PACKAGES = (
    "tensorflow",
    "keras",
    "torch",
    "stable-baselines3",
    "gymnasium",
    "mujoco",
    "numpy",
)


def parse_arguments(argv=None):
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--envs", nargs="+", default=["CartPole-v1", "HalfCheetah-v5"])
    parser.add_argument("--num-envs", nargs="+", type=int, default=[1, 8])
    parser.add_argument(
        "--steps",
        type=int,
        default=36_000,
        help="timed environment steps per run, rounded up to whole epochs (default: %(default)s;"
        " nine epochs of Spinning Up after the first, so that each run saves once in ten epochs)",
    )
    parser.add_argument("--repeats", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--cores", type=int, choices=(1, 2), default=1, help="cores per run")
    parser.add_argument("--output", type=Path, help="write every run to this JSON file")
    parser.add_argument(
        "--profile",
        action="store_true",
        help=f"one more run of {OURS} per setting, to see where its time goes",
    )
    args = parser.parse_args(argv)
    if args.steps < 1 or args.repeats < 1 or min(args.num_envs) < 1:
        parser.error("--steps, --repeats and --num-envs must be at least 1")
    if not hasattr(os, "sched_setaffinity"):
        parser.error("this benchmark binds each run to its cores, which it can do on Linux only")
    if args.cores > len(os.sched_getaffinity(0)):
        parser.error(f"--cores {args.cores}: this process may use fewer")
    return args


def schedule(envs, num_envs, contestants, repeats):
    """All runs in their order: within a repeat of a setting the contestants take turns."""
    for env, n, repeat, contestant in product(envs, num_envs, range(repeats), contestants):
        if n == 1 or contestant not in ONE_ENVIRONMENT_ONLY:
            yield {"contestant": contestant, "env": env, "num_envs": n, "seed": repeat}


def run_once(spec):
    """Run one contestant in a fresh process and return what it measured."""
    with tempfile.TemporaryDirectory() as directory:
        process = subprocess.run(
            [sys.executable, str(HERE / "contestants.py"), json.dumps(spec)],
            cwd=directory,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if process.returncode:
            raise SystemExit(f"{process.stderr}\nThis run failed: {spec}")
        return json.loads((Path(directory) / "result.json").read_text(encoding="utf-8"))


def steps_per_second(result):
    """The throughput of all epochs but the first, which warms up."""
    ends = [wall for wall, _ in result["epoch_ends"]]
    return (len(ends) - 1) * result["steps_per_epoch"] / (ends[-1] - ends[0])


def cpu_share(result):
    """CPU time over wall time of the timed epochs; far from 1 per core, the core was shared."""
    (wall, cpu), (wall_end, cpu_end) = result["epoch_ends"][0], result["epoch_ends"][-1]
    return (cpu_end - cpu) / (wall_end - wall)


def start_up_seconds(result):
    """What a run costs once: the time to the end of epoch 1, less an epoch at the later speed.

    Imports, building the networks and environments, and compilation.
    """
    first_epoch_end, _ = result["epoch_ends"][0]
    return first_epoch_end - result["steps_per_epoch"] / steps_per_second(result)


def summarise(runs):
    """Group the runs by setting and contestant; one row of medians for each group."""
    groups = {}
    for run in runs:
        groups.setdefault((run["env"], run["num_envs"], run["contestant"]), []).append(run)
    rows = []
    for (env, num_envs, contestant), group in groups.items():
        speeds = [steps_per_second(run) for run in group]
        returns = [run["last_return"] for run in group if run["last_return"] is not None]
        timed_gradient_steps = [median(run["gradient_steps"][1:]) for run in group]
        rows.append(
            {
                "env": env,
                "num_envs": num_envs,
                "contestant": contestant,
                "speed": median(speeds),
                "slowest": min(speeds),
                "fastest": max(speeds),
                "cpu_share": min(map(cpu_share, group)),
                "start_up": median(map(start_up_seconds, group)),
                "steps_per_epoch": group[0]["steps_per_epoch"],
                "gradient_steps": median(timed_gradient_steps),
                "last_return": median(returns) if returns else None,
            }
        )
    return rows


def our_ratio(row, rows):
    """How many times faster ours is, at the same setting; None if one of the two did not run."""
    setting = (row["env"], row["num_envs"])
    for other in rows:
        if other["contestant"] == OURS and (other["env"], other["num_envs"]) == setting:
            return other["speed"] / row["speed"]
    return None


def markdown_table(header, rows):
    """Format rows of cells as a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def throughput_table(rows):
    """The medians of all contestants as a Markdown table."""
    header = (
        "environment",
        "num_envs",
        "contestant",
        "steps/s",
        "slowest to fastest run",
        "least CPU share",
        "ours is faster by",
        "start-up",
        "steps per epoch",
        "gradient steps per epoch",
        "last return",
    )
    cells = []
    for row in rows:
        ratio = our_ratio(row, rows)
        cells.append(
            (
                row["env"],
                row["num_envs"],
                CONTESTANTS[row["contestant"]],
                f"{row['speed']:,.0f}",
                f"{row['slowest']:,.0f} to {row['fastest']:,.0f}",
                f"{row['cpu_share']:.0%}",
                "" if ratio is None or row["contestant"] == OURS else f"{ratio:.1f} x",
                f"{row['start_up']:.1f} s",
                f"{row['steps_per_epoch']:,}",
                f"{row['gradient_steps']:,.0f}",
                "" if row["last_return"] is None else f"{row['last_return']:.0f}",
            )
        )
    return markdown_table(header, cells)


def sections_table(profiles):
    """Microseconds per environment step, and share, of each section of our runs."""
    sections = [*profiles[0]["sections"]]
    cells = []
    for run in profiles:
        steps = (len(run["epoch_ends"]) - 1) * run["steps_per_epoch"]
        total = sum(run["sections"].values())
        shares = [
            f"{seconds / steps * 1e6:.1f} ({seconds / total:.0%})"
            for seconds in map(run["sections"].get, sections)
        ]
        cells.append(
            (
                run["env"],
                run["num_envs"],
                *shares,
                f"{total / steps * 1e6:.1f}",
                f"{cpu_share(run):.0%}",
            )
        )
    return markdown_table(("environment", "num_envs", *sections, "all", "CPU share"), cells)


def limit_table(profiles):
    """How much of the machine's float32 matrix-product rate the updates reach."""
    header = (
        "environment",
        "num_envs",
        "gradient step",
        "update",
        "matmul of 2048 x 2048",
        "reached",
        "matmuls of the update's shapes",
        "reached",
    )
    cells = []
    for run in profiles:
        limit = run["limit"]
        step = run["sections"]["update"] / limit["gradient_steps"]
        rate, large, own = (
            limit[key] for key in ("update_gflops", "large_matmul_gflops", "own_shapes_gflops")
        )
        cells.append(
            (
                run["env"],
                run["num_envs"],
                f"{step * 1e3:.2f} ms",
                f"{rate:.0f} GFLOP/s",
                f"{large:.0f} GFLOP/s",
                f"{rate / large:.0%}",
                f"{own:.0f} GFLOP/s",
                f"{rate / own:.0%}",
            )
        )
    return markdown_table(header, cells)


def machine(cores):
    """The machine and the versions, in one paragraph."""
    cpu = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            cpu = line.partition(":")[2].strip()
            break
    versions = [f"Python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue  # not every contestant is installed everywhere
    bound = f"each run bound to {cores} of {os.cpu_count()} cores"
    return f"{cpu}, {bound}, {platform.system()} {platform.release()}; {', '.join(versions)}."


def report(args, runs, profiles):
    """Everything that was measured, as Markdown."""
    parts = [machine(args.cores), throughput_table(summarise(runs))]
    if profiles:
        parts += [
            "Where the time goes, in microseconds per environment step:",
            sections_table(profiles),
            "How much of the machine's float32 matrix-product rate the update reaches:",
            limit_table(profiles),
        ]
    return "\n\n".join(parts)


def main():
    """Run everything and print the report; progress goes to stderr."""
    args = parse_arguments()
    runs, profiles = [], []
    for spec in schedule(args.envs, args.num_envs, args.contestants, args.repeats):
        common = {"steps": args.steps, "cores": args.cores}
        runs.append(spec | run_once(spec | common | {"profile": False}))
        speed, share = steps_per_second(runs[-1]), cpu_share(runs[-1])
        print(f"{spec} {speed:,.0f} steps/s, CPU {share:.0%}", file=sys.stderr, flush=True)
    if args.profile:
        for env, num_envs in product(args.envs, args.num_envs):
            spec = {"contestant": OURS, "env": env, "num_envs": num_envs, "seed": 0}
            profiles.append(spec | run_once(spec | common | {"profile": True}))
    if args.output:
        everything = {"machine": machine(args.cores), "runs": runs, "profiles": profiles}
        args.output.write_text(json.dumps(everything, indent=1), encoding="utf-8")
    print(report(args, runs, profiles))


if __name__ == "__main__":
    main()
