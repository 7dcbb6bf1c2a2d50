"""Environments in threads of one process, for those that release the GIL while they work.

Emulators and simulators written in C or C++ are such. Threads need no copies of what is sent
between processes, no start and no memory of their own.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import iterate


class ThreadsVectorEnv(SyncVectorEnv):
    """gymnasium's SyncVectorEnv, whose environments are stepped by several threads.

    No environment is ever in two threads at a time, and results are those of one thread. One whose
    episode ends is reset by its thread at once (SAME_STEP).

    pool: the threads, which others may use as well. Closing the environments closes it.
    """

    def __init__(self, env_fns: Sequence[Callable[[], gym.Env]], pool: ThreadPoolExecutor):
        self._pool = pool
        self._begun = None  # futures, and the actions
        makers = [lambda make=make: _EnvInThread(make(), self._pool) for make in env_fns]
        super().__init__(makers, autoreset_mode=AutoresetMode.SAME_STEP)

    def reset(
        self, *, seed: list[int] | None = None, options: dict | None = None
    ) -> tuple[np.ndarray, dict]:
        if options is None:  # those with options, which are rare, are done one after the other
            seeds = seed or [None] * self.num_envs
            # Where one raises, none of the others may still be at work when this returns.
            wait([env.begin_reset(each) for env, each in zip(self.envs, seeds, strict=True)])
        return super().reset(seed=seed, options=options)

    def step_async(self, actions: np.ndarray) -> None:
        """Begin a step; `step_wait` returns what it leads to."""
        each = iterate(self.action_space, actions)
        futures = [env.begin_step(action) for env, action in zip(self.envs, each, strict=True)]
        self._begun = futures, actions

    def step_wait(self) -> tuple:
        """Wait for the step that has been begun; returns what `step` does."""
        (futures, actions), self._begun = self._begun, None
        wait(futures)
        return super().step(actions)

    def step(self, actions: np.ndarray) -> tuple:
        self.step_async(actions)
        return self.step_wait()

    def close_extras(self, **kwargs: Any) -> None:
        self._pool.shutdown(cancel_futures=True)  # which waits for what is being done
        super().close_extras(**kwargs)


class _EnvInThread(gym.Wrapper):
    """An environment that begins in a thread what it is asked for afterwards.

    What has not been begun is done where it is asked for.
    """

    def __init__(self, env, pool):
        super().__init__(env)
        self._pool = pool
        self._step = self._reset = None  # return what has been begun

    def begin_reset(self, seed) -> Future:
        future = self._pool.submit(self.env.reset, seed=seed)
        self._reset = future.result
        return future

    def begin_step(self, action) -> Future:
        future = self._pool.submit(self._step_and_reset, action)
        self._step = future.result
        return future

    def _step_and_reset(self, action):
        result = self.env.step(action)
        _, _, terminated, truncated, _ = result
        return result, self.env.reset() if terminated or truncated else None

    def reset(self, *, seed=None, options=None):
        begun, self._reset = self._reset, None
        return self.env.reset(seed=seed, options=options) if begun is None else begun()

    def step(self, action):
        begun, self._step = self._step, None
        if begun is None:
            return self.env.step(action)
        result, first = begun()
        self._reset = None if first is None else lambda: first
        return result
