"""Learning curves of sbx, Stable-Baselines3's algorithms in JAX, with the settings of ours.

    sbx/bin/python benchmarks/learning_sbx.py sac HalfCheetah-v5 --seeds 0 1 --steps 500000

Published numbers are of other versions of the environments and of the simulation. What another
implementation reaches in the same ones tells their part in a difference from ours. The returns are
those of ten test episodes after every 10,000 steps, as in learning.toml, and are written to
results/learning/off-policy-sbx.csv at the end of each run. A run that is there already is trained
again only if it is to be longer.
"""

import argparse
from tempfile import TemporaryDirectory

import pandas as pd
import sbx
from learning_data import COLUMNS, KEYS, RESULTS
from learning_statistics import performance
from run_sb3 import off_policy_model
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_util import make_vec_env

RANDOM_ACTIONS = 10_000  # Spinning Up's start_steps
TEST_EVERY = 10_000
PATH = RESULTS / "off-policy-sbx.csv"


def main():
    """Train what is missing, one run after the other."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("algorithm", choices=("sac", "td3", "ddpg"))
    parser.add_argument("environment")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--steps", type=int, default=500_000)
    args = parser.parse_args()
    for seed in args.seeds:
        key = (args.algorithm, args.environment, "sbx", seed)
        known = pd.read_csv(PATH) if PATH.exists() else pd.DataFrame(columns=COLUMNS)
        own = (known[KEYS] == [*key]).all(axis=1)
        if known.loc[own, "interactions"].max() >= args.steps:
            print(f"{key} is there already.")
            continue
        run = pd.DataFrame([[*key, *row] for row in train(*key, args.steps)], columns=COLUMNS)
        new = pd.concat([known[~own], run]) if len(known) else run
        new.to_csv(PATH, index=False, float_format="%.5g", lineterminator="\n")
        print(performance(run, args.steps, "smoothed", TEST_EVERY))


def train(algorithm, environment, variant, seed, steps):
    """[(steps, mean return of the test episodes)] of one run."""
    envs = make_vec_env(environment, 1, seed=seed)
    model = off_policy_model(algorithm, envs, seed, sbx, RANDOM_ACTIONS)
    test_envs = make_vec_env(environment, 1, seed=10_000 + seed)
    with TemporaryDirectory() as directory:  # it keeps no returns unless it writes them
        own = dict(n_eval_episodes=10, eval_freq=TEST_EVERY, log_path=directory)
        test = EvalCallback(test_envs, **own)
        model.learn(steps, callback=test)
    returns = [sum(episodes) / len(episodes) for episodes in test.evaluations_results]
    return zip(test.evaluations_timesteps, returns, strict=True)


if __name__ == "__main__":
    main()
