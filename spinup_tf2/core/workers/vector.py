"""Vector environments: stepped one after the other, by threads, or in processes of their own."""

import multiprocessing.util
import os
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for_threads
from contextlib import suppress
from functools import partial
from multiprocessing.connection import wait
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import iterate

from spinup_tf2.core.workers.episodes import RecordedEpisodes, recorder_of
from spinup_tf2.core.workers.faults import EnvironmentFailure, SupervisedEnv
from spinup_tf2.envs.envpool.env import share
from spinup_tf2.envs.protocol import CheckedEnv
from spinup_tf2.envs.spaces import flatten_observations
from spinup_tf2.errors import UserError
from spinup_tf2.parallel.launch import start_fork_server
from spinup_tf2.parallel.launched import threads_per_rank

CLOSING_PATIENCE = 30.0  # seconds for environments in processes of their own to close
PATIENCE_AFTER_FAULT = 2.0  # the same, after one of them has failed

# Observations need no copies here: VectorEnv converts them, which creates one.
_SETTINGS: dict[str, Any] = dict(autoreset_mode=AutoresetMode.SAME_STEP, copy=False)


def make_groups(
    env_fn: Callable[[], gym.Env],
    prototype: gym.Env,
    labels: Sequence[str],
    seeds: Sequence[int],
    max_ep_len: int,
    vectorization: str,
    env_retries: int,
) -> "list[tuple[SerialVectorEnv | ThreadsVectorEnv | ProcessVectorEnv, slice]]":
    """Return groups of environments that are stepped independently, and which these are.

    There is a single one, or for threads two halves.

    Args:
        env_fn, max_ep_len, env_retries: See VectorEnv.
        prototype: An environment that is none of these.
        labels: Names of the environments in messages.
        seeds: Their first seeds.
        vectorization: 'sync' steps one after the other in this process. 'async' gives each a
            process of its own (the fork server's: scripts need `if __name__ == "__main__":`), which
            pays off when a step takes longer than about 0.1 ms. 'threads' shares them among as many
            threads as the process may have, which pays off for environments that release the GIL
            while they work, such as emulators and simulators written in C or C++; they form two
            groups, so that one works while the policy acts for the other.
    """
    make = partial(_make_env, env_fn, max_ep_len, (os.getpid(), id(prototype.unwrapped)))
    makers = [
        partial(SupervisedEnv, make, label, env_retries, os.getpid(), seed)
        for label, seed in zip(labels, seeds, strict=True)
    ]
    every = slice(0, len(makers))
    if vectorization == "async":
        return [(ProcessVectorEnv(makers, labels), every)]
    if vectorization == "sync":
        return [(SerialVectorEnv(makers), every)]
    half = (len(makers) + 1) // 2
    pool = ThreadPoolExecutor(min(threads_per_rank(), len(makers)), "environments")
    halves = slice(0, half), slice(half, len(makers))
    return [(ThreadsVectorEnv(makers[each], pool), each) for each in halves if makers[each]]


def _make_env(env_fn, max_ep_len, prototype):
    """Create one environment; `prototype` is the process id and the `id` of the prototype."""
    checked = CheckedEnv(env_fn(), max_ep_len)
    if (os.getpid(), id(checked.unwrapped)) == prototype:
        raise UserError(
            "env_fn returned the same environment twice. Each call must make a new one, such as "
            "lambda: gymnasium.make('CartPole-v1'): training and tests step them independently."
        )
    env = flatten_observations(checked)
    return env if recorder_of(env) is None else RecordedEpisodes(env)


class SerialVectorEnv(SyncVectorEnv):
    """gymnasium's SyncVectorEnv with `step_async` and `step_wait`; the latter does all the work.

    Environments of EnvPool share a pool, which works between the two calls.
    """

    def __init__(self, env_fns: Sequence[Callable[[], gym.Env]]):
        super().__init__(env_fns, **_SETTINGS)
        self._pool = share(self.envs, [SupervisedEnv.step, RecordedEpisodes.step])

    def reset(
        self, *, seed: list[int | None] | None = None, options: dict | None = None
    ) -> tuple[np.ndarray, dict]:
        if self._pool is not None:
            self._pool.reset(seed or [None])
        return super().reset(seed=seed, options=options)

    def step_async(self, actions: np.ndarray) -> None:
        self._begun = actions
        if self._pool is not None:
            self._pool.begin(actions)

    def step_wait(self) -> tuple:
        return self.step(self._begun)


class ThreadsVectorEnv(SyncVectorEnv):
    """gymnasium's SyncVectorEnv, whose environments are stepped by several threads.

    Compared with processes, threads need no copies of data, no start-up time and no memory of their
    own. No environment is ever used by two threads at the same time, and results are the same as
    with one thread. When an episode ends, the thread resets the environment at once (SAME_STEP).

    Args:
        env_fns: Functions that create one environment each.
        pool: The threads, which others may use as well. Closing the environments shuts them down.
    """

    envs: Any  # each an _EnvInThread

    def __init__(self, env_fns: Sequence[Callable[[], gym.Env]], pool: ThreadPoolExecutor):
        self._pool = pool
        self._begun: Any = None  # futures, and the actions
        makers = [lambda make=make: _EnvInThread(make(), self._pool) for make in env_fns]
        super().__init__(makers, **_SETTINGS)

    def reset(
        self, *, seed: list[int | None] | None = None, options: dict | None = None
    ) -> tuple[np.ndarray, dict]:
        if options is None:  # resets with options, which are rare, run one after the other
            seeds: list[int | None] = seed or [None] * self.num_envs
            # If one raises, none of the others may still be running when this returns.
            wait_for_threads(
                [env.begin_reset(each) for env, each in zip(self.envs, seeds, strict=True)]
            )
        return super().reset(seed=seed, options=options)

    def step_async(self, actions: np.ndarray) -> None:
        """Begin a step; `step_wait` returns its result."""
        each = iterate(self.action_space, actions)
        futures = [env.begin_step(action) for env, action in zip(self.envs, each, strict=True)]
        self._begun = futures, actions

    def step_wait(self) -> tuple:
        """Wait for the step that has begun; return the same as `step`."""
        (futures, actions), self._begun = self._begun, None
        wait_for_threads(futures)
        return super().step(actions)

    def step(self, actions: np.ndarray) -> tuple:
        self.step_async(actions)
        return self.step_wait()

    def close_extras(self, **kwargs: Any) -> None:
        self._pool.shutdown(cancel_futures=True)  # waits for running calls
        super().close_extras(**kwargs)


