"""Environments that raise, and processes of environments that die: named, and made anew."""

import multiprocessing.util
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import wait
from multiprocessing.pool import RemoteTraceback
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv

from spinup_tf2.envs.protocol import ProtocolError
from spinup_tf2.errors import UserError
from spinup_tf2.parallel.interruption import SIGNALS

RECORDED = "recorded_episode"  # in the info of a reset: what the episode before it was

FAULTS = (Exception, SystemExit)  # what counts as a failure; KeyboardInterrupt passes through

CLOSING_PATIENCE = 30.0  # seconds that environments in processes of their own have to close
PATIENCE_AFTER_FAULT = 2.0  # the same, after one of them has failed


class EnvironmentFailure(RuntimeError):
    """An environment has raised an exception, or its process has died; the message says which.

    `__cause__` is the exception. From another process it comes as the text of its traceback.
    """

    def __reduce__(self):
        return _failure_elsewhere, (str(self), self.__cause__ and _traceback(self.__cause__))


def _failure_elsewhere(message, trace):
    failure = EnvironmentFailure(message)
    failure.__cause__ = trace and RemoteTraceback(f'\n"""\n{trace}"""')
    return failure


def _traceback(error):
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def _what(error):
    return "".join(traceback.format_exception_only(type(error), error)).strip()


class SupervisedEnv(gym.Wrapper):
    """An environment whose exceptions say where they come from, and which may be made anew.

    An exception in making, reset or step becomes an EnvironmentFailure. With `retries` the
    environment is closed and another one takes its place, with a line on standard error: a step
    that has failed is truncated and leads to no observation (None), and the next episode is the new
    environment's first. A UserError stays what it is, and an environment that breaks gymnasium's
    protocol (`CheckedEnv`) would do so again: neither is tried again.

    The last observation of an episode is a copy, because it is read after the next reset, with
    which an environment may write over it.

    An environment with a method `add_epoch` has it called by `add_epoch`; one that is made anew, as
    often as the one before.

    make: makes the environment.
    label: what messages call it.
    retries: how often it is made anew at most.
    owner: the process that trains. In any other one, the signals that ask a run to stop do nothing.
    """

    def __init__(
        self,
        make: Callable[[], gym.Env],
        label: str,
        retries: int,
        owner: int,
    ):
        self._elsewhere = os.getpid() != owner
        if self._elsewhere:
            _outlive_stop_signals()
        self._make, self._label, self._retries = make, label, retries
        self._steps = 0  # that have been taken, by all environments in this place
        self._first_step = 0  # how many they were when the episode began
        self._retried = 0
        self._failed = False
        self._seed = None  # of the last reset that had one
        self._first_seed = None  # for the reset of an environment that has been made anew
        self._epochs = 0
        super().__init__(self._new_env())

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        seed = self._first_seed if seed is None else seed
        while True:
            self._seed = self._seed if seed is None else seed
            try:
                obs, info = self.env.reset(seed=seed, options=options)
                break
            except FAULTS as error:
                self._replace(error, "when it was reset")
                seed = self._first_seed
        self._first_seed = None
        self._first_step = self._steps
        return obs, _heard(info)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        try:
            result = self.env.step(action)
        except FAULTS as error:
            self._replace(error, f"in step {self._steps - self._first_step + 1} of its episode")
            return None, 0.0, False, True, {}
        self._steps += 1
        obs, rew, terminated, truncated, info = result
        if terminated or truncated:
            obs = np.array(obs)
        return obs, rew, terminated, truncated, _heard(info)

    def add_epoch(self) -> None:
        """Tell the environment that an epoch is over."""
        self._epochs += 1
        try:
            self.env.get_wrapper_attr("add_epoch")()
        except UserError:
            raise
        except FAULTS as error:  # between two steps there is no episode to cut off
            self._failed = True
            text = f"{self._label} raised {_what(error)}, in add_epoch."
            raise EnvironmentFailure(text) from error

    def close(self) -> None:
        """Close it. What it raises becomes a line on standard error: nothing is lost any more."""
        try:
            super().close()
        except FAULTS as error:
            if not self._failed:  # else it is no news
                text = f"{self._label} raised {_what(error)}, while it was closed."
                print("Warning:", " ".join(text.split()), file=sys.stderr, flush=True)
        if self._elsewhere and isinstance(sys.exc_info()[1], BrokenPipeError):
            os._exit(1)  # the process that trains is dead, and has said so, if anybody could

    def _replace(self, error, when):
        if isinstance(error, ProtocolError):
            self._failed = True
            text = f"{self._label} {error.did} {when}; {error.expected}. {error.advice}"
            raise EnvironmentFailure(text) from error.__cause__
        if self._retried < self._retries:  # the last one is closed at the end
            with suppress(*FAULTS):
                self.env.close()
        self.env = self._new_env(error, when)
        self._first_seed = None if self._seed is None else seed_after(self._seed)

    def _new_env(self, error=None, when=None):
        """An environment; in the place of one that has raised `error`, if that is given."""
        while True:
            if error is not None:
                self._count(error, when)
            try:
                env = self._make()
                for _ in range(self._epochs):
                    env.get_wrapper_attr("add_epoch")()
                return env
            except FAULTS as fault:
                error, when = fault, "while it was made"

    def _count(self, error, when):
        """Warn that the environment is made anew after `error`; raises if it may not be."""
        if isinstance(error, UserError):
            self._failed = True
            raise error
        text = f"{self._label} raised {_what(error)}, {when}, after {self._steps} steps in all"
        if self._seed is not None:
            text += f" (last seed: {self._seed})"
        if self._retried < self._retries:
            self._retried += 1
            text = " ".join(text.split())
            count = f"{self._retried} of {self._retries}"
            print(f"Warning: {text}. It is made anew ({count}).", file=sys.stderr, flush=True)
            return
        self._failed = True
        if self._retries:
            advice = f"It had been made anew {self._retries} times before (env_retries)"
        else:
            advice = "With env_retries=1 or more it would be made anew, and training would go on"
        raise EnvironmentFailure(f"{text}. {advice}.") from error


