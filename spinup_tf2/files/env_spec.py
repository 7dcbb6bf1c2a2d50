"""env_spec.json: describes how to rebuild the environment of a run, without unpickling anything.

The file holds the arguments of `gymnasium.make` and the wrappers around the environment:

    {"spec": {"env_name": "CartPole-v1", "kwargs": {}, "max_episode_steps": 500, "wrappers": []}}

or, for an environment that cannot be described in this way, `{"spec": null, "reason": "..."}`.

Run directories are passed around, so the file is not trusted. The environment is the one that is
registered under the given name. The module in a name `module:EnvId` and the modules of wrappers are
imported only under the conditions of `modules.import_for_file`, and nothing in them is called
except wrappers.

An environment is rebuilt to see how well an agent does. So wrappers that only help training, which
have a class attribute `training_only = True`, are left out, and so are gymnasium's own wrappers
that change rewards, ClipReward and NormalizeReward. Tuples and arrays among the arguments are
restored as such; see `as_json`.
"""

import json
import math
import os
import pickle
from collections.abc import Callable, Mapping
from contextlib import suppress
from inspect import signature
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.wrappers import TimeLimit

from spinup_tf2.envs.atari import is_atari
from spinup_tf2.envs.making import DISPLAY_WRAPPERS, wrapper_of
from spinup_tf2.envs.modules import (
    ModuleRefused,
    check_environment_arguments,
    import_for_file,
    import_named,
    import_registering,
    is_own,
)
from spinup_tf2.envs.wrappers import wrappers_of
from spinup_tf2.errors import UserError, kind_and_line, one_line
from spinup_tf2.files.as_json import LARGEST_SPACE, from_json, to_json
from spinup_tf2.files.disk import atomic_save, read_json

# Bytes in the file: what environments make of a long argument may be a thousand times as large.
LARGEST_SPEC = 2**16

# Frames in one step of a wrapper; in Super Mario Bros they take a few seconds.
MOST_FRAMES = 10_000

# Wrappers of gymnasium with which returns are no longer those of the environment.
_TRAINING_ONLY = (gym.wrappers.ClipReward, gym.wrappers.NormalizeReward)

# What `gymnasium.make` puts around every environment; without it, nothing but checks is missing.
_CHECKS = (gym.wrappers.PassiveEnvChecker, gym.wrappers.OrderEnforcing)

_TIME_LIMIT = f"{TimeLimit.__module__}:{TimeLimit.__name__}"

_WHAT_TO_DO = (
    "Build the environment yourself and call run_policy(env, get_action), or, if you trust whoever "
    "made the run, load it from vars.pkl with --allow_pickle (allow_pickle=True), which runs code "
    "in that file."
)


def write_env_spec(path: str | os.PathLike, env: gym.Env, env_fn: Callable[[], gym.Env]) -> None:
    """Write a description of how to rebuild `env`, atomically.

    Args:
        path: File to write.
        env: The environment, as `env_fn` made it.
        env_fn: The function that made it. If it has an attribute `env_name`, that is the name which
            `gymnasium.make` was given; it may begin with the module that registers the environment.
    """
    try:
        contents = json.dumps({"spec": describe_env(env, env_fn)}, indent=4)
        if len(contents) >= LARGEST_SPEC:
            raise ValueError(f"its arguments take more than {LARGEST_SPEC} bytes")
    except (TypeError, ValueError) as error:
        contents = json.dumps({"spec": None, "reason": str(error)}, indent=4)
    with atomic_save(path) as temporary:
        Path(temporary).write_text(contents + "\n", encoding="utf-8")


def make_env(
    path: str | os.PathLike,
    render_mode: str | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
) -> gym.Env:
    """Build the environment that env_spec.json describes.

    Args:
        path: The file.
        render_mode: gymnasium's render mode: None, "human", "rgb_array", ...
        env_kwargs: Arguments of the environment that override those in the file.

    Raises:
        UserError: It cannot be built; the message says why and what to do instead.
    """
    try:
        contents = read_json(path, LARGEST_SPEC)
        if contents["spec"] is None:
            raise UserError(contents["reason"])
        spec = contents["spec"]
        if env_kwargs:
            spec = spec | {"kwargs": {**spec["kwargs"], **env_kwargs}}
        return _build(spec, render_mode)
    # The file may hold anything, and environments and modules raise what they like.
    except (Exception, SystemExit) as error:
        reason = one_line(error) if isinstance(error, UserError) else kind_and_line(error)
        advice = _WHAT_TO_DO
        if env_kwargs:
            advice = f"Correct --env_kwargs (env_kwargs), {dict(env_kwargs)}, or leave it out."
        if isinstance(error, ModuleRefused):  # its message says what to do
            advice = ""
        message = f"The environment of {path} cannot be built: {reason.removesuffix('.')}. {advice}"
        raise UserError(message.rstrip()) from error


