"""What a run of ours waits for until it is at the score: a row for each task.

    python benchmarks/profile_to_score.py                         # all tasks of time_to_score.py
    python benchmarks/profile_to_score.py --tasks CartPole-v1 --seed 1

The same arguments as in time_to_score.py, but each algorithm is called in a process of its own that
has a stopwatch. Prints Markdown.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import breakdown
from throughput import markdown_table
from time_to_score import TASKS, command_of

SECTIONS = {
    "updates": [
        "spinup_tf2.core.gradient_steps:Training.__call__",
        "spinup_tf2.core.update_block:UpdateBlock.__call__",
    ],
    "tests": ["spinup_tf2.training.run:Run._evaluate"],
    "saving": [
        "spinup_tf2.training.run:Run._save_policy",
        "spinup_tf2.training.run:Run._save_checkpoint",
    ],
}
COLUMNS = ["start-up", "first update", "updates", "acting and environments", "tests", "saving"]


def train(command, env):
    """Train in this process; return the seconds of each section."""
    stopwatch = breakdown.Stopwatch()
    stopwatch.switch("start-up")

    import spinup_tf2
    from spinup_tf2.cli.algorithm import parse_experiments
    from spinup_tf2.core.vector_env import VectorEnv

    algorithm, *flags = command[3:]
    [arguments] = parse_experiments(algorithm, flags)[0].variants()
    stopwatch.watch(SECTIONS)
    step, switch, first = VectorEnv.step, stopwatch.switch, iter(["first update"])

    def first_step(envs, actions):
        VectorEnv.step = step
        stopwatch.switch("acting and environments")
        return step(envs, actions)

    def switch_to(section):
        return switch(next(first, section) if section == "updates" else section)

    VectorEnv.step, stopwatch.switch = first_step, switch_to
    del arguments["env_name"], arguments["env_kwargs"]
    getattr(spinup_tf2, algorithm)(env, **arguments, logger_kwargs=dict(output_dir="run"))
    return stopwatch.read()


def main():
    """Train for each task in a process of its own, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=[*TASKS])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.here:
        [env] = args.tasks
        print(json.dumps(train(command_of("spinup_tf2", env, args.seed, "."), env)))
        return
    rows = []
    for env in args.tasks:
        command = [sys.executable, Path(__file__).resolve(), "--here"]
        command += ["--tasks", env, "--seed", str(args.seed)]
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True
            )
        seconds = json.loads(done.stdout.splitlines()[-1])
        shares = [f"{seconds.get(name, 0):.1f}" for name in COLUMNS]
        rows.append([env, f"{sum(seconds.values()):.1f}", *shares])
    print(markdown_table(["task", "seconds", *COLUMNS], rows))


if __name__ == "__main__":
    main()
