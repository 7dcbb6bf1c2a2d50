"""Any environment of EnvPool, as an environment of gymnasium.

EnvPool is a library of environments written in C++. It steps many of them at once, begins the next
episode by itself, one step late, and takes a seed only when it is made. `EnvPoolEnv` is one of
them, which does none of that. This module can be imported without EnvPool, which comes with the
`procgen` extra.
"""

import sys
from collections.abc import Mapping
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from spinup_tf2.envs.modules import import_installed
from spinup_tf2.errors import UserError, one_line

INSTALL = 'pip install "spinup_tf2[procgen]"'

# EnvPool's options that follow from there being one environment, which is seeded by `reset`.
_OWN = ("num_envs", "batch_size", "num_threads", "max_num_players", "seed", "env_seed")

_SEEDS = 2**31  # EnvPool takes those below it


class EnvPoolEnv(gym.Env):
    """One environment of EnvPool, in a pool of its own.

    An episode ends with its own last observation, and the next one begins with `reset`.

    `reset(seed=...)` makes the pool anew, because EnvPool can be seeded in no other way: what
    follows depends on the seed and on the actions alone, as far as the environment itself is
    deterministic. It takes from one to some ten milliseconds; the first time in a process, when
    pictures are loaded, it may take seconds. Without a seed the next episode goes on with the
    random numbers of the pool.

    Args:
        task_id: EnvPool's name of the environment, such as `Pong-v5`.
        render_mode: "rgb_array", or None.
        **options: EnvPool's options of this environment: numbers, True or False, and lists of
            numbers. Texts are refused, since some of them name files to load and programs to run.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012 (as gymnasium's)

    def __init__(self, task_id: str, *, render_mode: str | None = None, **options: Any):
        for name, value in options.items():
            _check_option(name, value)
        envpool = _import_envpool()
        if task_id not in envpool.list_all_envs():
            raise UserError(
                f"EnvPool {envpool.__version__} has no environment {task_id!r}. "
                'python -c "import envpool; print(envpool.list_all_envs())" lists them all.'
            )
        self._task_id, self._options, self.render_mode = task_id, options, render_mode
        with self._explained():
            known = envpool.make_spec(task_id).config._asdict()  # with their values by default
        self._check_known(known)
        if "channel_first" in known:  # networks take images as [height, width, channels]
            self._options = {"channel_first": False} | options
        with self._explained():
            spec = envpool.make_spec(task_id, **self._options)
        self.observation_space = spec.gymnasium_observation_space
        self.action_space = spec.gymnasium_action_space
        if not isinstance(self.action_space, spaces.Box | spaces.Discrete):
            raise UserError(f"{task_id} of EnvPool takes several actions at once, or has players.")
        self._pool: Any = None  # is made by `reset`
        self._offer: tuple[int, Any] | None = None

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        if seed is not None or self._pool is None:
            seed_of_pool = self.pool_seed(self.np_random)
            self._pool = None  # the old one ends before there is another
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
        """The picture that the environment shows, uint8 `[height, width, 3]`."""
        return None if self.render_mode is None else self._pool.render()[0]

    def close(self) -> None:
        self._pool = None  # whose threads end with it

    @staticmethod
    def pool_seed(rng: np.random.Generator) -> int:
        """The seed for EnvPool, drawn from what gymnasium has made of the seed of `reset`."""
        return int(rng.integers(_SEEDS))

    def make_pool(self, seeds: list[int]) -> Any:
        """A pool of environments like this one, with these seeds; it has one thread."""
        # A seed for each: EnvPool makes other numbers of a single one.
        options = dict(self._options, num_envs=len(seeds), num_threads=1, seed=seeds)
        if self.render_mode is not None:
            options["render_mode"] = self.render_mode
        with self._explained():
            return _import_envpool().make_gymnasium(self._task_id, **options)

    def offer(self, seed: int, place: Any) -> None:
        """A place in a shared pool, instead of a pool of its own, if the next reset has its seed.

        Args:
            seed: A `pool_seed`.
            place: With the methods of a pool of one that has been made with that seed.
        """
        self._offer = seed, place

    def described(self) -> tuple:
        """What environments that share a pool have in common."""
        return self._task_id, self._options, self.render_mode

    def __getstate__(self):
        """A copy begins with its own first reset: pools cannot be copied."""
        return self.__dict__ | {"_pool": None, "_offer": None}

    def _info(self, info):
        """What EnvPool tells of the one environment, without its number."""
        return {key: _first(value) for key, value in info.items() if key not in _NUMBERS}

    def _check_known(self, known):
        names = sorted(name for name, value in known.items() if _may_be_given(name, value))
        for name in self._options:
            if name not in known:
                raise UserError(
                    f"{self._task_id} of EnvPool has no option {name!r}. Its options: "
                    f"{', '.join(names)}."
                )

    @contextmanager
    def _explained(self):
        """What EnvPool raises becomes a UserError."""
        try:
            yield
        except ImportError as error:
            raise UserError(_cannot_be_loaded(self._task_id, error)) from error
        except (AssertionError, RuntimeError, TypeError, ValueError) as error:
            raise UserError(
                f"EnvPool cannot make {self._task_id} with {self._options}: {one_line(error)}"
            ) from error


_NUMBERS = ("env_id", "players")


def _first(tree):
    """What a pool of one returns, of this one: arrays without their first axis."""
    if isinstance(tree, Mapping):
        return {key: _first(value) for key, value in tree.items()}
    return tree[0]


# ---------------------------------------------------------------- what can go wrong


def _import_envpool():
    try:
        return import_installed("envpool")  # and not what lies beside a run
    except ImportError as error:
        message = f"EnvPool cannot be loaded ({one_line(error)}); install it with: {INSTALL}."
        if sys.version_info < (3, 11):
            message += " It needs Python 3.11 or newer."
        if sys.platform != "linux":
            message += " On this system nobody has tried it with this package; Linux is tested."
        raise UserError(message) from error


def _cannot_be_loaded(task_id, error):
    if "Qt" in str(error):
        return (
            f"{task_id} draws with Qt 5, which this machine lacks and EnvPool does not bring "
            "along on Linux; install it with: apt-get install libqt5gui5 (Debian, Ubuntu) or "
            "dnf install qt5-qtbase (Fedora)."
        )
    return f"{task_id} of EnvPool cannot be loaded ({one_line(error)})."


def _check_option(name, value):
    if name in _OWN:
        raise UserError(
            f"{name} is not an option here: there is one environment in a pool. --num_envs says "
            "how many environments are trained in, and reset takes the seed."
        )
    if not _is_plain(value):
        raise UserError(
            f"EnvPool's option {name} is {value!r}; only numbers, True, False and lists of numbers "
            "are passed on, because texts may name files and programs."
        )


def _is_plain(value):
    if isinstance(value, list | tuple):
        return all(isinstance(each, bool | int | float) for each in value)
    return isinstance(value, bool | int | float)


def _may_be_given(name, value):
    return name not in (*_OWN, "gym_reset_return_info") and _is_plain(value)
