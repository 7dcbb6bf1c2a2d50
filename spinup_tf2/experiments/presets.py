"""Presets: settings of an algorithm that are known to work well on some environments.

    python -m spinup_tf2.run ppo --preset mujoco --env Hopper-v5

They are plain data that replace the algorithm's defaults, in a TOML file for each algorithm in
`spinup_tf2/presets`, and in files of users. docs/presets.md describes them. Does not import
TensorFlow.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, reduce
from pathlib import Path
from typing import Any

from spinup_tf2.algos import ALGORITHMS
from spinup_tf2.arguments.checks import PYTHON_ONLY, whole_numbers
from spinup_tf2.errors import UserError, did_you_mean, one_line
from spinup_tf2.experiments.checks import check_known, network_arguments, signature_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_DIRECTORY = Path(__file__).parent.parent / "presets"

_KEYS = ("algorithm", "doc", "env", "fits", "extends", "settings")


@dataclass(frozen=True)
class Preset:
    """Tuned settings of an algorithm for an environment.

    Attributes:
        name: Name of the preset, or the file that it is from.
        algorithm: Name of the algorithm.
        doc: Description in one line.
        env: Id of the environment that the settings are for.
        fits: Ids of environments that the preset is meant for, as patterns with `*`.
        settings: Keyword arguments of the algorithm, which replace its defaults.
        env_kwargs: Keyword arguments of the environment.
        origins: Source of each argument: `{"gamma": "Tianshou", "ac_kwargs:hidden_sizes": ...}`.
    """

    name: str
    algorithm: str
    doc: str
    env: str
    fits: tuple[str, ...]
    settings: dict[str, Any]
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)

    @property
    def arguments(self) -> dict[str, Any]:
        """All settings as keyword arguments, for `call_experiment` and `ExperimentGrid`."""
        return dict(env_name=self.env, env_kwargs=dict(self.env_kwargs), **self.settings)


def load(algorithm: str, name: str, env: str | None = None) -> Preset:
    """Load a preset with its settings for an environment.

    Args:
        algorithm: Name of the algorithm.
        name: Name of the preset, or the path of a file with one, which ends with .toml.
        env: Id of the environment; None for the preset's own.

    Raises:
        UserError: There is no such preset, it is invalid, or it is for another algorithm or other
            environments.
    """
    table = _own_table(algorithm, name) if name.endswith(".toml") else _named(algorithm, name)
    env = table.env if env is None else env
    if not env:
        raise UserError(f"the preset {name} names no environment; give --env.")
    if not _fit(table.fits, env):
        raise UserError(
            f"the preset {name} does not fit {env}: it is for {', '.join(table.fits)}. Choose one "
            "of these environments, or leave --preset out."
        )
    preset = _for_env(algorithm, name, table, env)
    if not preset.origins:
        raise UserError(f"the preset {name} has no settings for {env}; choose another one.")
    return preset


def presets_for(algorithm: str, env: str | None = None) -> dict[str, Preset]:
    """Return the presets of an algorithm by name; with `env`, those that fit the environment."""
    return {
        name: _for_env(algorithm, name, table, table.env if env is None else env)
        for name, table in tables(algorithm).items()
        if env is None or _fit(table.fits, env)
    }


def hint(algorithm: str, envs: Sequence[str], used: str | None = None) -> str:
    """Return a clause on the presets, except `used`, that fit all environments; "" for none."""
    fitting = set.intersection(*({*presets_for(algorithm, env)} for env in envs)) - {used}
    names, where = " or --preset ".join(sorted(fitting)), " and ".join(envs)
    return names and f"there are tuned hyperparameters for {where}: --preset {names}"


def _named(algorithm, name):
    """Return the table of a preset that comes with this package."""
    own = tables(algorithm)
    if name in own:
        return own[name]
    raise UserError(
        f"{name!r} is not a preset of {algorithm};{did_you_mean(name, own)} they are "
        f"{', '.join(own)}. A file of your own ends with .toml."
    )


def _fit(patterns, env):
    plain = env.rpartition(":")[2]  # without the module that registers it
    return any(fnmatchcase(plain, pattern) for pattern in patterns)


def _for_env(algorithm, name, table, env):
    parts = [part for part in table.parts if part.fits is None or _fit(part.fits, env)]
    arguments = copy.deepcopy(reduce(merged, (part.arguments for part in parts), {}))
    origins = {flag: part.origin for part in parts for flag in as_flags(part.arguments)}
    env_kwargs = arguments.pop("env_kwargs", {})
    return Preset(name, algorithm, table.doc, env, table.fits, arguments, env_kwargs, origins)


# ---------------------------------------------------------------- nested arguments


def nested(key: str, value: Any) -> dict[str, Any]:
    """Return a value as an argument: `{"a": {"b": value}}` for the key `a:b`."""
    return reduce(lambda inner, part: {part: inner}, reversed(key.split(":")), value)


def merged(base: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of `base` updated with `other`; nested dicts are merged key by key."""
    result = dict(base)
    for key, value in other.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


