"""`--env_kwargs:NAME VALUE`, for commands that make environments without training in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spinup_tf2.cli.flags import parse_flags
from spinup_tf2.errors import UserError
from spinup_tf2.experiments.grid import ExperimentGrid

ENV_KWARGS_HELP = (
    "Arguments of the environment that replace those of the run: --env_kwargs:NAME VALUE."
)


def split_env_kwargs(argv: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Split a command line into its other arguments and the dict for its `--env_kwargs` flags.

    Each flag `--env_kwargs:NAME` takes exactly one word, so that it may also precede positional
    arguments.
    """
    others, own = [], []
    words = iter(argv)
    for word in words:
        if word.partition(":")[0] != "--env_kwargs":
            others.append(word)
            continue
        value = next(words, "--")
        if value.startswith("--"):
            raise UserError(f"{word} was given without a value.")
        own += [word, value]
    return others, parse_env_kwargs(own)


def parse_env_kwargs(argv: Sequence[str], command: str = "") -> dict[str, Any]:
    """Parse flags `--env_kwargs:NAME VALUE` into a dict, in the same way as for the algorithms.

    Args:
        argv: The flags.
        command: Name of the command, for the error message about an unknown flag.
    """
    grid = ExperimentGrid()
    for name, values in parse_flags(argv)[0].items():
        if name.partition(":")[0] != "env_kwargs":
            raise UserError(
                f"--{name} is not a flag of {command}; "
                f"python -m spinup_tf2.run {command} --help shows them."
            )
        if len(values) > 1:
            raise UserError(f"You can only provide one value for {name}.")
        grid.add(name, values)
    [variant] = grid.variants()
    env_kwargs = variant.get("env_kwargs", {})
    if not isinstance(env_kwargs, dict):
        raise UserError(
            f"env_kwargs is {env_kwargs!r}; it must be a dict such as {{'key': value}}, or be "
            "given as --env_kwargs:key value."
        )
    if "render_mode" in env_kwargs:
        raise UserError(
            "render_mode follows from --norender and --record, and that of play from --mode too; "
            "leave it out."
        )
    return env_kwargs