def make_described(
    description: Mapping[str, Any], render_mode: str | None = None, training: bool = False
) -> gym.Env:
    """Build an environment from a description by `describe_env` that the caller trusts.

    All modules that it names are imported.

    Args:
        description: The description.
        render_mode: gymnasium's render mode.
        training: Whether wrappers that only help training are applied, too.
    """
    entries = [wrapper["entry_point"] for wrapper in description["wrappers"]]
    names = [str(description["env_name"]), *entries]
    import_named(dict.fromkeys(name.partition(":")[0] for name in names if ":" in name))
    return _build(description, render_mode, training)


def describe_env(env: gym.Env, env_fn: Callable[[], gym.Env]) -> dict:
    """Describe an environment for `make_env`.

    Args:
        env: The environment.
        env_fn: The function that made it; see `write_env_spec`.

    Raises:
        TypeError, ValueError: It cannot be described; the message says why.
    """
    spec = env.spec
    if spec is None:
        raise ValueError("it was not made by gymnasium.make, so it has no spec")
    registered = getattr(gym.registry.get(spec.id), "kwargs", {})
    kwargs = _written(spec.kwargs, spec.id, registered)
    if kwargs.get("render_mode") == "human":
        del kwargs["render_mode"]
    wrappers = _stack(env)
    time_limit = None
    if wrappers and type(wrappers[0]) is TimeLimit:  # as gymnasium.make puts it there
        time_limit = wrappers.pop(0)._max_episode_steps
    return {
        # An environment keeps its id, but not the module that had to be imported to register it.
        "env_name": getattr(env_fn, "env_name", None) or spec.id,
        "kwargs": kwargs,
        "max_episode_steps": time_limit,
        "wrappers": _described(wrappers, env_fn),
    }


def _described(wrappers, env_fn):
    """Describe wrappers; those that do not record their arguments with what `env_fn` gave them."""
    named = map(wrapper_of, getattr(env_fn, "wrappers", ()))
    given = [kwargs for wrapper, kwargs in named if not issubclass(wrapper, RecordConstructorArgs)]
    found = []
    for wrapper in reversed(wrappers):
        kind = type(wrapper)
        more = {}
        if given and not isinstance(wrapper, RecordConstructorArgs):
            more = dict(given=True)
        arguments = given.pop() if more else {**getattr(wrapper, "_saved_kwargs", {})}
        arguments.pop("env", None)
        if kind is TimeLimit:  # many programs set it after gymnasium.make
            arguments["max_episode_steps"] = wrapper._max_episode_steps
        kwargs = _written(arguments, kind.__name__)
        found.append(dict(entry_point=f"{kind.__module__}:{kind.__name__}", kwargs=kwargs, **more))
    return found[::-1]


def _stack(env):
    """Return the wrappers of an environment, the innermost first.

    Without those of `gymnasium.make` that check the protocol, and those that display.
    """
    return [
        layer
        for layer in [*wrappers_of(env)][::-1]
        if not isinstance(layer, _CHECKS) and type(layer).__name__ not in DISPLAY_WRAPPERS
    ]


def _written(arguments, name, registered=()):
    """Return arguments as JSON, without those that only the environment's registration can give.

    Raises:
        TypeError: JSON cannot hold an argument; the message names it.
    """
    written = {}
    for key, value in arguments.items():
        try:
            written |= to_json({key: value})
        except (TypeError, ValueError) as error:
            if key not in registered or not _same(registered[key], value):
                raise TypeError(f"the argument {key!r} of {name}: {error}") from error
    return written


def _same(one, other):
    """Return whether two values are the same, or one a copy of the other, as of gymnasium.make."""
    with suppress(Exception):  # a user's class may raise anything, and an array has no truth
        if one is other or one == other:
            return True
    with suppress(Exception):  # many classes do not compare what they hold, but pickle it
        return pickle.dumps(one) == pickle.dumps(other)
    return False


