"""Runs of our own algorithms at their defaults, measured from outside."""

from itertools import pairwise

import breakdown
import gymnasium as gym
import pandas as pd
from measure import DQN, STEPS_PER_EPOCH, UPDATE_AFTER, clocks, epochs_for, last

import spinup_tf2
from spinup_tf2 import EpochLogger
from spinup_tf2.core.update_block import UpdateBlock

TRAIN_PI_ITERS = 80
TRAIN_V_ITERS = 80
A2C_STEPS = 5  # of each environment between two updates
ON_POLICY_HIDDEN_SIZES = (64, 64)
OFF_POLICY_HIDDEN_SIZES = (256, 256)
BATCH_SIZE = 100
POLICY_DELAY = {"sac": 1, "td3": 2, "ddpg": 1}


def train(algorithm, env, num_envs, seed, steps, stopwatch, epoch_over=lambda: None, **settings):
    """Train, and return what was measured and the run's table.

    An epoch ends when the logger has written its row; then `epoch_over` is called. What the
    stopwatch says of all epochs but the first becomes `sections`.
    """
    epoch_ends, readings = [], []
    dump_tabular = EpochLogger.dump_tabular

    def dump_tabular_and_look_at_the_clock(logger):
        dump_tabular(logger)
        epoch_ends.append(clocks())
        readings.append(stopwatch.read())
        epoch_over()

    EpochLogger.dump_tabular = dump_tabular_and_look_at_the_clock
    getattr(spinup_tf2, algorithm)(
        env,
        seed=seed,
        steps_per_epoch=STEPS_PER_EPOCH,
        epochs=epochs_for(steps, STEPS_PER_EPOCH),
        logger_kwargs={"output_dir": "run"},
        num_envs=num_envs,
        **settings,
    )
    warm_up, end = readings[0], readings[-1]
    progress = pd.read_table("run/progress.txt")
    return {
        "steps_per_epoch": STEPS_PER_EPOCH,
        "epoch_ends": epoch_ends,
        "last_return": last(progress["AverageEpRet"].dropna().tolist()),
        "sections": {name: end[name] - warm_up.get(name, 0.0) for name in end},
    }, progress


def dimensions(env):
    """The number of inputs and of outputs of a policy network for `env`."""
    obs, act = gym.make(env).observation_space, gym.make(env).action_space
    return obs.shape[0], int(act.n) if hasattr(act, "n") else act.shape[0]


def on_policy(algorithm, env, num_envs, seed, steps, profile):
    """PPO, TRPO, VPG or A2C at their defaults."""
    stopwatch = breakdown.Stopwatch()
    if profile:
        stopwatch.watch(breakdown.ON_POLICY_SECTIONS)
    result, progress = train(algorithm, env, num_envs, seed, steps, stopwatch)
    if algorithm != "ppo":
        own = STEPS_PER_EPOCH // (A2C_STEPS * num_envs) if algorithm == "a2c" else 1 + TRAIN_V_ITERS
        return result | {"gradient_steps": [own] * len(progress)}
    # StopIter stays at 79 when all 80 steps are taken.
    pi_steps = progress["StopIter"].replace(TRAIN_PI_ITERS - 1, TRAIN_PI_ITERS).tolist()
    result["gradient_steps"] = [pi + TRAIN_V_ITERS for pi in pi_steps]
    if profile:
        obs_dim, act_dim = dimensions(env)
        sizes_of_pi = (obs_dim, *ON_POLICY_HIDDEN_SIZES, act_dim)
        sizes_of_v = (obs_dim, *ON_POLICY_HIDDEN_SIZES, 1)
        pi_step = breakdown.gradient_step_matmuls(STEPS_PER_EPOCH, sizes_of_pi)
        v_step = breakdown.gradient_step_matmuls(STEPS_PER_EPOCH, sizes_of_v)
        counts = [sum(pi_steps[1:]), TRAIN_V_ITERS * len(pi_steps[1:])]
        result["limit"] = breakdown.update_limit(
            [*zip(counts, [pi_step, v_step], strict=True)],
            gradient_steps=sum(counts),
            update_seconds=result["sections"]["update"],
        )
    return result


def off_policy(algorithm, env, num_envs, seed, steps, profile, num_test_episodes=0):
    """SAC, TD3 or DDPG at their defaults, but for a shorter start and for the evaluation.

    DQN has CleanRL's settings, one update for ten interactions, and no share of the limit.
    """
    settings = {}
    if algorithm == "dqn":
        settings = DQN | dict(num_updates=1, double_q=False, huber=False)
        settings["ac_kwargs"] = dict(hidden_sizes=settings.pop("hidden_sizes"))
    stopwatch = breakdown.Stopwatch()
    if profile:
        stopwatch.watch(breakdown.OFF_POLICY_SECTIONS)
    updates, updates_by_epoch = 0, []
    call = UpdateBlock.__call__

    def call_and_count(block, batches, first):
        nonlocal updates
        updates += len(batches["obs"])
        return call(block, batches, first)

    UpdateBlock.__call__ = call_and_count
    result, _ = train(
        algorithm,
        env,
        num_envs,
        seed,
        steps,
        stopwatch,
        epoch_over=lambda: updates_by_epoch.append(updates),
        start_steps=UPDATE_AFTER,
        update_after=UPDATE_AFTER,
        num_test_episodes=num_test_episodes,
        **settings,
    )
    result["gradient_steps"] = [
        after - before for before, after in pairwise([0, *updates_by_epoch])
    ]
    result["steps_without_updates"] = UPDATE_AFTER
    if profile and algorithm != "dqn":
        timed = sum(result["gradient_steps"][1:])
        q_step, pi_step = breakdown.off_policy_update_matmuls(
            algorithm, BATCH_SIZE, *dimensions(env), OFF_POLICY_HIDDEN_SIZES
        )
        result["limit"] = breakdown.update_limit(
            [(timed, q_step), (timed / POLICY_DELAY[algorithm], pi_step)],
            gradient_steps=timed,
            update_seconds=result["sections"]["update"],
        )
    return result


def off_policy_evaluating(**spec):
    """The same with Spinning Up's evaluation: ten episodes at the end of each epoch."""
    return off_policy(**spec, num_test_episodes=10)
