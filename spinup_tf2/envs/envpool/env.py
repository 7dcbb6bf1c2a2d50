"""Environments of EnvPool as environments of gymnasium.

EnvPool is a library of environments written in C++. It steps many environments at once, begins the
next episode by itself, one step late, and takes a seed only when a pool is made. `EnvPoolEnv` turns
one of them into an ordinary gymnasium environment. This module can be imported without EnvPool,
which comes with the `procgen` extra.
"""

from collections.abc import Mapping
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np

from spinup_tf2.envs.modules import import_installed
from spinup_tf2.errors import UserError, one_line

INSTALL = 'pip install "spinup_tf2[procgen]"'

# EnvPool's options that are fixed, as there is one environment, which `reset` seeds.
_OWN = ("num_envs", "batch_size", "num_threads", "max_num_players", "seed", "env_seed")
_OWN += ("gym_reset_return_info",)

_SEEDS = 2**31  # EnvPool takes seeds below this


class EnvPoolEnv(gym.Env):
    """One environment of EnvPool, in a pool of its own.

    As usual in gymnasium, the last step of an episode returns its final observation, and the next
    episode begins with `reset`.

    `reset(seed=...)` makes a new pool, because EnvPool cannot be seeded in any other way. What
    follows depends only on the seed and the actions, if the environment itself is deterministic.
    It takes from one to some ten milliseconds; the first time in a process, when images are loaded,
    it may take seconds. Without a seed, the next episode continues with the random numbers of the
    pool.

    Args:
        task_id: EnvPool's name of the environment, such as `Pong-v5`.
        render_mode: "rgb_array", or None.
        **options: EnvPool's options for this environment: numbers, True or False, and lists of
            numbers. Strings are refused, since some of them name files to load or programs to run.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012 (as gymnasium's)

    def __init__(self, task_id: str, *, render_mode: str | None = None, **options: Any):
        envpool = _import_envpool()
        if task_id not in envpool.list_all_envs():
            raise UserError(
                f"EnvPool {envpool.__version__} has no environment {task_id!r}. "
                'python -c "import envpool; print(envpool.list_all_envs())" lists them all.'
            )
        self._task_id, self._options, self.render_mode = task_id, options, render_mode
        with self._explained():
            known = envpool.make_spec(task_id).config._asdict()  # the options with their defaults
        for name, value in options.items():
            _check_option(name, value, known)
        if "channel_first" in known:  # networks take images as [height, width, channels]
            self._options = {"channel_first": False} | options
        with self._explained():
            spec = envpool.make_spec(task_id, **self._options)
        self.observation_space = spec.gymnasium_observation_space
        self.action_space = spec.gymnasium_action_space
        self._pool: Any = None  # made by `reset`
        self._offer: tuple[int, Any] | None = None

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        if seed is not None or self._pool is None:
            seed_of_pool = self.pool_seed(self.np_random)
            self._pool = None  # ends the old pool before a new one is made
            offered, place = self._offer or (None, None)
            self._pool = place if offered == seed_of_pool else self.make_pool([seed_of_pool])
            self._offer = None
        obs, info = self._pool.reset()
        return _first(obs), self._info(info)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        obs, rew, terminated, truncated, info = self._pool.step(np.asarray(action)[None])
        info = self._info(info)
        return _first(obs), float(rew[0]), bool(terminated[0]), bool(truncated[0]), info

    def render(self) -> np.ndarray | None:
        """Return the current frame, uint8 `[height, width, 3]`; None without a render mode."""
        return None if self.render_mode is None else self._pool.render()[0]

    def close(self) -> None:
        self._pool = None  # the pool's threads end with it

    @staticmethod
    def pool_seed(rng: np.random.Generator) -> int:
        """Draw the seed for EnvPool from the generator that `reset` has seeded."""
        return int(rng.integers(_SEEDS))

    def make_pool(self, seeds: list[int]) -> Any:
        """Make a pool of environments like this one, with these seeds and a single thread."""
        # One seed for each: from a single number, EnvPool derives other seeds.
        options = dict(self._options, num_envs=len(seeds), num_threads=1, seed=seeds)
        if self.render_mode is not None:
            options["render_mode"] = self.render_mode
        with self._explained():
            return _import_envpool().make_gymnasium(self._task_id, **options)

    def offer(self, seed: int, place: Any) -> None:
        """Offer a place in a shared pool, to be used if the next reset has the right seed.

        Args:
            seed: The result of `pool_seed` for which the place is to be used.
            place: Object with the methods of a pool of one environment, made with that seed.
        """
        self._offer = seed, place

    def described(self) -> tuple:
        """Return what environments must have in common to share a pool."""
        return self._task_id, self._options, self.render_mode

    def __getstate__(self):
        """Leave out the pool, which cannot be copied: a copy must be reset first."""
        return self.__dict__ | {"_pool": None, "_offer": None}

    def _info(self, info):
        """Return EnvPool's info for the one environment, without its ids."""
        ids = ("env_id", "players")
        return {key: _first(value) for key, value in info.items() if key not in ids}

    @contextmanager
    def _explained(self):
        """Context manager that turns errors of EnvPool into UserError."""
        try:
            yield
        except ImportError as error:
            raise UserError(
                f"{self._task_id} of EnvPool cannot be loaded ({one_line(error)}). If Qt is "
                "missing: apt-get install libqt5gui5, or dnf install qt5-qtbase."
            ) from error
        except (AssertionError, RuntimeError, TypeError, ValueError) as error:
            raise UserError(
                f"EnvPool cannot make {self._task_id} with {self._options}: {one_line(error)}"
            ) from error


def _first(tree):
    """Remove the first axis of the arrays that a pool of one returns."""
    if isinstance(tree, Mapping):
        return {key: _first(value) for key, value in tree.items()}
    return tree[0]


def _import_envpool():
    try:
        return import_installed("envpool")  # not a file next to a run
    except ImportError as error:
        raise UserError(
            f"EnvPool cannot be loaded ({one_line(error)}); install it with: {INSTALL}. It needs "
            "Python 3.11 or newer, and Linux is where it is tested."
        ) from error


def _check_option(name, value, known):
    if name not in known or name in _OWN or not _is_plain(value):
        raise UserError(
            f"EnvPool's option {name}={value!r} is not passed on: its name has to be one of "
            f"{', '.join(sorted({*known} - {*_OWN}))}, and its value a number, True, False or a "
            "list of numbers, because texts may name files and programs."
        )


def _is_plain(value):
    values = value if isinstance(value, list | tuple) else [value]
    return all(isinstance(each, bool | int | float) for each in values)