def register_for_file(env_name: object) -> str:
    """Register the environment that a file of a run names, if necessary, and return its id.

    Raises:
        UserError: It cannot be registered, or only by a module that may not be imported.
    """
    if not isinstance(env_name, str) or not env_name.isprintable():
        raise UserError(f"{env_name!r} is not the name of an environment")
    is_atari(env_name)  # registers it if it is an Atari game
    module, _, env_id = env_name.rpartition(":")
    if module:
        import_for_file(module)
    if env_id not in gym.registry:
        import_registering(env_id)
    if env_id not in gym.registry:
        raise UserError(
            f"no environment {env_id} is registered; if it is in a module of yours or in another "
            'package, name that with --import my_envs (modules=["my_envs"])'
        )
    return env_id


def _build(spec, render_mode, training=False):
    """Build the environment of a description; `training`: with wrappers for training only."""
    kwargs = from_json(dict(spec["kwargs"]))
    check_environment_arguments(kwargs)
    if render_mode is not None:
        kwargs["render_mode"] = render_mode
    env_id = register_for_file(spec["env_name"])
    wrappers = list(spec["wrappers"])
    if limit := spec["max_episode_steps"]:
        wrappers.insert(0, dict(entry_point=_TIME_LIMIT, kwargs=dict(max_episode_steps=limit)))
    others = "max_episode_steps" in kwargs  # overrides the run's; None: as it is registered
    if others:
        wrappers = [each for each in wrappers if each["entry_point"] != _TIME_LIMIT]
    kwargs.setdefault("max_episode_steps", -1)
    env = gym.make(env_id, **kwargs)
    # The registered entry point may have applied the first of the wrappers itself.
    already = [each for each in _stack(env) if not others or type(each) is not TimeLimit]
    for description in wrappers[len(already) :]:
        wrapper = _load_wrapper(description["entry_point"], description.get("given"))
        for_training = wrapper in _TRAINING_ONLY or getattr(wrapper, "training_only", False)
        if for_training and not training:
            continue
        kwargs = from_json(description["kwargs"])
        check_environment_arguments(kwargs)
        if is_own(wrapper.__module__):
            _check_size(env, kwargs)
        env = wrapper(env, **kwargs)
    return env


def _check_size(env, kwargs):
    """Raise UserError for a wrapper that would keep too many numbers, or skip too many frames.

    Goes by the names of such arguments in the wrappers of gymnasium and of this package.
    """

    def numbers(*names):
        return [number for name in names for number in np.ravel(kwargs.get(name, 1)).tolist()]

    kept = max(numbers("stack_size", "delay", "bins"))
    if kept > 1:
        kept *= gym.spaces.flatdim(env.observation_space)
    image = max(numbers("size", "screen_size")) ** 2 * max(numbers("stack"))
    if max(kept, image, math.prod(numbers("shape"))) > LARGEST_SPACE:
        raise UserError(f"a wrapper with {kwargs} would keep more than {LARGEST_SPACE} numbers")
    if max(numbers("frameskip", "frame_skip", "skip", "num_repeats", "noop_max")) > MOST_FRAMES:
        raise UserError(f"a wrapper with {kwargs} would let more than {MOST_FRAMES} frames pass")


def _load_wrapper(entry_point, given):
    """Return the wrapper class at `module:Class`; raise UserError if it may not be loaded."""
    module, _, name = entry_point.partition(":")
    # Only what the module contains, not what its `__getattr__` (PEP 562) may return.
    wrapper = vars(import_for_file(module)).get(name)
    if not (isinstance(wrapper, type) and issubclass(wrapper, gym.Wrapper)):
        raise UserError(f"{entry_point} is not a wrapper")
    if wrapper.__name__ in DISPLAY_WRAPPERS:
        raise UserError(f"{entry_point} would display or record, which is not part of a run")
    known = given or issubclass(wrapper, RecordConstructorArgs)
    if not known and len(signature(wrapper).parameters) > 1:
        raise UserError(
            f"it was wrapped in {entry_point}, which does not record its arguments; it must be "
            "derived from gymnasium.utils.RecordConstructorArgs as well"
        )
    return wrapper
