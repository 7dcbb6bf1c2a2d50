"""One training run of one contestant, in a process of its own.

`throughput.py` starts this file once per run, as `python contestants.py '{"contestant": ...}'`, so
that no framework shares a process or a thread pool with another. The process binds itself to its
cores before it imports anything that starts threads. What it measured goes to `result.json` in the
working directory.
"""

import json
import os
import sys
import time
from pathlib import Path

STARTED = time.perf_counter()
STEPS_PER_EPOCH = 4000  # Spinning Up's
TRAIN_PI_ITERS = 80
TRAIN_V_ITERS = 80
HIDDEN_SIZES = (64, 64)


def bind_to_cores(cores):
    """Restrict this process, and the thread pools of the numerical libraries, to `cores` cores."""
    # The last ones: the first core often has the operating system's own work to do.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-cores:])
    for name in (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "TF_NUM_INTRAOP_THREADS",
        "TF_NUM_INTEROP_THREADS",
    ):
        os.environ[name] = str(cores)


def epochs_for(steps, steps_per_epoch):
    """How many epochs a run needs: one to warm up, then at least `steps` steps."""
    return 1 + -(-steps // steps_per_epoch)


def clocks():
    """Seconds since this process began its work, imports included: of wall time, of CPU time."""
    return time.perf_counter() - STARTED, time.process_time()


def spinup_tf2(env, num_envs, seed, steps, profile):
    """`spinup_tf2.ppo` at its defaults; an epoch ends when the logger has written its row."""
    import breakdown
    import gymnasium as gym
    import pandas as pd

    from spinup_tf2 import EpochLogger, ppo

    epoch_ends, readings = [], []
    stopwatch = breakdown.Stopwatch()
    if profile:
        stopwatch.watch(breakdown.SECTIONS)
    dump_tabular = EpochLogger.dump_tabular

    def dump_tabular_and_look_at_the_clock(logger):
        dump_tabular(logger)
        epoch_ends.append(clocks())
        readings.append(stopwatch.read())

    EpochLogger.dump_tabular = dump_tabular_and_look_at_the_clock
    ppo(
        lambda: gym.make(env),
        seed=seed,
        steps_per_epoch=STEPS_PER_EPOCH,
        epochs=epochs_for(steps, STEPS_PER_EPOCH),
        logger_kwargs={"output_dir": "run"},
        num_envs=num_envs,
    )

    progress = pd.read_table("run/progress.txt")
    # StopIter stays at 79 when all 80 steps are taken.
    pi_steps = progress["StopIter"].replace(TRAIN_PI_ITERS - 1, TRAIN_PI_ITERS).tolist()
    result = {
        "steps_per_epoch": STEPS_PER_EPOCH,
        "epoch_ends": epoch_ends,
        "gradient_steps": [pi + TRAIN_V_ITERS for pi in pi_steps],
        "last_return": last(progress["AverageEpRet"].dropna().tolist()),
    }
    if profile:
        warm_up, end = readings[0], readings[-1]
        result["sections"] = {name: end[name] - warm_up.get(name, 0.0) for name in end}
        obs_dim, act_dim = dimensions(gym.make(env))
        result["limit"] = breakdown.update_limit(
            batch=STEPS_PER_EPOCH,
            pi_sizes=(obs_dim, *HIDDEN_SIZES, act_dim),
            v_sizes=(obs_dim, *HIDDEN_SIZES, 1),
            pi_steps=sum(pi_steps[1:]),
            v_steps=TRAIN_V_ITERS * len(pi_steps[1:]),
            update_seconds=result["sections"]["update"],
        )
    return result


def last(returns):
    """The average return of the last epoch in which an episode ended; None if none did."""
    return returns[-1] if returns else None


def dimensions(env):
    """The number of inputs and of outputs of a policy network for `env`."""
    act = env.action_space
    return env.observation_space.shape[0], int(act.n) if hasattr(act, "n") else act.shape[0]


def sb3(env, num_envs, seed, steps, profile):
    """Stable-Baselines3's PPO at its defaults; an epoch is a rollout and its update."""
    import numpy as np
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    rollout_starts = []

    class LookAtTheClock(BaseCallback):
        def _on_rollout_start(self):
            rollout_starts.append(clocks())

        def _on_step(self):
            return True

    # A DummyVecEnv of monitored environments, which is also what PPO makes of an id given to it.
    model = PPO("MlpPolicy", make_vec_env(env, num_envs, seed=seed), seed=seed, device="cpu")
    steps_per_epoch = model.n_steps * num_envs
    epochs = epochs_for(steps, steps_per_epoch)
    model.learn(epochs * steps_per_epoch, callback=LookAtTheClock())
    minibatches = -(-steps_per_epoch // model.batch_size)
    returns = [episode["r"] for episode in model.ep_info_buffer]  # of the last 100 episodes
    return {
        "steps_per_epoch": steps_per_epoch,
        "epoch_ends": [*rollout_starts[1:], clocks()],
        "gradient_steps": [model.n_epochs * minibatches] * epochs,
        "last_return": np.mean(returns) if returns else None,
    }


def spinningup_torch(env, num_envs, seed, steps, profile):
    """Spinning Up's loop in plain PyTorch, with Spinning Up's defaults."""
    import gymnasium as gym
    from spinningup_torch import ppo

    epoch_ends, rows = [], []
    epochs = epochs_for(steps, STEPS_PER_EPOCH)
    for row in ppo(lambda: gym.make(env), ".", seed=seed, epochs=epochs):
        epoch_ends.append(clocks())
        rows.append(row)
    return {
        "steps_per_epoch": STEPS_PER_EPOCH,
        "epoch_ends": epoch_ends,
        "gradient_steps": [row["PiSteps"] + TRAIN_V_ITERS for row in rows],
        "last_return": last([row["AverageEpRet"] for row in rows if "AverageEpRet" in row]),
    }


def main():
    """Run what the argument asks for and write `result.json`."""
    spec = json.loads(sys.argv[1])
    bind_to_cores(spec.pop("cores"))
    run = {"spinup_tf2": spinup_tf2, "sb3": sb3, "spinningup_torch": spinningup_torch}
    result = run[spec.pop("contestant")](**spec)
    Path("result.json").write_text(json.dumps(result, default=float), encoding="utf-8")


if __name__ == "__main__":
    main()
