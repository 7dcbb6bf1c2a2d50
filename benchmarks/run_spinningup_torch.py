"""A run of Spinning Up's loop in plain PyTorch, measured."""

import gymnasium as gym
from measure import STEPS_PER_EPOCH, clocks, epochs_for, last
from spinningup_torch import ppo
from torch.distributions import Distribution

TRAIN_V_ITERS = 80


def on_policy(algorithm, env, num_envs, seed, steps, profile):
    """PPO at Spinning Up's defaults."""
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


def checked(**spec):
    """The same with the checks of arguments that PyTorch makes by default today."""
    Distribution.set_default_validate_args(True)
    return on_policy(**spec)
