"""Reads the files of a run, of this package or of Spinning Up: config.json and progress.txt.

Without pandas, so that `ls` is fast.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from spinup_tf2.errors import printable
from spinup_tf2.files.run_directory import ASIDE, read_json, read_text

# Spinning Up's Performance is the first of these columns that exists.
PERFORMANCE = ("AverageTestEpRet", "AverageEpRet")

UNFINISHED = "unfinished at the end"
NO_NUMBER = "with text in the place of a number"

_LONGEST_NAME = 255  # characters, as for the name of a file
_OF_ONE_RUN = ("seed", "exp_name", "env_fn", "num_envs", "num_cpu", "resume")

# Arguments by which an algorithm is recognized; the first one that is present decides.
TELLTALES = {
    "n_pi": "ppg",
    "clip_ratio": "ppo",
    "damping_coeff": "trpo",
    "rms_eps": "a2c",
    "policy_delay": "td3",
    "act_noise": "ddpg",
    "alpha": "sac",
    "train_v_iters": "vpg",
}

# Environments in the text of an env_fn: EnvFn(env_name='CartPole-v1', ...), or any quoted text that
# looks like an id, as in functools.partial(<function make at 0x7f>, 'CartPole-v1').
_ENV_NAME = re.compile(r"env_name=(['\"])(?P<id>.+?)\1")
_QUOTED_ID = re.compile(r"(['\"])(?P<id>[\w./:-]+-v\d+)\1")
_PLAIN_ID = re.compile(r"(?P<id>(?!\w+$)[\w./:-]+)")  # a single word is the name of a function
# Environments in the name of an experiment: Spinning Up's grids write ppo_envhalfcheetah-v2, while
# its files say no more about the environment than <function <lambda> at 0x7f>.
_ID_IN_NAME = re.compile(r"(?:^|_)(?:env-?)?(?P<id>[a-z][a-z0-9]*-v\d+)(?=_|$)", re.IGNORECASE)


def walk(top: str | os.PathLike) -> Iterator[tuple[str, list[str], list[str]]]:
    """os.walk in the order of names, which follows symbolic links and visits directories only once.

    Runs that others have replaced are left out. As with os.walk, folders that the caller removes
    from the list are skipped.
    """
    seen = {os.path.realpath(top)}
    for root, folders, files in os.walk(top, followlinks=True):
        folders[:] = sorted(name for name in folders if ASIDE not in name)
        yield root, folders, files
        new = []
        for folder in folders:
            real = os.path.realpath(os.path.join(root, folder))
            if real not in seen:
                seen.add(real)
                new.append(folder)
        folders[:] = new


# ---------------------------------------------------------------- config.json


def read_config(run_dir: str | os.PathLike) -> dict[str, Any]:
    """Read the run's config.json.

    Raises:
        OSError, UserError: It does not exist or cannot be read.
        ValueError: It is JSON, but not an object.
    """
    path = os.path.join(run_dir, "config.json")
    config = read_json(path)
    if not isinstance(config, dict):
        raise ValueError(f"{path} is not a JSON object")
    return config


def name_in(config: dict[str, Any], key: str) -> str:
    """Return the text at a key, safe to print and not too long; "" if there is none."""
    return printable(str(config.get(key) or "")[:_LONGEST_NAME])


def settings(config: dict[str, Any]) -> dict[str, str]:
    """Return, as text, the algorithm and all arguments except those that identify a single run.

    They must be equal in all runs of an experiment.
    """
    arguments = {
        name: re.sub(r" at 0x[0-9a-f]+", "", json.dumps(value, sort_keys=True))
        for name, value in config.items()
        if name not in _OF_ONE_RUN and not name.startswith("logger")
    }
    # EnvFn(env_name='CartPole-v1', env_kwargs={...}). Not by a regular expression, which a text
    # that is made for it can occupy for hours.
    named, _, env_kwargs = str(config.get("env_fn") or "").partition(", env_kwargs=")
    is_text = "env_name=" in named and env_kwargs.endswith(")")
    told = dict(algorithm=algorithm(config), env_kwargs=env_kwargs[:-1] if is_text else "")
    return arguments | {name: text for name, text in told.items() if text}


def env_name(config: dict[str, Any], run_dir: str | os.PathLike) -> str:
    """Return the id of the run's environment; "" if it is unknown.

    It is looked up in env_spec.json, then config.json (`env_name`, `env_fn`), then in `exp_name`.
    """
    try:
        spec = read_json(os.path.join(run_dir, "env_spec.json"))["spec"]
        if spec["env_name"]:
            return name_in(spec, "env_name")
    except (OSError, ValueError, TypeError, KeyError):  # UserError is a ValueError
        pass
    if isinstance(config.get("env_name"), str):
        return name_in(config, "env_name")
    env_fn = str(config.get("env_fn") or "")[: 10 * _LONGEST_NAME]
    found = _ENV_NAME.search(env_fn) or _QUOTED_ID.search(env_fn) or _PLAIN_ID.fullmatch(env_fn)
    if found:
        return name_in(found.groupdict(), "id")
    found = _ID_IN_NAME.search(name_in(config, "exp_name"))
    return found["id"] if found else ""


def algorithm(config: dict[str, Any], recorded: str = "") -> str:
    """Return the name of the algorithm of a run; "" if it is unknown.

    Args:
        config: The run's config.json, whose arguments identify the algorithms of this package.
        recorded: The name in its checkpoint, if known: a modified algorithm may have the same
            arguments as the original.
    """
    if config.get("algo") == "npg":  # TRPO without its line search
        return "npg"
    if recorded:
        return recorded
    return next((name for argument, name in TELLTALES.items() if argument in config), "")


# ---------------------------------------------------------------- progress.txt


@dataclass
class Rows:
    """The contents of a progress.txt.

    Attributes:
        columns: Names of the columns, from the first line; empty if that is missing or incomplete.
        lines: The rows as text, with as many fields as there are columns.
        damage: The number of rows that were left out, for each kind of damage.
    """

    columns: list[str]
    lines: list[str]
    damage: dict[str, int] = field(default_factory=dict)

    @property
    def epochs(self) -> int:
        """Number of completed epochs. A damaged row counts, unless it is unfinished."""
        return len(self.lines) + sum(self.damage.values()) - self.damage.get(UNFINISHED, 0)

    def returns(self) -> list[float | None]:
        """Return the mean return in each line: NaN if it is blank, None if it is not a number."""
        own = [self.columns.index(name) for name in PERFORMANCE if name in self.columns]
        fields = [line.split("\t") for line in self.lines]
        filled = [i for i in own if any(line[i] for line in fields)]
        return [_number(line[i]) for i in (filled or own)[:1] for line in fields]

    def report(self, path: str | os.PathLike) -> str:
        """Return a sentence on the damaged rows of the file at `path`; "" if there are none."""
        number = sum(self.damage.values())
        if not number:
            return ""
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.damage.items())
        return f"Skipped {number} damaged row{'s' if number > 1 else ''} of {path}: {kinds}"


def _number(text):
    try:
        return float(text or math.nan)
    except ValueError:
        return None


def read_rows(path: str | os.PathLike) -> Rows:
    """Read a progress.txt, even while a run is writing it.

    A line without a line break is left out, as half a number is still a number, and so are lines
    with more or fewer fields than the first line. Bytes that are not text damage only their row.

    Raises:
        OSError, UserError: As in `read_text`.
    """
    lines = read_text(path, errors="replace").removeprefix("\ufeff").split("\n")
    unfinished = lines.pop()
    lines = [line.removesuffix("\r") for line in lines]
    lines = [line for line in lines if line.strip(" ")]
    if not lines:
        return Rows([], [])
    header, *body = lines
    tabs = header.count("\t")
    sound = [line for line in body if line.count("\t") == tabs and "\r" not in line]
    rows = Rows(header.split("\t"), sound)
    if len(sound) < len(body):
        rows.damage["with a wrong number of fields"] = len(body) - len(sound)
    if unfinished:
        rows.damage[UNFINISHED] = 1
    return rows