class _EnvInThread(gym.Wrapper):
    """An environment whose `step` and `reset` return the result of work begun in a thread.

    If no work has begun, they run in the calling thread.
    """

    def __init__(self, env, pool):
        super().__init__(env)
        self._pool = pool
        self._step = self._reset = None  # functions that return the result of begun work

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


class ProcessVectorEnv(AsyncVectorEnv):
    """gymnasium's AsyncVectorEnv, robust against environments that fail and processes that die.

    The processes come from the fork server: forking a process with TensorFlow's threads hangs.

    An exception in a process is raised here once, without gymnasium's copies on standard error. The
    death of a process raises EnvironmentFailure. Closing never raises and never waits forever.

    Args:
        env_fns: Functions that create one environment each.
        labels: Names of the environments in messages.
    """

    def __init__(self, env_fns: Sequence[Callable[[], gym.Env]], labels: Sequence[str]):
        self._labels = labels
        self._steps = 0
        self._seeds: list[int | None] = []  # of the last reset
        self._patience = CLOSING_PATIENCE
        self.processes = []
        if multiprocessing.current_process().daemon:  # Python's error is lost while it cleans up
            raise UserError(
                "vectorization is 'async', but this process is daemonic, as those of a "
                "multiprocessing.Pool are, and may start no others; use vectorization='threads'."
            )
        try:
            start_fork_server(preload=["spinup_tf2.core.vector_env"])
            self._ask(super().__init__, env_fns, context="forkserver", **_SETTINGS)
        except BaseException:
            _kill(self.processes)
            raise
        # They ignore the signal with which multiprocessing terminates them at exit.
        multiprocessing.util.Finalize(self, _kill, (self.processes,), exitpriority=10)

    def reset(self, *, seed: list[int | None] | None = None, **kwargs) -> tuple[np.ndarray, dict]:
        self._seeds = seed or []
        return self._ask(super().reset, seed=seed, **kwargs)

    def step_async(self, actions: np.ndarray) -> None:
        self._ask(super().step_async, actions)

    def step_wait(self) -> tuple:
        result = self._ask(super().step_wait)
        self._steps += 1
        return result

    def call(self, name: str, *args, **kwargs) -> tuple:
        return self._ask(super().call, name, *args, **kwargs)

    def _ask(self, function, *args, **kwargs):
        """Call a function that sends a message to all processes, waits for answers, or both."""
        level, gym.logger.min_level = gym.logger.min_level, gym.logger.ERROR + 1
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            self._patience = PATIENCE_AFTER_FAULT
            if isinstance(error, EnvironmentFailure) and isinstance(error.args[0], Exception):
                error = error.args[0]  # gymnasium wraps the exception that was sent in another one
                raise error from error.__cause__
            if isinstance(error, EOFError | ConnectionError):
                raise EnvironmentFailure(self._obituary()) from error
            raise
        finally:
            gym.logger.min_level = level

    def _obituary(self):
        """Return a message that says which processes have died, and why."""
        wait([process.sentinel for process in self.processes], timeout=5)
        codes = [process.exitcode for process in self.processes]
        told = [f" (last seed: {seed})" for seed in self._seeds] or [""] * len(codes)
        deaths = [
            f"the process of {label} {_cause_of_death(code)}{seed}"
            for label, code, seed in zip(self._labels, codes, told, strict=False)
            if code is not None
        ]
        text = f"{'; '.join(deaths) or 'a process does not answer'}, after {self._steps} steps."
        if self._steps == 0 and 1 in codes:
            text += " A script must start it under if __name__ == '__main__'."
        return text

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        """Ask the environments to close; kill the processes that do not close in time."""
        patience = 0 if terminate else self._patience if timeout is None else timeout
        deadline = time.monotonic() + patience
        pipes = [pipe for pipe in self.parent_pipes if pipe is not None and not pipe.closed]
        for pipe in pipes:
            with suppress(OSError):
                pipe.send(("close", None))
        for process in self.processes:
            process.join(max(0, deadline - time.monotonic()))
        _kill(self.processes)
        for pipe in pipes:
            pipe.close()


def _cause_of_death(code):
    if code >= 0:
        return f"ended with status {code}"
    hint = " (perhaps by the system, because memory ran out)" if code == -signal.SIGKILL else ""
    return f"was killed by {signal.Signals(-code).name}{hint}"


def _kill(processes):
    for process in processes:
        if process.is_alive():
            process.kill()
    for process in processes:
        process.join()
