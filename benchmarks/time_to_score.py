"""Seconds from the command to the first evaluation at a score, ours against others.

    python benchmarks/time_to_score.py --sb3-python sb3/bin/python --sbx-python sbx/bin/python
    python benchmarks/time_to_score.py --tasks CartPole-v1 Pendulum-v1 --seeds 0

An evaluation is the mean return of 20 greedy episodes. Ours train with their presets;
Stable-Baselines3, and sbx, which is the same in JAX, with the settings of RL Baselines3 Zoo. Each
is a command of its own, with start-up, compilation and evaluations, and it ends when the score is
reached. The contestants take turns. With `--output`, runs that this JSON file holds are not
repeated. Prints Markdown.
"""

import argparse
import json
import math
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
        algorithm: The algorithm, of all contestants.
        preset: Our preset.
        every: Steps from one evaluation to the next, of all contestants.
        epochs: How many of our epochs that is; 1 of off-policy algorithms, which have no test_freq.
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
    "BipedalWalker-v3": Task(
        *(200, "ppo", "box2d", 196_608, 3),
        dict(n_envs=32, timesteps=5_000_000, normalize=True, n_steps=2048, batch_size=64)
        | dict(gae_lambda=0.95, gamma=0.999, n_epochs=10, ent_coef=0.0, clip_range=0.18),
    ),
    "HalfCheetah-v5": Task(
        *(3000, "sac", "mujoco", 10_000, 1), dict(timesteps=1_000_000, learning_starts=10_000)
    ),
}
CONTESTANTS = {"spinup_tf2": "spinup_tf2", "sb3": "Stable-Baselines3", "sbx": "sbx"}
LIBRARIES = {"sb3": "stable_baselines3", "sbx": "sbx"}  # the modules of the others


def command_of(contestant, env, seed, folder, python=sys.executable):
    """The command of a run."""
    task = TASKS[env]
    if library := LIBRARIES.get(contestant):
        own = dict(env=env, seed=seed, score=task.score, every=task.every, episodes=EPISODES)
        spec = json.dumps(dict(task.zoo, library=library, algorithm=task.algorithm, **own))
        return [python, HERE / "run_sb3_to_score.py", spec]
    flags = f"--preset {task.preset} --env {env} --seed {seed} --stop_at_return {task.score} "
    flags += f"--num_test_episodes {EPISODES} --quiet --data_dir {folder} "
    on_policy = task.algorithm == "ppo"
    flags += f"--test_freq {task.epochs}" if on_policy else f"--steps_per_epoch {task.every}"
    return [python, "-m", "spinup_tf2.run", task.algorithm, *flags.split()]


def reached(contestant, env, folder, printed):
    """Whether a run that has ended has reached the score."""
    if contestant in LIBRARIES:
        return "reached" in printed.split()
    [rows] = Path(folder).rglob("progress.txt")
    header, *lines = (line.split("\t") for line in rows.read_text().splitlines())
    tested = [line[header.index("AverageTestEpRet")] for line in lines]
    return float([value for value in tested if value][-1]) >= TASKS[env].score


def run_once(contestant, env, seed, args):
    """Run one contestant once; return what was measured."""
    with tempfile.TemporaryDirectory() as folder:
        python = dict(sb3=args.sb3_python, sbx=args.sbx_python).get(contestant, sys.executable)
        command = command_of(contestant, env, seed, folder, python)
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
    """A row for each task: all runs of each contestant, and how far its median is from ours."""
    rows = []
    for env in dict.fromkeys(run["env"] for run in runs):
        task, medians, cells = TASKS[env], {}, []
        for contestant in CONTESTANTS:
            own = [run for run in runs if (run["env"], run["contestant"]) == (env, contestant)]
            times = sorted(run["seconds"] or math.inf for run in own)
            cell = ", ".join("not reached" if x == math.inf else f"{x:.0f}" for x in times)
            medians[contestant] = median(times) if times else math.nan
            ratio = medians[contestant] / medians["spinup_tf2"]
            finite = contestant != "spinup_tf2" and math.isfinite(ratio)
            cells.append(f"{cell} ({ratio:.1f} x ours)" if finite else cell)
        rows.append([f"{env}, {task.score:g}, {task.algorithm.upper()}", *cells])
    return markdown_table(["task, score, algorithm", *CONTESTANTS.values()], rows)


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
    add("--sbx-python", default=sys.executable, help="the interpreter that has sbx")
    add("--output", type=Path, help="write every run to this JSON file")
    args = parser.parse_args()
    held = args.output and args.output.exists()
    runs = json.loads(args.output.read_text(encoding="utf-8")) if held else []
    known = {(run["env"], run["seed"], run["contestant"]) for run in runs}
    for env, seed, contestant in product(args.tasks, args.seeds, args.contestants):
        if (env, seed, contestant) in known:
            continue
        runs.append(run_once(contestant, env, seed, args))
        print(runs[-1], file=sys.stderr, flush=True)
        if args.output:
            args.output.write_text(json.dumps(runs, indent=1), encoding="utf-8")
    print(f"{machine(os.cpu_count(), [])}\n\n{table(runs)}")


if __name__ == "__main__":
    main()
