"""Environments that raise exceptions: errors say which one it was, and it can be recreated."""

import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.pool import RemoteTraceback  # type: ignore[attr-defined] # is not in its stubs
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np

from spinup_tf2.core.workers.episodes import RECORDED
from spinup_tf2.core.workers.randomness import FIRST_TEST_ENV, seed_after, seed_global_generators
from spinup_tf2.envs.protocol import ProtocolError
from spinup_tf2.errors import UserError, kind_and_line, one_line, place_of
from spinup_tf2.files.printing import lose_lines, say
from spinup_tf2.parallel.mpi import proc_id
from spinup_tf2.parallel.stopping import SIGNALS

FAULTS = (Exception, SystemExit)  # what counts as a failure; KeyboardInterrupt passes through


class EnvironmentFailure(RuntimeError):
    """An environment has raised an exception, or its process has died; the message says which.

    `__cause__` is the exception; one from another process arrives as the text of its traceback.
    """

    def __reduce__(self):
        cause = self.__cause__ and "".join(traceback.format_exception(self.__cause__))
        return _failure_elsewhere, (str(self), cause)


def label_of(env: gym.Env, index: int) -> str:
    """Return the name in messages of the environment with this index; `env` is one of its kind."""
    name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
    number = index if index < FIRST_TEST_ENV else index - FIRST_TEST_ENV
    kind = "environment" if index < FIRST_TEST_ENV else "test environment"
    return f"{kind} {number} ({name}, rank {proc_id()} on {socket.gethostname()})"


def environment_failed(error: Exception, episode: int, seed: int | None, step: int) -> UserError:
    """Return the UserError for an exception that an environment raised while an agent plays.

    Args:
        error: The environment's exception.
        episode: Number of the episode, from 0.
        seed: Seed of the last reset that had one.
        step: Number of the step, from 1; 0 stands for the reset.
    """
    when = f"in step {step}" if step else "in the reset"
    last = "" if seed is None else f"; last seed: {seed}"
    where = f"{when} of episode {episode} (counted from 0{last})"
    if isinstance(error, UserError):  # its message says what to do
        return UserError(f"The environment refuses what it is given, {where}: {error}")
    if isinstance(error, ProtocolError):
        return UserError(error.sentence("The environment", where))
    return UserError(
        f"The environment raised {kind_and_line(error)} ({place_of(error)}), {where}. Correct the "
        "environment; env_retries holds for training only."
    )


def _failure_elsewhere(message, trace):
    failure = EnvironmentFailure(message)
    failure.__cause__ = trace and RemoteTraceback(f'\n"""\n{trace}"""')
    return failure


def _what(error):
    return "".join(traceback.format_exception_only(type(error), error)).strip()


class SupervisedEnv(gym.Wrapper):
    """Wrapper that reports which environment raised an exception, and can recreate it.

    An exception in the constructor, `reset` or `step` becomes an EnvironmentFailure. With `retries`
    the environment is closed and replaced by a new one, with a line on standard error: the step
    that failed counts as truncated and leads to no observation (None), and the next episode is the
    first one of the new environment. There is no retry for a UserError, which is raised unchanged,
    nor for an environment that violates gymnasium's protocol (`CheckedEnv`) and would do so again.

    The last observation of an episode is copied, because it is read after the next reset, which may
    overwrite it.

    `add_epoch` calls the environment's method of this name; a recreated environment gets as many
    calls as the one it replaces.

    Args:
        make: Function that creates the environment.
        label: Name of the environment in messages.
        retries: How many times the environment is recreated at most.
        owner: Id of the process that trains. In any other process, the signals that ask a run to
            stop are ignored.
        seed: The environment's first seed, with which the global generators of a process of its own
            are seeded before the environment is created.
    """

    def __init__(
        self, make: Callable[[], gym.Env], label: str, retries: int, owner: int, seed: int = 0
    ):
        self._elsewhere = os.getpid() != owner
        if self._elsewhere:
            _outlive_stop_signals()
            lose_lines()  # as the process that trains does
            seed_global_generators(seed_after(seed))  # the constructor may draw from them
        self._make, self._label, self._retries = make, label, retries
        self._steps = 0  # steps taken so far, by this environment and those it has replaced
        self._first_step = 0  # value of _steps when the episode began
        self._retried = 0
        self._failed = False
        self._seed: int | None = None  # of the last reset that had one
        # For the first reset of an environment that has been recreated.
        self._first_seed: int | None = None
        self._epochs = 0
        super().__init__(self._new_env())

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        seed = self._first_seed if seed is None else seed
        while True:
            self._seed = self._seed if seed is None else seed
            if self._elsewhere and seed is not None:
                seed_global_generators(seed)
            try:
                obs, info = self.env.reset(seed=seed, options=options)
                break
            except FAULTS as error:
                self._replace(error, "when it was reset")
                seed = self._first_seed
        self._first_seed = None
        self._first_step = self._steps
        return obs, _heard(info)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict]:
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
        """Inform the environment that an epoch is over."""
        self._epochs += 1
        try:
            self.env.get_wrapper_attr("add_epoch")()
        except UserError:
            raise
        except FAULTS as error:  # not in a step, so there is no episode to truncate
            self._failed = True
            text = f"{self._label} raised {_what(error)}, in add_epoch."
            raise EnvironmentFailure(text) from error

    def close(self) -> None:
        """Close the environment; an exception is only reported, on standard error."""
        try:
            super().close()
        except FAULTS as error:
            if not self._failed:  # otherwise the failure has been reported
                text = f"{self._label} raised {_what(error)}, while it was closed."
                say(f"Warning: {one_line(text)}", file=sys.stderr)
        if self._elsewhere and isinstance(sys.exc_info()[1], BrokenPipeError):
            os._exit(1)  # the process that trains is dead; no traceback is needed here

    def _replace(self, error, when):
        if isinstance(error, ProtocolError):
            self._failed = True
            raise EnvironmentFailure(error.sentence(self._label, when)) from error.__cause__
        if self._retried < self._retries:  # the last environment is closed at the end
            with suppress(*FAULTS):
                self.env.close()
        self.env = self._new_env(error, when)
        self._first_seed = None if self._seed is None else seed_after(self._seed)

    def _new_env(self, error=None, when=None):
        """Create an environment, as a replacement for one that raised `error` if it is given."""
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
        """Warn that the environment is recreated after `error`; raise if no retries are left."""
        if isinstance(error, UserError):
            self._failed = True
            raise error
        text = f"{self._label} raised {_what(error)}, {when}, after {self._steps} steps in all"
        if self._seed is not None:
            text += f" (last seed: {self._seed})"
        if self._retried < self._retries:
            self._retried += 1
            count = f"{self._retried} of {self._retries}"
            say(f"Warning: {one_line(text)}. It is created again ({count}).", file=sys.stderr)
            return
        self._failed = True
        if self._retries:
            advice = f"It had been created again {self._retries} times before (env_retries)"
        elif self._steps:
            advice = "With env_retries=1 or more it would be created again, and training continue"
        else:  # a new one would most likely fail again
            advice = "Correct the environment, which has not made a step yet"
        raise EnvironmentFailure(f"{text}. {advice}.") from error


def _heard(info):
    """Return the entries of an info that training uses; collecting the others would be slow."""
    return {key: info[key] for key in (RECORDED, "is_success") if key in info}


def _outlive_stop_signals():
    # When a run is to stop, these signals reach every process of the terminal or batch job. The run
    # decides what to do; its environments continue until it closes them.
    # A handler, since programs started by an environment would inherit SIG_IGN or blocked signals.
    for each in SIGNALS:
        signal.signal(each, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
