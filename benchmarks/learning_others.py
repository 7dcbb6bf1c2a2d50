"""Learning curves of other implementations, with the settings of ours and in the same environments.

    python benchmarks/learning_others.py ppo Hopper-v5 --seeds 0 1 2 3 4
    sbx/bin/python benchmarks/learning_others.py sac HalfCheetah-v5 --seeds 0 1

Published numbers are of other versions of the environments and of the simulation. What another
implementation reaches in the same ones tells their part in a difference from ours. PPO is Spinning
Up's loop in PyTorch (spinningup_torch.py); SAC, TD3 and DDPG are those of sbx, Stable-Baselines3's
algorithms in JAX. Settings, steps and returns are those of `on-policy` and `off-policy` in
learning.toml. The returns are written to results/learning/on-policy-torch.csv and
off-policy-sbx.csv at the end of each run. A run that is there already is not trained again.
"""

import argparse
import os
from contextlib import redirect_stdout
from tempfile import TemporaryDirectory

import pandas as pd
from learning_data import COLUMNS, KEYS, RESULTS, read_table
from learning_statistics import performance
from measure import STEPS_PER_EPOCH

RANDOM_ACTIONS = 10_000  # Spinning Up's start_steps
TEST_EVERY = 10_000


def main():
    """Train what is missing, one run after the other."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("algorithm", choices=("ppo", "sac", "td3", "ddpg"))
    parser.add_argument("environment")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--steps", type=int, help="default: 3,000,000 with PPO, else 500,000")
    args = parser.parse_args()
    if args.algorithm == "ppo":
        train, name, variant = ppo, "on-policy-torch", "torch"
        every, steps = STEPS_PER_EPOCH, 3_000_000
    else:
        train, name, variant = sbx, "off-policy-sbx", "sbx"
        every, steps = TEST_EVERY, 500_000
    steps = args.steps or steps
    path = RESULTS / f"{name}.csv"
    for seed in args.seeds:
        key = (args.algorithm, args.environment, variant, seed)
        known = table(path)
        if known.loc[of_run(known, key), "interactions"].max() >= steps:
            print(f"{key} is there already.")
            continue
        rows = [[*key, *row] for row in train(args.algorithm, args.environment, seed, steps)]
        run = pd.DataFrame(rows, columns=COLUMNS)
        known = table(path)  # once more: another process may have written its run in the meantime
        others = known[~of_run(known, key)]
        new = pd.concat([others, run]) if len(others) else run
        new.to_csv(path, index=False, float_format="%.5g", lineterminator="\n")
        print(performance(run, steps, "smoothed", every))


def table(path):
    """The runs that have been written to `path`."""
    return read_table(path) if path.exists() else pd.DataFrame(columns=COLUMNS)


def of_run(known, key):
    """Which rows are those of one run."""
    return (known[KEYS] == [*key]).all(axis=1)


def ppo(_, environment, seed, steps):
    """[(steps, mean return of the episodes that ended in the epoch)] of one run."""
    import gymnasium as gym
    import spinningup_torch

    def make():
        return gym.make(environment)

    own = dict(hidden_sizes=(64, 32), seed=seed, epochs=steps // STEPS_PER_EPOCH)
    with TemporaryDirectory() as directory, open(os.devnull, "w") as null, redirect_stdout(null):
        rows = [*spinningup_torch.ppo(make, directory, **own)]
    return [(row["TotalEnvInteracts"], row.get("AverageEpRet")) for row in rows]


def sbx(algorithm, environment, seed, steps):
    """[(steps, mean return of the test episodes)] of one run."""
    import sbx as package
    from run_sb3 import off_policy_model
    from stable_baselines3.common.callbacks import EvalCallback
    from stable_baselines3.common.env_util import make_vec_env

    envs = make_vec_env(environment, 1, seed=seed)
    model = off_policy_model(algorithm, envs, seed, package, RANDOM_ACTIONS)
    test_envs = make_vec_env(environment, 1, seed=10_000 + seed)
    with TemporaryDirectory() as directory:  # it keeps no returns unless it writes them
        own = dict(n_eval_episodes=10, eval_freq=TEST_EVERY, log_path=directory)
        test = EvalCallback(test_envs, **own)
        model.learn(steps, callback=test)
    returns = [sum(episodes) / len(episodes) for episodes in test.evaluations_results]
    return zip(test.evaluations_timesteps, returns, strict=True)


if __name__ == "__main__":
    main()
