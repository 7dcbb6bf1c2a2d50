"""The settings of a run, and the decorator that turns a function into an algorithm."""

import functools
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, cast

import numpy as np

from spinup_tf2.arguments.checks import (
    RULES,
    check_arguments,
    other_meanings,
    without_effect,
)
from spinup_tf2.arguments.docs import documented
from spinup_tf2.envs.making import EnvFn
from spinup_tf2.envs.modules import is_own
from spinup_tf2.errors import did_you_mean
from spinup_tf2.files.logger import check_logger_arguments
from spinup_tf2.files.printing import warn
from spinup_tf2.parallel.mpi import num_procs, proc_id

Function = TypeVar("Function", bound=Callable[..., Any])

_running: ContextVar[Callable[..., Any] | None] = ContextVar("running", default=None)


@dataclass(frozen=True)
class Settings:
    """The settings that all algorithms share; `arguments.table` says what each of them means."""

    env_fn: Any  # creates an environment; `algorithm` has replaced an id by such a function
    seed: int
    steps_per_epoch: int
    epochs: int
    max_ep_len: int
    logger_kwargs: Mapping[str, Any] | None
    save_freq: int
    num_envs: int
    env_retries: int
    vectorization: str
    stall_timeout: float | None
    init: str | None
    init_from: str | os.PathLike | None
    checkpoint_freq: int
    keep_checkpoints: int
    deterministic_resume: bool
    resume: bool
    callbacks: Sequence[Any] | None
    stop_at_return: float | None
    stop_without_improvement: int | None
    stop_after: str | None
    track: Sequence[str] | None
    record_every: int | None
    render_every: int | None
    verbose_episodes: bool
    num_test_episodes: int = 0
    test_freq: int = 1  # off-policy: in every epoch
    behavior_policy: Callable[..., Any] | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)  # all, as config.json holds them

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> "Settings":
        """Return the settings among an algorithm's arguments.

        Args:
            arguments: `locals()`, evaluated in the algorithm's first line.
        """
        own = {name: value for name, value in arguments.items() if name != "options"}
        given = own | arguments["options"]
        shared = {each.name: given[each.name] for each in fields(cls) if each.name in given}
        return cls(**shared, arguments=given)

    def __post_init__(self):
        given = self.logger_kwargs or {}
        if isinstance(given.get("output_dir"), str | os.PathLike):
            # Absolute from here on: an environment may change the working directory.
            output_dir = os.path.abspath(given["output_dir"])
            object.__setattr__(self, "logger_kwargs", {**given, "output_dir": output_dir})

    @property
    def local_steps(self) -> int:
        """How many steps each environment takes in an epoch."""
        return self.steps_per_epoch // (self.num_envs * num_procs())


def algorithm(**defaults: Any) -> Callable[[Function], Function]:
    """Decorator that completes an algorithm's signature and docstring, and checks its arguments.

    In each call, options that were not given get their defaults, and the id of an environment is
    replaced by a function that creates it. Arguments that cannot be used raise UserError before
    the algorithm runs.

    Args:
        **defaults: The algorithm's own defaults of shared options (`arguments.options`).
    """

    def decorator(function: Function) -> Function:
        complete = documented(function, **defaults)
        signature = inspect.signature(complete)
        parameters = signature.parameters.values()
        own = {each.name: each.default for each in parameters if each.default is not each.empty}
        others = other_meanings(own)

        @functools.wraps(complete)
        def checked(*args, **kwargs):
            bound = _bound(function, signature, args, kwargs)
            bound.apply_defaults()
            arguments = {name: _plain(value) for name, value in bound.arguments.items()}
            known = {name: value for name, value in arguments.items() if name not in others}
            check_arguments(known, num_procs())
            check_logger_arguments(arguments.get("logger_kwargs") or {})
            _warn_of_no_effect(known, own)
            if isinstance(arguments["env_fn"], str):
                arguments["env_fn"] = EnvFn(arguments["env_fn"])
            before = _running.set(function)
            try:
                return function(**arguments)
            finally:
                _running.reset(before)

        return cast(Function, checked)

    return decorator


def _bound(function, signature, args, kwargs):
    """Return the arguments of a call by name; raise TypeError as Python does if they do not fit."""
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        unknown = [name for name in kwargs if name not in signature.parameters]
        hint = did_you_mean(unknown[0], signature.parameters) if unknown else ""
        separated = f";{hint}" if hint else ""
        raise TypeError(f"{function.__name__}() {error}{separated}") from None


def _warn_of_no_effect(arguments, defaults):
    """Warn, on rank 0, of arguments that have no effect.

    There is no warning for presets, which cover many cases, nor when a run is resumed.
    """
    of_preset = "preset" in (arguments.get("logger_kwargs") or {})
    if proc_id() > 0 or arguments["resume"] or of_preset:
        return
    # Nothing is known of arguments without a rule, not even whether they can be compared.
    known = [name for name in arguments if name in RULES and name in defaults]
    given = {name: arguments[name] for name in known if arguments[name] != defaults[name]}
    for sentence in without_effect(given, arguments):
        warn(sentence)


def _plain(value):
    """Return an argument with NumPy scalars, which graphs treat as tensors, as Python numbers."""
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    if type(value) is dict:
        return {key: _plain(each) for key, each in value.items()}
    return value


def running(algorithm: str, actor_critic: Any) -> tuple[str, bool]:
    """Return the running algorithm as the command line names it, and whether that can start it.

    Its name is `algorithm` if it comes with this package, else `module:function`: a copy of an
    algorithm's file may have been changed, and usually keeps the old name. The command line finds a
    function in a module that can be imported, and gives it no other networks than its default.
    """
    function = _running.get()
    if function is None or is_own(function.__module__):
        return algorithm, is_own(actor_critic.__module__)
    name = f"{function.__module__}:{function.__qualname__}"
    default = inspect.signature(function).parameters.get("actor_critic")
    usual = is_own(actor_critic.__module__) or (default and actor_critic is default.default)
    found = getattr(sys.modules.get(function.__module__), function.__name__, None)
    return name, bool(usual and function.__module__ != "__main__" and found is not None)
