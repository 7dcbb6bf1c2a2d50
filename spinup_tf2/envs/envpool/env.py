"""Environments of EnvPool as environments of gymnasium.

EnvPool is a library of environments written in C++. It steps many environments at once, begins the
next episode by itself, one step late, and takes a seed only when a pool is made. `EnvPoolEnv` turns
one of them into an ordinary gymnasium environment. This module can be imported without EnvPool,
which comes with the `procgen` extra.

To wake a pool's thread and wait for it costs more than a step of most of these environments. In a
`SharedPool` that happens once for all that are stepped together. Their episodes stay the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import wrappers
from gymnasium.utils.seeding import np_random

from spinup_tf2.envs.modules import import_installed
from spinup_tf2.envs.protocol import CheckedEnv
from spinup_tf2.envs.wrappers import wrappers_of
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
        return _row(obs, 0), self._info(info)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        obs, rew, terminated, truncated, info = self._pool.step(np.asarray(action)[None])
        info = self._info(info)
        return _row(obs, 0), float(rew[0]), bool(terminated[0]), bool(truncated[0]), info

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
        return {key: _row(value, 0) for key, value in info.items() if key not in ids}

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


def _row(tree, which):
    """Return some environments' part, an index or a slice, of what a pool has returned."""
    if isinstance(tree, tuple):
        return tuple(_row(each, which) for each in tree)
    if isinstance(tree, Mapping):
        return {key: _row(value, which) for key, value in tree.items()}
    return tree[which]


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


# ---------------------------------------------------------------- shared pools

# `step` functions of wrappers that take exactly one step with the given action.
_PASS_ON = {
    *(gym.Wrapper.step, gym.ObservationWrapper.step, gym.RewardWrapper.step, CheckedEnv.step),
    *(wrappers.OrderEnforcing.step, wrappers.PassiveEnvChecker.step),
    *(wrappers.TimeLimit.step, wrappers.RecordEpisodeStatistics.step),
}


class SharedPool:
    """One pool for several environments.

    `reset` offers each environment a place in a new pool, which it takes when it is reset with its
    seed. `begin` begins a step of all environments; each gets its result when its own `step` is
    called. An environment that has been replaced since, or that is stepped or reset alone, does not
    affect the others.

    Args:
        envs: Environments with the same id, options and render mode.
    """

    def __init__(self, envs: Sequence[EnvPoolEnv]):
        self._envs = envs
        self._pool: Any = None
        self._sent = False  # whether actions have been sent, but no results received
        self._rows: dict[int, tuple] = {}  # results that have not been fetched, by environment

    def reset(self, seeds: Sequence[int | None]) -> None:
        """Make the pool for environments that will be reset with these seeds.

        If one of the seeds is None, no pool is made.
        """
        self._pool, self._sent, self._rows = None, False, {}
        if any(seed is None for seed in seeds):
            return
        own = [EnvPoolEnv.pool_seed(np_random(seed)[0]) for seed in seeds]
        self._pool = self._envs[0].make_pool(own)
        self._rows = _rows(self._pool.reset(), len(own))
        for i, (env, seed) in enumerate(zip(self._envs, own, strict=True)):
            env.offer(seed, _Place(self, i))

    def begin(self, actions: np.ndarray) -> None:
        """Begin a step of all environments."""
        if self._pool is not None:
            self.receive()
            self._pool.send(np.asarray(actions))
            self._sent = True

    def receive(self) -> None:
        """Wait for the results of a step that has been begun, if there is one."""
        if self._sent:
            self._rows = _rows(self._pool.recv(), len(self._envs))
            self._sent = False

    def ask(self, i: int, call: str, *args: Any, fresh: bool = False) -> tuple:
        """Return the result of environment i, for which `begin` or `reset` has asked.

        If it has been fetched, or is not wanted (`fresh`), call the pool for it alone.
        """
        self.receive()
        row = self._rows.pop(i, None)
        if row is None or fresh:
            return getattr(self._pool, call)(*args, np.array([i], np.int32))
        return row


class _Place:
    """One environment of a SharedPool, with the interface of a pool of one."""

    def __init__(self, shared, i):
        self._shared, self._i, self._again = shared, i, False

    def reset(self):
        again, self._again = self._again, True
        return self._shared.ask(self._i, "reset", fresh=again)

    def step(self, action):
        return self._shared.ask(self._i, "step", action)


def _rows(result, n):
    """Split the result of a pool of n into results as from n pools of one, by environment."""
    return {i: _row(result, slice(i, i + 1)) for i in range(n)}


def share(envs: Sequence[gym.Env], pass_on: Collection[Callable] = ()) -> SharedPool | None:
    """Return a shared pool for environments that are stepped together; None if that is impossible.

    They must be equal environments of EnvPool, without rendering, and their wrappers must pass
    actions on unchanged.

    Args:
        envs: The environments, with their wrappers.
        pass_on: `step` functions of further wrappers that do so.
    """
    bare = [env.unwrapped for env in envs]
    if len(envs) < 2 or not all(isinstance(env, EnvPoolEnv) for env in bare):
        return None
    alike = all(env.described() == bare[0].described() for env in bare)
    drawn = bare[0].render_mode is not None
    steps = {*_PASS_ON, *pass_on}
    plain = all(type(wrapper).step in steps for env in envs for wrapper in wrappers_of(env))
    return SharedPool(bare) if alike and plain and not drawn else None
