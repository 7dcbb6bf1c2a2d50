"""Small training runs, and environments for them."""

import inspect
from collections.abc import Callable
from pathlib import Path

import gymnasium as gym
import numpy as np
from gymnasium import spaces

# The columns that every on-policy algorithm begins with.
COLUMNS = [
    *("Epoch", "AverageEpRet", "StdEpRet", "MaxEpRet", "MinEpRet", "EpLen"),
    *("AverageVVals", "StdVVals", "MaxVVals", "MinVVals", "TotalEnvInteracts"),
]


def make(env_id: str = "CartPole-v1", **kwargs):
    return lambda: gym.make(env_id, **kwargs)


def train(algorithm: Callable, path: Path, env_fn: Callable | None = None, **kwargs):
    """A run, small unless `kwargs` say otherwise, of CartPole if no `env_fn` is given.

    Returns the actor-critic and the rows of progress.txt, as dicts of strings.
    """
    small = dict(steps_per_epoch=200, epochs=2, train_v_iters=5)
    known = inspect.signature(algorithm).parameters
    small = {name: value for name, value in small.items() if name in known}
    logger_kwargs = dict(output_dir=str(path), exp_name="test", quiet=True)
    ac = algorithm(env_fn or make(), **{**small, **kwargs}, logger_kwargs=logger_kwargs)
    header, *rows = (line.split("\t") for line in (path / "progress.txt").read_text().splitlines())
    return ac, [dict(zip(header, row, strict=True)) for row in rows]


class FromShow(gym.Env):
    """An environment whose observations come from `_show()`; it counts the steps in `t`."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._show(), {}


class Identity(FromShow):
    """Do what you see: the reward is highest for the action that is shown as the observation.

    action_space: Discrete (reward 1 for the action shown as a one-hot vector, else 0) or Box
    (minus the squared distance). Every step shows something new; an episode has ten.
    """

    def __init__(self, action_space: spaces.Space):
        self.action_space = action_space
        self.observation_space = spaces.Box(-1, 1, (spaces.flatdim(action_space),), np.float32)

    def _show(self):
        if isinstance(self.action_space, spaces.Discrete):
            self.wanted = int(self.np_random.integers(self.action_space.n))
            return np.eye(self.action_space.n, dtype=np.float32)[self.wanted]
        self.wanted = self.np_random.uniform(-1, 1, self.action_space.shape).astype(np.float32)
        return self.wanted

    def step(self, action):
        self.t += 1
        if isinstance(self.action_space, spaces.Discrete):
            reward = float(action == self.wanted)
        else:
            reward = -float(np.sum(np.square(action - self.wanted)))
        return self._show(), reward, self.t == 10, False, {}


class Walk(gym.Env):
    """A random walk; an episode ends at +-3, or is cut off after 7 steps."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = 0.0, 0
        return np.array([self.x, self.np_random.normal()], np.float32), {}

    def step(self, action):
        self.x, self.t = self.x + int(action) - 1, self.t + 1
        obs = np.array([self.x, self.np_random.normal()], np.float32)
        return obs, obs[1], abs(self.x) >= 3, self.t == 7, {}
