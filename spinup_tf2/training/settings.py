"""The settings of a run, and the decorator that turns a function into an algorithm."""

import functools
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np

from spinup_tf2.arguments.checks import RULES, check_arguments, other_meanings, without_effect
from spinup_tf2.arguments.signatures import documented
from spinup_tf2.envs.making import EnvFn
from spinup_tf2.envs.modules import is_own
from spinup_tf2.files.logger import check_logger_arguments
from spinup_tf2.files.printing import warn
from spinup_tf2.parallel.mpi import num_procs, proc_id

Function = TypeVar("Function", bound=Callable[..., Any])

_running: ContextVar[Callable[..., Any] | None] = ContextVar("running", default=None)


# What off-policy algorithms have instead of these options: a test in every epoch, no demonstration.
_OFF_POLICY = dict(test_freq=1, behavior_policy=None)


@dataclass(frozen=True)
class Settings:
    """An algorithm's arguments as attributes, such as `settings.num_envs`.

    `arguments.table` says what each of them means.

    Attributes:
        arguments: All of them, as config.json holds them.
        logger_kwargs: Those of the logger, with an absolute path: an environment may change the
            working directory.
    """

    arguments: Mapping[str, Any]
    logger_kwargs: Mapping[str, Any]

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> "Settings":
        """Return the settings among an algorithm's variables.

        Args:
            arguments: `locals()`, evaluated in the algorithm's first line.
        """
        own = {name: value for name, value in arguments.items() if name != "options"}
        given = own | arguments["options"]
        logger_kwargs = dict(given["logger_kwargs"] or {})
        if isinstance(logger_kwargs.get("output_dir"), str | os.PathLike):
            logger_kwargs["output_dir"] = os.path.abspath(logger_kwargs["output_dir"])
        return cls(given, logger_kwargs)

    def __getattr__(self, name: str) -> Any:
        for known in (vars(self).get("arguments", {}), _OFF_POLICY):  # copies begin without any
            if name in known:
                return known[name]
        raise AttributeError(f"The algorithm has no argument {name!r}.")

    @functools.cached_property
    def local_steps(self) -> int:
        """How many steps each environment takes in an epoch."""
        return self.steps_per_epoch // (self.num_envs * num_procs())


def algorithm(**defaults: Any) -> Callable[[Function], Function]:
    """Decorator that completes an algorithm's signature and docstring, and checks its arguments.

    In each call, options that were not given get their defaults, and the id of an environment is
    replaced by a function that creates it. Arguments that cannot be used raise UserError before
    the algorithm runs.

    Args:
        **defaults: The algorithm's own defaults of shared options (`arguments.table`).
    """

    def decorator(function: Function) -> Function:
        complete = documented(function, **defaults)
        signature = inspect.signature(complete)
        parameters = signature.parameters.values()
        own = {each.name: each.default for each in parameters if each.default is not each.empty}
        others = other_meanings(own)

        @functools.wraps(complete)
        def checked(*args, **kwargs):
            bound = signature.bind(*args, **kwargs)
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
