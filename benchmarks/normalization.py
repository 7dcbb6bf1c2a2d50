"""What --normalize_obs does to PPO, and how far new statistics move its policy between updates.

    python benchmarks/normalization.py Hopper-v5 --epochs 25
    python benchmarks/normalization.py Lock-v0 --epochs 30 --steps_per_epoch 1000 --train_v_iters 20

Trains without it, with it, and with statistics that are adopted without a bound. Prints, for each
seed, the mean return of the first and the last five epochs, and the divergences of each epoch.
"""

import argparse
import csv
import os
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import gymnasium as gym
import numpy as np

from spinup_tf2 import ppo
from spinup_tf2.core.nets import normalization

VARIANTS = {  # arguments of PPO, and the bound
    "raw observations": ({}, None),
    "normalised": (dict(normalize_obs=True), normalization.MAX_KL),
    "normalised, no bound": (dict(normalize_obs=True), float("inf")),
}


class Lock(gym.Env):
    """Forty cells, shown one-hot; in each, one of two actions leads on, and the other is the end.

    The return is the number of cells that were passed. Most of them are seen late.
    """

    observation_space, action_space = gym.spaces.Discrete(40), gym.spaces.Discrete(2)
    right = np.random.default_rng(5).integers(2, size=40)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[int, dict]:
        super().reset(seed=seed)
        self.cell = 0
        return self.cell, {}

    def step(self, act: int) -> tuple[int, float, bool, bool, dict]:
        on = bool(act == self.right[self.cell])
        self.cell = min(self.cell + on, 39)
        return self.cell, float(on), not on or self.cell == 39, False, {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("env")
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--steps_per_epoch", type=int, default=4000)
    parser.add_argument("--train_v_iters", type=int, default=80)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    args = parser.parse_args()
    gym.register("Lock-v0", Lock)
    for variant in args.variants:
        kwargs, normalization.MAX_KL = VARIANTS[variant]
        for seed in args.seeds:
            with tempfile.TemporaryDirectory() as path:
                ppo(
                    lambda: gym.make(args.env),
                    **dict(seed=seed, epochs=args.epochs, steps_per_epoch=args.steps_per_epoch),
                    **dict(kwargs, train_v_iters=args.train_v_iters),
                    logger_kwargs=dict(output_dir=path, quiet=True),
                )
                with open(f"{path}/progress.txt", newline="") as file:
                    rows = list(csv.DictReader(file, delimiter="\t"))
            ret = [float(row["AverageEpRet"]) for row in rows]
            kls = " ".join(f"{float(row['NormKL']):.4f}" for row in rows if "NormKL" in row)
            print(
                f"{variant}, seed {seed}: {np.mean(ret[:5]):.1f} to {np.mean(ret[-5:]):.1f}  {kls}"
            )


if __name__ == "__main__":
    main()