def as_flags(arguments: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten `{"gamma": 1, "ac_kwargs": {"conv": 2}}` to `{"gamma": 1, "ac_kwargs:conv": 2}`."""
    flags = {}
    for name, value in arguments.items():
        name = f"{prefix}{name}"
        flags |= as_flags(value, f"{name}:") if isinstance(value, dict) else {name: value}
    return flags


# ---------------------------------------------------------------- files


@dataclass(frozen=True)
class Part:
    """Some settings of a preset.

    Attributes:
        origin: Source of the settings.
        fits: Patterns of the environments that they are for; None for all that the preset fits.
        arguments: Arguments of the algorithm by name, and env_kwargs, those of the environment.
    """

    origin: str
    fits: tuple[str, ...] | None
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Table:
    """A preset as given in a file: the attributes of a Preset, and its settings in parts.

    Later parts override earlier ones; `env` is "" if the file names none.
    """

    doc: str = ""
    env: str = ""
    fits: tuple[str, ...] = ("*",)
    parts: tuple[Part, ...] = ()


@cache
def tables(algorithm: str) -> dict[str, Table]:
    """Return the presets of an algorithm that come with this package, by name."""
    found: dict[str, Table] = {}
    known = _read(_DIRECTORY / f"{algorithm}.toml") if algorithm in ALGORITHMS else {}
    for name, content in known.items():
        found[name] = _table(algorithm, content, name, found)
    return found


def _own_table(algorithm, path):
    """Read and check the preset in a user's own file."""
    content = _read(Path(path))
    meant = content.get("algorithm", algorithm)
    if meant != algorithm:
        raise UserError(f"the preset {path} is for {meant}, not for {algorithm}.")
    return _table(algorithm, content, path, tables(algorithm))


def _read(path):
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:  # TOMLDecodeError is a ValueError
        raise UserError(f"the preset {path} cannot be read: {one_line(error)}.") from error


def _table(algorithm, content, where, others):
    """Convert a TOML table, which may extend one of `others`; `where` is its name in messages."""
    settings = content.get("settings", [])
    content = content | dict(settings=[settings] if isinstance(settings, dict) else settings)
    check_known(content, _KEYS, where)
    base = Table()
    if "extends" in content:
        check_known([content["extends"]], others, where)
        base = others[content["extends"]]
    parts = (*base.parts, *(_part(algorithm, each, where) for each in content["settings"]))
    if not parts:
        raise UserError(f"there are no settings ({where}); write for instance [settings].")
    fits = tuple(content.get("fits", base.fits))
    return Table(content.get("doc", base.doc), content.get("env", base.env), fits, parts)


def _part(algorithm, settings, where):
    arguments = _with_none(settings)
    origin, fits = arguments.pop("origin", where), arguments.pop("fits", None)
    known = [name for name in signature_of(algorithm).defaults if name not in PYTHON_ONLY]
    check_known(arguments, [*known, "env_kwargs"], where)
    check_known(arguments.get("ac_kwargs", {}), network_arguments(algorithm), where)
    return Part(origin, None if fits is None else tuple(fits), whole_numbers(arguments))


def _with_none(value):
    """Replace the string "None" by None, for which TOML has no value."""
    if isinstance(value, dict):
        return {key: _with_none(each) for key, each in value.items()}
    return None if value == "None" else value
