"""Reads config.json, of runs of this package and of the original Spinning Up."""

from __future__ import annotations

import json
import os
import re
from typing import Any

from spinup_tf2.errors import printable
from spinup_tf2.files.run_directory import read_json

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
_ENV_KWARGS = re.compile(r"env_name=.*, env_kwargs=(?P<kwargs>.*)\)$", re.DOTALL)
_QUOTED_ID = re.compile(r"(['\"])(?P<id>[\w./:-]+-v\d+)\1")
_PLAIN_ID = re.compile(r"(?P<id>(?!\w+$)[\w./:-]+)")  # a single word is the name of a function
# Environments in the name of an experiment: Spinning Up's grids write ppo_envhalfcheetah-v2, while
# its files say no more about the environment than <function <lambda> at 0x7f>.
_ID_IN_NAME = re.compile(r"(?:^|_)(?:env-?)?(?P<id>[a-z][a-z0-9]*-v\d+)(?=_|$)", re.IGNORECASE)


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
    """Return the settings that must be equal in all runs of an experiment, as text.

    These are the algorithm, and all arguments except those that identify a single run.
    """
    arguments = {
        name: re.sub(r" at 0x[0-9a-f]+", "", json.dumps(value, sort_keys=True))
        for name, value in config.items()
        if name not in _OF_ONE_RUN and not name.startswith("logger")
    }
    of_env = _ENV_KWARGS.search(str(config.get("env_fn") or ""))
    told = dict(algorithm=algorithm(config), env_kwargs=of_env["kwargs"] if of_env else "")
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
    return re.sub("^env-?", "", found["id"], flags=re.IGNORECASE) if found else ""


def algorithm(config: dict[str, Any], recorded: str = "") -> str:
    """Return the name of the algorithm of a run; "" if it is unknown.

    Args:
        config: The run's config.json, whose arguments identify the algorithms of this package.
        recorded: The name under which the algorithm was recorded, if known: a modified one may have
            the same arguments as the original.
    """
    if config.get("algo") == "npg":  # TRPO without its line search
        return "npg"
    if recorded:
        return recorded
    return next((name for argument, name in TELLTALES.items() if argument in config), "")


def without_env(exp_name: str, env: str) -> str:
    """Remove the part that a grid over environments has added to the name of an experiment.

    `ppo_envcartpole-v1` becomes `ppo` if the environment is CartPole-v1.
    """
    slug = re.escape(re.sub(r"[^-_a-z0-9]", "-", env.lower()))
    shorter = re.sub(rf"_(env-?)?{slug}(?=_|$)", "", exp_name, flags=re.IGNORECASE)
    return shorter or exp_name
