"""A run of Stable-Baselines3, or sbx, for `time_to_score.py`.

Prints "reached" when it is at the score.
"""

import importlib
import json
import sys

import numpy as np
from stable_baselines3.common.callbacks import EvalCallback, StopTrainingOnRewardThreshold
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.noise import OrnsteinUhlenbeckActionNoise
from stable_baselines3.common.vec_env import VecNormalize


def schedule(value):
    """A value that falls linearly to 0 if it is given as lin_VALUE, as in RL Baselines3 Zoo."""
    if not isinstance(value, str):
        return value
    start = float(value.removeprefix("lin_"))
    return lambda left: left * start


def main(library, algorithm, env, seed, score, every, episodes, timesteps, n_envs=1, **settings):
    """Train until an evaluation reaches the score, or all steps are taken."""
    normalize = settings.pop("normalize", False)
    envs, tests = make_vec_env(env, n_envs, seed=seed), make_vec_env(env, 1, seed=seed + 1000)
    if normalize:
        envs = VecNormalize(envs, gamma=settings["gamma"])
        tests = VecNormalize(tests, training=False, norm_reward=False)
    settings = {name: schedule(value) for name, value in settings.items()}
    if std := settings.pop("ou_noise", None):
        zeros = np.zeros(envs.action_space.shape)
        settings["action_noise"] = OrnsteinUhlenbeckActionNoise(zeros, zeros + std)
    make = getattr(importlib.import_module(library), algorithm.upper())
    model = make("MlpPolicy", envs, seed=seed, device="cpu", **settings)
    stop = StopTrainingOnRewardThreshold(score)
    test = EvalCallback(
        tests,
        callback_on_new_best=stop,
        n_eval_episodes=episodes,
        eval_freq=every // n_envs,
        verbose=0,
    )
    model.learn(timesteps, callback=test)
    if test.best_mean_reward >= score:
        print("reached")


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
