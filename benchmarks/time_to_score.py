"""Seconds from the command to the first evaluation at a score, ours against others.

    python benchmarks/time_to_score.py --sb3-python sb3/bin/python --output scores.json
    python benchmarks/time_to_score.py --tasks CartPole-v1 Pendulum-v1 --seeds 0

An evaluation is the mean return of 20 greedy episodes. Ours train with their presets, and
Stable-Baselines3 with the settings of RL Baselines3 Zoo, whose programs know nothing of the score:
each is a command of its own, with start-up, compilation and evaluations, and it ends when the score
is reached. The contestants take turns. Prints Markdown.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median

from throughput import machine, markdown_table

HERE = Path(__file__).resolve().parent
EPISODES = 20


@dataclass(frozen=True)
class Task:
    """What is to be learned.

    Attributes:
        score: The mean return that ends a run.
        algorithm: The algorithm, of both contestants.
        preset: Our preset.
        every: Steps from one evaluation to the next, of both contestants.
        epochs: How many epochs of our preset there are between two evaluations.
        zoo: The settings of RL Baselines3 Zoo, as keyword arguments.
    """

    score: float
    algorithm: str
    preset: str
    every: int
    epochs: int
    zoo: dict


LANDER = dict(n_steps=1024, batch_size=64, gae_lambda=0.98, gamma=0.999, n_epochs=4, ent_coef=0.01)
TASKS = {
    "CartPole-v1": Task(
        *(475, "ppo", "classic", 5120, 20),
        dict(n_envs=8, timesteps=100_000, n_steps=32, batch_size=256, gae_lambda=0.8, gamma=0.98)
        | dict(n_epochs=20, ent_coef=0.0, learning_rate="lin_0.001", clip_range="lin_0.2"),
    ),
    "Acrobot-v1": Task(
        *(-100, "ppo", "classic", 20_480, 5),
        dict(n_envs=16, timesteps=1_000_000, normalize=True, n_steps=256, gae_lambda=0.94)
        | dict(gamma=0.99, n_epochs=4, ent_coef=0.0),
    ),
    "Pendulum-v1": Task(
        *(-170, "sac", "classic", 2000, 1), dict(timesteps=20_000, learning_rate=1e-3)
    ),
    "MountainCarContinuous-v0": Task(
        *(90, "ddpg", "classic", 2000, 1), dict(timesteps=300_000, ou_noise=0.5)
    ),
    "LunarLander-v3": Task(
        *(200, "ppo", "box2d", 49_152, 3), dict(n_envs=16, timesteps=1_000_000, **LANDER)
    ),
}
CONTESTANTS = {"spinup_tf2": "spinup_tf2", "sb3": "Stable-Baselines3"}


def command_of(contestant, env, seed, folder, sb3_python):
    """The command of a run."""
    task = TASKS[env]
    if contestant == "sb3":
        own = dict(env=env, seed=seed, score=task.score, every=task.every, episodes=EPISODES)
        spec = json.dumps(dict(task.zoo, algorithm=task.algorithm, **own))
        return [sb3_python, HERE / "run_sb3_to_score.py", spec]
    flags = f"--preset {task.preset} --env {env} --seed {seed} --stop_at_return {task.score} "
    flags += f"--num_test_episodes {EPISODES} --quiet --data_dir {folder}"
    if task.algorithm == "ppo":
        flags += f" --test_freq {task.epochs}"
    return [sys.executable, "-m", "spinup_tf2.run", task.algorithm, *flags.split()]


def reached(contestant, env, folder, printed):
    """Whether a run that has ended has reached the score."""
    if contestant == "sb3":
        return "reached" in printed.split()
    [rows] = Path(folder).rglob("progress.txt")
    header, *lines = (line.split("\t") for line in rows.read_text().splitlines())
    tested = [line[header.index("AverageTestEpRet")] for line in lines]
    return float([value for value in tested if value][-1]) >= TASKS[env].score


def run_once(contestant, env, seed, args):
    """Run one contestant once; return what was measured."""
    with tempfile.TemporaryDirectory() as folder:
        command = command_of(contestant, env, seed, folder, args.sb3_python)
        began = time.perf_counter()
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=args.limit
            )
        except subprocess.TimeoutExpired:
            return dict(env=env, contestant=contestant, seed=seed, seconds=None)
        seconds = time.perf_counter() - began
        if done.returncode:
            raise SystemExit(f"{done.stderr}\nThis run failed: {command}")
        if not reached(contestant, env, folder, done.stdout):
            seconds = None
        return dict(env=env, contestant=contestant, seed=seed, seconds=seconds)


def table(runs):
    """A row for each task: the median of each contestant, and all of its runs."""

    def cell(env, contestant):
        own = [run for run in runs if (run["env"], run["contestant"]) == (env, contestant)]
        times = [run["seconds"] or float("inf") for run in own]
        each = ", ".join("not reached" if x == float("inf") else f"{x:.0f}" for x in sorted(times))
        return median(times) if times else float("inf"), each

    rows = []
    for env in dict.fromkeys(run["env"] for run in runs):
        task, cells = TASKS[env], [cell(env, each) for each in CONTESTANTS]
        (ours, _), (theirs, _) = cells
        ratio = f"{theirs / ours:.1f} x" if max(ours, theirs) < float("inf") else ""
        name = f"{env}, {task.score:g}, {task.algorithm.upper()}"
        rows.append([name, *(each for _, each in cells), ratio])
    header = ["task, score, algorithm", *(f"{each}, seconds" for each in CONTESTANTS.values())]
    return markdown_table([*header, "medians: ours is faster by"], rows)


def main():
    """Run the contestants in turn, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--tasks", nargs="+", choices=TASKS, default=[*TASKS])
    add("--contestants", nargs="+", choices=CONTESTANTS, default=[*CONTESTANTS])
    add("--seeds", nargs="+", type=int, default=[0, 1, 2])
    add("--limit", type=float, default=3600, help="seconds that a run may take (3600)")
    add("--sb3-python", default=sys.executable, help="the interpreter that has Stable-Baselines3")
    add("--output", type=Path, help="write every run to this JSON file")
    args = parser.parse_args()
    runs = []
    for env, seed, contestant in product(args.tasks, args.seeds, args.contestants):
        runs.append(run_once(contestant, env, seed, args))
        print(runs[-1], file=sys.stderr, flush=True)
        if args.output:
            args.output.write_text(json.dumps(runs, indent=1), encoding="utf-8")
    print(f"{machine(os.cpu_count(), [])}\n\n{table(runs)}")


if __name__ == "__main__":
    main()
