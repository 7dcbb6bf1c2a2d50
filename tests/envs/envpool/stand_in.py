"""A stand-in for EnvPool: its functions and its ways, with an environment that counts."""

import types
from collections import namedtuple

import gymnasium as gym
import numpy as np

TASKS = ("Count-v0", "BigfishEasy-v0", "BigfishHard-v0", "CoinrunEasy-v0")
LENGTH = 5  # of an episode that nothing ends before

_CONFIG = dict(
    **dict(num_envs=1, batch_size=1, num_threads=0, max_num_players=1, seed=42, env_seed=[]),
    **dict(
        base_path="/assets", gym_reset_return_info=True, num_levels=0, start_level=0, length=LENGTH
    ),
)


class Pool:
    """EnvPool's of n environments: an observation is `[level, steps]`, action 1 ends an episode.

    A step after an episode's last one begins the next, and does nothing else. Levels are drawn from
    each environment's own random numbers.
    """

    made = 0  # of all pools

    def __init__(self, task_id, config, channels_last):
        type(self).made += 1
        self.config, self.seeds = config, config["seed"]
        n = config["num_envs"]
        assert len(self.seeds) == n
        assert config["num_threads"] == 1
        self._image = (64, 64, 3) if channels_last else None
        self._rngs = [np.random.default_rng(seed) for seed in self.seeds]
        self._levels, self._times = np.zeros(n, np.int32), np.zeros(n, np.int32)
        self._over = np.ones(n, bool)
        self._sent = None
        self.steps = 0  # how often it has been waited for

    def _begin(self, i):
        low, number = self.config["start_level"], self.config["num_levels"] or 10**6
        self._levels[i] = low + self._rngs[i].integers(number)
        self._times[i], self._over[i] = 0, False

    def _answer(self, ids):
        obs = np.stack([self._levels[ids], self._times[ids]], axis=1).astype(np.float32)
        if self._image:
            obs = np.zeros((len(ids), *self._image), np.uint8) + self._times[ids, None, None, None]
            obs = obs.astype(np.uint8)
        numbers = dict(env_id=ids, players=dict(env_id=ids), elapsed_step=self._times[ids])
        done = np.zeros(len(ids), np.int32)
        return obs, numbers | dict(level_seed=self._levels[ids], prev_level_complete=done)

    def reset(self, env_id=None):
        assert self._sent is None, "actions are on their way"
        ids = np.arange(len(self.seeds), dtype=np.int32) if env_id is None else env_id
        for i in ids:
            self._begin(i)
        return self._answer(ids)

    def send(self, action, env_id=None):
        assert self._sent is None, "actions are on their way"
        ids = np.arange(len(self.seeds), dtype=np.int32) if env_id is None else env_id
        assert action.shape == ids.shape
        self._sent = action, ids

    def recv(self):
        (actions, ids), self._sent = self._sent, None
        self.steps += 1
        rew = np.zeros(len(ids), np.float32)
        terminated, truncated = np.zeros(len(ids), bool), np.zeros(len(ids), bool)
        for k, (i, action) in enumerate(zip(ids, actions, strict=True)):
            if self._over[i]:
                self._begin(i)
                continue
            self._times[i] += 1
            rew[k], terminated[k] = self._times[i], action == 1
            truncated[k] = not terminated[k] and self._times[i] == self.config["length"]
            self._over[i] = terminated[k] or truncated[k]
        obs, info = self._answer(ids)
        info["prev_level_complete"] = terminated.astype(np.int32)
        return obs, rew, terminated, truncated, info

    def step(self, action, env_id=None):
        self.send(action, env_id)
        return self.recv()

    def render(self):
        return np.full((1, 64, 64, 3), self._times[0], np.uint8)


def _known(task_id):
    return _CONFIG | (dict(channel_first=True) if task_id != "Count-v0" else {})


def _make_spec(task_id, **options):
    config = _known(task_id) | options
    image = (64, 64, 3) if not config.get("channel_first", True) else (3, 64, 64)
    pictures = gym.spaces.Box(0, 255, image, np.uint8)
    numbers = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    return types.SimpleNamespace(
        config=namedtuple("Config", config)(**config),
        gymnasium_observation_space=pictures if "channel_first" in config else numbers,
        gymnasium_action_space=gym.spaces.Discrete(15),
    )


def _make_gymnasium(task_id, render_mode=None, **options):
    if options.get("length") == 0:
        raise RuntimeError("no steps")
    return Pool(task_id, _known(task_id) | options, not options.get("channel_first", True))


def envpool_stand_in():
    """The module."""
    module = types.ModuleType("envpool")
    module.__version__ = "0"
    module.list_all_envs = lambda: [*TASKS]
    module.make_spec, module.make_gymnasium = _make_spec, _make_gymnasium
    return module
