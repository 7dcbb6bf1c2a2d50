"""Presets: settings of an algorithm that are known to work well on some environments.

    python -m spinup_tf2.run ppo --preset mujoco --env Hopper-v5

They are plain data that replace the algorithm's defaults, in a TOML file for each algorithm next to
this module, and in files of users. docs/presets.rst describes them. Does not import TensorFlow.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import reduce
from typing import Any

from spinup_tf2.algos import ALGORITHMS
from spinup_tf2.errors import UserError, did_you_mean
from spinup_tf2.experiments.nested import as_flags, merged
from spinup_tf2.presets.files import Table, is_file, own_table, tables

__all__ = ["PRESETS", "Preset", "as_flags", "load", "presets_for"]


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
    if algorithm not in ALGORITHMS:
        known = ", ".join(ALGORITHMS)
        raise UserError(f"{algorithm!r} is not an algorithm; they are {known}.")
    table = own_table(algorithm, name) if is_file(name) else _named(algorithm, name)
    if env is None and not table.env:
        raise UserError(f"the preset {name} names no environment; give --env.")
    env = table.env if env is None else env
    if not _fit(table.fits, env):
        such = f", such as {table.env}" if table.env and table.env != env else ""
        raise UserError(
            f"the preset {name} does not fit {env}: it is for {', '.join(table.fits)}{such}. "
            "Choose one of these environments, or leave --preset out."
        )
    preset = _for_env(algorithm, name, table, env)
    if not preset.origins:
        fits = [pattern for part in table.parts for pattern in part.fits or ()]
        raise UserError(
            f"the preset {name} has no settings for {env}: its settings are for {', '.join(fits)}."
        )
    return preset


def presets_for(algorithm: str, env: str | None = None) -> dict[str, Preset]:
    """Return the presets of an algorithm by name; with `env`, those that fit the environment."""
    return {
        name: _for_env(algorithm, name, table, table.env if env is None else env)
        for name, table in tables(algorithm).items()
        if env is None or _fit(table.fits, env)
    }


def _named(algorithm: str, name: str) -> Table:
    """Return the table of a preset that comes with this package."""
    own = tables(algorithm)
    if name in own:
        return own[name]
    others = [each for each in ALGORITHMS if name in tables(each)]
    if others:
        raise UserError(f"the preset {name} is for {' and '.join(others)}, not for {algorithm}.")
    known = f"those of {algorithm} are {', '.join(own)}" if own else f"{algorithm} has none"
    raise UserError(
        f"{name!r} is not a preset;{did_you_mean(name, own)} {known}. A file of your own ends with "
        ".toml."
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


class _OfPPO(Mapping):
    """PPO's presets by name, kept from the time when no other algorithm had presets."""

    def __getitem__(self, name):
        return presets_for("ppo")[name]

    def __iter__(self):
        return iter(tables("ppo"))

    def __len__(self):
        return len(tables("ppo"))


PRESETS: Mapping[str, Preset] = _OfPPO()
