"""Speed of Super Mario Bros on all cores: the emulator alone, the environment, collection, PPO.

    python benchmarks/mario.py

Each line is agent steps per second, an agent's step being four frames of the console. The emulator
alone is what would be left if everything else cost nothing; the last line says which share of it
the whole of PPO reaches, with the preset `mario`, gradient steps, logging and saving included.
"""

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # as on the command line

import numpy as np
from measure import collecting_and_training

from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.envs.mario.emulator import NesPy
from spinup_tf2.envs.mario.game import BUTTONS, Game
from spinup_tf2.experiments.presets import load
from spinup_tf2.parallel.launched import threads_per_rank
from spinup_tf2.utils.run_utils import EnvFn

SKIP = 4  # frames in an agent's step


def emulator(steps: int) -> float:
    """Emulators alone, one for each core, running to the right and jumping."""
    games = [Game(NesPy(), (1, 1)) for _ in range(threads_per_rank())]
    run, jump = BUTTONS["right"] | BUTTONS["B"], BUTTONS["A"]

    def play(game):
        for frame in range(SKIP * steps):
            game.core.frame(run | (jump if frame % 60 < 30 else 0))
            if frame % 400 == 0:
                game.reset()

    with ThreadPoolExecutor(len(games)) as pool:
        list(pool.map(Game.reset, games))
        began = time.perf_counter()
        list(pool.map(play, games))
        seconds = time.perf_counter() - began
    for game in games:
        game.core.close()
    return len(games) * steps / seconds


def environments(env_fn: EnvFn, num_envs: int, vectorization: str, steps: int) -> float:
    """Environments with all wrappers, and random actions."""
    rng = np.random.default_rng(0)
    with VectorEnv(env_fn, num_envs, vectorization=vectorization) as envs:
        envs.reset()
        began = time.perf_counter()
        for _ in range(steps // num_envs):
            envs.step(rng.integers(2, size=num_envs))
        return steps / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=4000, help="of each measurement")
    parser.add_argument("--repeats", type=int, default=3, help="of which the median is printed")
    args = parser.parse_args()
    preset = load("ppo", "mario")
    settings = preset.settings | dict(num_test_episodes=0)
    env_fn = EnvFn(preset.env, preset.env_kwargs)
    epochs = max(1, args.steps // settings["steps_per_epoch"])

    rows = {"emulator alone": [], "environments, sync": [], "environments, async": []}
    rows |= {"environments, threads": [], "collection": [], "all of PPO": []}
    for _ in range(args.repeats):
        rows["emulator alone"].append(emulator(args.steps // threads_per_rank()))
        for vectorization in ("sync", "async", "threads"):
            speed = environments(env_fn, settings["num_envs"], vectorization, args.steps)
            rows[f"environments, {vectorization}"].append(speed)
        speeds = collecting_and_training(env_fn, settings, epochs)
        for name, speed in zip(("collection", "all of PPO"), speeds, strict=True):
            rows[name].append(speed)
    alone = np.median(rows["emulator alone"])
    print(f"{'agent steps/s':24}{'median':>8}{'least':>8}{'most':>8}{'share':>8}")
    for name, speeds in rows.items():
        middle = np.median(speeds)
        numbers = f"{middle:8.0f}{min(speeds):8.0f}{max(speeds):8.0f}{middle / alone:8.0%}"
        print(f"{name:24}{numbers}")


if __name__ == "__main__":
    main()
