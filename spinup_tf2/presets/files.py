"""Reads and checks the files of presets."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from spinup_tf2.arguments.checks import PYTHON_ONLY, whole_numbers
from spinup_tf2.errors import UserError, did_you_mean
from spinup_tf2.experiments.checks import network_arguments, signature_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DIRECTORY = Path(__file__).parent
KEYS = ("doc", "env", "fits", "extends", "settings")


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
    """A preset as given in a file.

    Attributes:
        doc: Description in one line.
        env: Id of the default environment; "" if there is none.
        fits: Patterns of the environments that it is for.
        parts: Its settings; later parts override earlier ones.
    """

    doc: str
    env: str
    fits: tuple[str, ...]
    parts: tuple[Part, ...]


def is_file(name: str) -> bool:
    """Return whether the name of a preset is the path of a file."""
    return name.endswith(".toml")


@cache
def tables(algorithm: str) -> dict[str, Table]:
    """Return the presets of an algorithm that come with this package, by name."""
    found: dict[str, Table] = {}
    path = DIRECTORY / f"{algorithm}.toml"
    for name, content in (_read(path) if path.exists() else {}).items():
        found[name] = _table(content, f"{name} in {path}", found, origin=None)
    return found


def own_table(algorithm: str, path: str) -> Table:
    """Read and check the preset in a user's own file.

    Raises:
        UserError: It cannot be read, is for another algorithm, or has invalid contents.
    """
    content = _read(Path(path))
    meant = content.pop("algorithm", algorithm)
    _check_kind(meant, str, f"algorithm ({path})", "the name of an algorithm")
    if meant != algorithm:
        raise UserError(f"the preset {path} is for {meant}, not for {algorithm}.")
    table = _table(content, path, tables(algorithm), origin=path)
    for part in table.parts:
        _check_arguments(algorithm, part.arguments, path)
    return table


def _read(path):
    try:
        # -sig: some editors put a byte order mark at the beginning.
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise UserError(f"there is no file {path}; --preset takes a name, or a file.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the preset {path} cannot be read: {error}.") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"the preset {path} is not valid TOML: {error}.") from None


def _table(content, where, others, origin):
    """Convert a TOML table to a Table.

    Args:
        content: The TOML table.
        where: Its name in messages.
        others: The presets that it may extend, by name.
        origin: Default origin of its parts; None if each part must have its own.
    """
    _check_kind(content, dict, where, "a table")
    keys = KEYS if origin is None else ("algorithm", *KEYS)
    for key in content:
        if key not in KEYS:
            raise UserError(
                f"{key} is not a key of a preset ({where});{did_you_mean(key, keys)} they are "
                f"{', '.join(keys)}. Arguments of the algorithm belong into settings."
            )
    base = Table("", "", ("*",), ())
    if "extends" in content:
        _check_kind(content["extends"], str, f"extends ({where})", "the name of a preset")
        if content["extends"] not in others:
            raise UserError(
                f"extends is {content['extends']!r} ({where}); it must be the name of another "
                f"preset of the algorithm: {', '.join(others)}."
            )
        base = others[content["extends"]]
    settings = content.get("settings", [])
    settings = settings if isinstance(settings, list) else [settings]
    parts = (*base.parts, *(_part(each, where, origin) for each in settings))
    if not parts:
        raise UserError(f"there are no settings ({where}); write for instance [settings].")
    doc, env = content.get("doc", base.doc), content.get("env", base.env)
    _check_kind(doc, str, f"doc ({where})", "a text")
    _check_kind(env, str, f"env ({where})", "the id of an environment")
    return Table(doc, env, _patterns(content, where) or base.fits, parts)


def _part(settings, where, origin):
    _check_kind(settings, dict, f"settings ({where})", "a table, or several")
    arguments = _with_none(settings)
    origin, fits = arguments.pop("origin", origin), _patterns(arguments, where)
    arguments.pop("fits", None)
    _check_kind(origin, str, f"origin ({where})", "a text")
    for name in ("ac_kwargs", "env_kwargs"):
        _check_kind(arguments.get(name, {}), dict, f"{name} ({where})", "a table")
    return Part(origin, fits, whole_numbers(arguments))


def _patterns(table, where):
    fits = table.get("fits")
    if fits is None:
        return None
    _check_kind(fits, list, f"fits ({where})", "a list of ids, which may have * in them")
    for pattern in fits:
        _check_kind(pattern, str, f"fits ({where})", "a list of ids, which may have * in them")
    return tuple(fits)


def _with_none(value):
    """Replace the string "None" by None, for which TOML has no value."""
    if isinstance(value, dict):
        return {key: _with_none(each) for key, each in value.items()}
    return None if value == "None" else value


def _check_kind(value, kind, name, expected):
    if not isinstance(value, kind):
        raise UserError(f"{name} is {value!r}; it must be {expected}.")


def _check_arguments(algorithm, arguments, where):
    """Check the names of arguments; their values are checked later, when all are known."""
    names = arguments.get("ac_kwargs", {})
    for name in arguments:
        network = name.removeprefix("ac_kwargs:")
        if name not in signature_of(algorithm).defaults and network in network_arguments(algorithm):
            raise UserError(
                f"{name!r} is an argument of the networks ({where}); write ac_kwargs.{network} = "
                "..., or a table [settings.ac_kwargs]."
            )
    known = [name for name in signature_of(algorithm).defaults if name not in PYTHON_ONLY]
    _check_known(arguments, [*known, "env_kwargs"], f"an argument of {algorithm}", where)
    _check_known(names, network_arguments(algorithm), "an argument of the networks", where)


def _check_known(names, known, what, where):
    for name in names:
        if name not in known:
            raise UserError(
                f"{name!r} is not {what} that a preset can have ({where});"
                f"{did_you_mean(name, known)} they are {', '.join(known)}."
            )