def seed_after(seed: int) -> int:
    """The first seed of a new environment, where one has failed whose last seed was `seed`.

    It depends on nothing else, so that a run that is resumed finds the same one.
    """
    return int(np.random.SeedSequence(seed, spawn_key=(1,)).generate_state(1)[0] >> 1)


def _heard(info):
    """What a training looks at in an info. To gather the rest takes longer than many a step."""
    return {key: info[key] for key in (RECORDED, "is_success") if key in info}


def _outlive_stop_signals():
    # They reach every process of a terminal or a batch job when a run is to stop. The run decides
    # what follows; until it closes them, its environments go on.
    # Programs that an environment starts would inherit SIG_IGN and blocked signals, not handlers.
    for each in SIGNALS:
        signal.signal(each, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def _start_helpers():
    """Start multiprocessing's own processes so that they outlive the signals, too.

    The fork server imports what environments need, once for all of them.
    """
    if forkserver._forkserver._forkserver_pid is None:
        # Last of all that is done at exit: what may still need them has priority 0 or more.
        multiprocessing.util.Finalize(None, _end_helpers, exitpriority=-1000)
    preload = ["spinup_tf2.parallel.fork_server", "spinup_tf2.core.rollout.vector_env"]
    forkserver.set_forkserver_preload(preload)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # which they inherit
    try:
        resource_tracker.ensure_running()  # unblocks some of them
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _end_helpers():
    """End multiprocessing's own processes, and wait for them.

    They would end a moment after this one. Who looks then finds them, and in a container there is
    often nobody but this process to clear them away. There is no public way to do it.
    """
    server, tracker = forkserver._forkserver, resource_tracker._resource_tracker
    for helper, pid, pipe in (
        (server, "_forkserver_pid", "_forkserver_alive_fd"),
        (tracker, "_pid", "_fd"),
    ):
        if getattr(helper, pid, None) is None or getattr(helper, pipe, None) is None:
            continue
        os.close(getattr(helper, pipe))  # which tells it to end
        deadline = time.monotonic() + PATIENCE_AFTER_FAULT  # others may hold the pipe, too
        with suppress(ChildProcessError):
            while os.waitpid(getattr(helper, pid), os.WNOHANG) == (0, 0):
                if time.monotonic() > deadline:
                    break
                time.sleep(0.01)
        setattr(helper, pid, None)
        setattr(helper, pipe, None)


class ProcessVectorEnv(AsyncVectorEnv):
    """gymnasium's environments in processes of their own, which may fail or die.

    The processes are the fork server's: forking one with TensorFlow's threads hangs.

    What they raise is raised here once, without gymnasium's copies on standard error. The death
    of a process is an EnvironmentFailure. Closing never raises and never waits for ever.

    labels: what messages call the environments.
    """

    def __init__(self, env_fns: Sequence[Callable[[], gym.Env]], labels: Sequence[str], **kwargs):
        self._labels = labels
        self._steps = 0
        self._seeds = []  # of the last reset
        self._patience = CLOSING_PATIENCE
        self.processes = []
        try:
            _start_helpers()
            self._ask(super().__init__, env_fns, context="forkserver", **kwargs)
        except BaseException:
            _kill(self.processes)
            raise
        # They do not listen to the signal that multiprocessing ends them with at exit.
        multiprocessing.util.Finalize(self, _kill, (self.processes,), exitpriority=10)

    def reset(self, *, seed: list[int] | None = None, **kwargs) -> tuple[np.ndarray, dict]:
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
        """Call a function that sends something to all processes, waits for answers, or both."""
        level, gym.logger.min_level = gym.logger.min_level, gym.logger.ERROR + 1
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            self._patience = PATIENCE_AFTER_FAULT
            if isinstance(error, EnvironmentFailure) and isinstance(error.args[0], Exception):
                error = error.args[0]  # gymnasium puts what was sent into another one
                raise error from error.__cause__
            if isinstance(error, EOFError | ConnectionError):
                raise EnvironmentFailure(self._obituary()) from error
            raise
        finally:
            gym.logger.min_level = level

    def _obituary(self):
        """Which process has died, and of what."""
        wait([process.sentinel for process in self.processes], timeout=5)
        codes = [process.exitcode for process in self.processes]
        told = [f" (last seed: {seed})" for seed in self._seeds] or [""] * len(codes)
        deaths = [
            f"the process of {label} {_cause_of_death(code)}{seed}"
            for label, code, seed in zip(self._labels, codes, told, strict=False)
            if code is not None
        ]
        deaths = deaths or ["a process that holds an environment does not answer any more"]
        return (
            f"{'; '.join(deaths)}, after {self._steps} steps. A process that dies is not started "
            "again; env_retries is for environments that raise an exception."
        )

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        """Ask the environments to close, and end the processes that do not within some seconds."""
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
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = " (perhaps by the system, because memory ran out)" if name == "SIGKILL" else ""
    return f"was killed by {name}{hint}"


def _kill(processes):
    for process in processes:
        if process.is_alive():
            process.kill()
    for process in processes:
        process.join()
