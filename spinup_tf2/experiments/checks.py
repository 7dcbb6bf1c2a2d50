"""What is checked before an algorithm starts: its arguments and its environments.

Shared by the command line, `call_experiment` and `ExperimentGrid`. TensorFlow is not imported: the
arguments of an algorithm are read from its source.
"""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from spinup_tf2.algos import ALGORITHMS, module_of
from spinup_tf2.arguments.checks import check_arguments, check_network_arguments, other_meanings
from spinup_tf2.arguments.rules import KEYWORDS, Rule, check, optional
from spinup_tf2.arguments.signatures import Name, Signature, read_class_attribute, read_signature
from spinup_tf2.arguments.table import Options
from spinup_tf2.envs.modules import import_named
from spinup_tf2.errors import UserError, did_you_mean, kind_and_line, place_of

if TYPE_CHECKING:
    from spinup_tf2.envs.making import EnvFn

# Arguments of an experiment that stand for env_fn.
ENVIRONMENT = ("env_name", "env_kwargs", "wrapper")

_WRAPPERS = optional(
    Rule(lambda v: isinstance(v, list | tuple), "a list such as ['FlattenObservation']")
)


def algorithm_name(function: Callable[..., Any]) -> str | None:
    """Return the name of the function if it is one of ALGORITHMS, else None."""
    name = getattr(function, "__name__", None)
    is_algorithm = name in ALGORITHMS and getattr(function, "__module__", None) == module_of(name)
    return name if is_algorithm else None


@functools.cache
def signature_of(algorithm: str) -> Signature:
    """Return the arguments of an algorithm, and its docstring.

    `module:function`, an algorithm of the user's own, is imported; its arguments without a default
    have `inspect.Parameter.empty`.
    """
    if algorithm in ALGORITHMS:
        return read_signature(module_of(algorithm), algorithm)
    module, _, name = algorithm.rpartition(":")
    import_named(module)
    function = getattr(sys.modules[module], name, None)
    if not callable(function):
        hint = did_you_mean(name, vars(sys.modules[module]))
        raise UserError(f"the module {module} has no function {name!r};{hint}".rstrip(";") + ".")
    parameters = inspect.signature(function).parameters.values()
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = {each.name: each.default for each in parameters if each.kind not in variadic}
    return Signature(inspect.getdoc(function) or "", named)


def has_options(algorithm: str) -> bool:
    """Return whether an algorithm is made with `@algorithm`, and so has the shared options."""
    return algorithm in ALGORITHMS or Options.__annotations__.keys() <= {
        *signature_of(algorithm).defaults
    }


@functools.cache
def default_networks(algorithm: str) -> dict[str, list[str]]:
    """Return the names of the default networks, and of their arguments; for images comes last."""
    if algorithm not in ALGORITHMS:
        return {}
    default = signature_of(algorithm).defaults["actor_critic"]
    for_images = read_class_attribute(default.module, default.name, "for_images")
    names = [default.name, for_images or default.name]
    return {name: [*read_signature(default.module, name).defaults] for name in names}


def network_arguments(algorithm: str) -> list[str]:
    """Return the names of the arguments of an algorithm's default networks."""
    known = default_networks(algorithm).values()
    return [*dict.fromkeys(name for names in known for name in names)]


# ---------------------------------------------------------------- arguments


def check_experiment(algorithm: str, kwargs: Mapping[str, Any], num_procs: int) -> None:
    """Check an algorithm's arguments from a Python program, as the command line checks its flags.

    Args:
        algorithm: Name of the algorithm.
        kwargs: Its arguments, with env_fn, or env_name and env_kwargs instead.
        num_procs: Number of processes that the experiment will have.

    Raises:
        UserError: An argument is missing or invalid.
    """
    if not {"env_fn", "env_name"} & kwargs.keys():
        raise UserError("You did not give a value for env_name! Add one and try again.")
    if "env_fn" in kwargs and (more := [name for name in ENVIRONMENT if name in kwargs]):
        raise UserError(
            f"env_fn and {' and '.join(more)} were given; env_fn makes the whole environment, so "
            "give it alone, or env_name with env_kwargs."
        )
    known = [*signature_of(algorithm).defaults, "env_fn", *ENVIRONMENT]
    check_known(kwargs, known, f"arguments of {algorithm}")
    check_values(algorithm, kwargs, num_procs)


def check_known(names: Iterable[str], known: Sequence[str], where: str) -> None:
    """Raise UserError if one of the names is not known there."""
    for name in names:
        if name not in known:
            raise UserError(
                f"{name!r} is not known here ({where});{did_you_mean(name, known)} there are "
                f"{', '.join(known)}."
            )


def check_values(algorithm: str, kwargs: Mapping[str, Any], num_procs: int) -> None:
    """Check the values of an algorithm's arguments, and the arguments of its default networks."""
    check_dicts(kwargs)
    check(_WRAPPERS, wrapper=kwargs.get("wrapper"))
    if algorithm in ALGORITHMS and "actor_critic" not in kwargs:
        check_network_arguments(kwargs.get("ac_kwargs") or {})
    # The default networks are not imported yet, so there is no value to check.
    defaults = signature_of(algorithm).defaults
    values = {name: value for name, value in defaults.items() if not isinstance(value, Name)}
    others = other_meanings(defaults) if algorithm not in ALGORITHMS else ()
    values = {name: x for name, x in (values | dict(kwargs)).items() if name not in others}
    if has_options(algorithm):
        check_arguments(values, num_procs)


def check_dicts(kwargs: Mapping[str, Any]) -> None:
    """Raise UserError unless ac_kwargs and env_kwargs are dicts, or are not given."""
    check(KEYWORDS, **{name: kwargs.get(name) for name in ("ac_kwargs", "env_kwargs")})


# ---------------------------------------------------------------- environments


def _check_spaces(env, algorithm, ac_kwargs):
    """Raise UserError if an algorithm or its networks do not support an environment's spaces."""
    from spinup_tf2.envs import spaces

    spaces.network_observation_space(env.observation_space)
    getattr(spaces, ALGORITHMS[algorithm])(env.action_space)
    images = spaces.is_image(env.observation_space)
    actor_critic, known = [*default_networks(algorithm).items()][-1 if images else 0]
    for name in ac_kwargs:
        if name not in known:
            raise UserError(
                f"its observations are {'images' if images else 'no images'}, and the networks "
                f"for them, {actor_critic}, have no argument {name!r}; they take "
                f"{', '.join(known)}."
            )


def check_environment(
    env_fn: EnvFn, algorithm: str | None = None, ac_kwargs: Iterable[str] = ()
) -> None:
    """Raise UserError if the environment cannot be made, or the algorithm does not support it.

    Args:
        env_fn: Factory of the environment.
        algorithm: Name of the algorithm, if it is known.
        ac_kwargs: Names of arguments that its networks must accept.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the experiment's own process will show them
            env = env_fn()
    except UserError:
        raise
    except Exception as error:  # whatever an environment may raise when it is made
        arguments = f" with {env_fn.env_kwargs}" if env_fn.env_kwargs else ""
        raise UserError(
            f"the environment {env_fn.env_name} cannot be made{arguments}: "
            f"{kind_and_line(error)} ({place_of(error)}; --debug shows the traceback)"
        ) from error
    with closing(env):
        try:
            if algorithm in ALGORITHMS:
                _check_spaces(env, algorithm, ac_kwargs)
        except UserError as error:
            raise UserError(f"{env_fn.env_name} cannot be used: {error}") from error
