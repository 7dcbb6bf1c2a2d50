"""Shared pools for environments of EnvPool that are stepped together.

To wake a pool's thread and wait for it costs more than a step of most of these environments. In a
shared pool that happens once for all of them. Their episodes are the same as with pools of their
own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import wrappers
from gymnasium.utils.seeding import np_random

from spinup_tf2.envs.envpool.env import EnvPoolEnv
from spinup_tf2.envs.protocol import CheckedEnv
from spinup_tf2.envs.wrappers import wrappers_of

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


def _row(tree, which):
    if isinstance(tree, tuple):
        return tuple(_row(each, which) for each in tree)
    if isinstance(tree, Mapping):
        return {key: _row(value, which) for key, value in tree.items()}
    return tree[which]


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
