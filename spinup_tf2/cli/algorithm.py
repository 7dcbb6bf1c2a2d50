"""Runs an algorithm: `python -m spinup_tf2.run ppo --env CartPole-v1 --seed 0 10 20`.

Every keyword argument of an algorithm is a flag. Flags with several values make a grid of
experiments. `module:function` is an algorithm of the user's own: any function with Spinning Up's
arguments env_fn, seed and logger_kwargs.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from spinup_tf2.algos import ALGORITHMS
from spinup_tf2.arguments.checks import whole_numbers
from spinup_tf2.cli.flags import (
    RUN_KEYS,
    check_names,
    number_of_processes,
    only_value,
    parse_flags,
    split_equals,
)
from spinup_tf2.envs.modules import look_here
from spinup_tf2.errors import UserError
from spinup_tf2.experiments.checks import check_spaces, check_values
from spinup_tf2.experiments.experiment import NamedAlgorithm, check_exp_name
from spinup_tf2.experiments.grid import ExperimentGrid
from spinup_tf2.experiments.presets import as_flags, load, presets_for
from spinup_tf2.parallel import mpi


def run_algorithm(algorithm: str, argv: Sequence[str]) -> None:
    """Run the experiments that the flags of an algorithm describe."""

    mpi.write_by_lines()
    look_here()  # for environments given as module:EnvId
    mpi.comm()  # must come first: without MPI, ranks could not wait for one that has failed

    grid, run_options = parse_experiments(algorithm, argv)
    # Every environment of a grid is combined with every argument of its networks.
    names = {name for variant in grid.variants() for name in variant.get("ac_kwargs") or {}}
    check_env = None
    if algorithm in ALGORITHMS:
        check_env = functools.partial(check_spaces, algorithm=algorithm, ac_kwargs=names)
    command = (algorithm, *split_equals(argv))
    grid.run(NamedAlgorithm(algorithm), check_env=check_env, command=command, **run_options)


def parse_experiments(algorithm: str, argv: Sequence[str]) -> tuple[ExperimentGrid, dict[str, Any]]:
    """Read and check the arguments of an algorithm's command line.

    Returns:
        The ExperimentGrid, and the keyword arguments for its `run`.

    Raises:
        UserError: For any mistake that can be found without starting an experiment.
    """
    flags, shorthands = parse_flags(argv)
    check_names(algorithm, flags)

    run_options = {key: only_value(key, flags.pop(key)) for key in RUN_KEYS if key in flags}
    exp_name = only_value(
        "exp_name", flags.pop("exp_name", [f"cmd_{algorithm.rpartition(':')[2]}"])
    )
    check_exp_name(exp_name)
    preset = None
    if "preset" in run_options:
        preset = _preset(run_options["preset"], algorithm, flags.get("env_name", []))
    elif "env_name" not in flags:
        raise UserError(
            "You did not give a value for --env_name! Add one: --env ID, such as --env CartPole-v1."
        )

    grid = ExperimentGrid(name=exp_name, base=preset and preset.arguments)
    for key, values in flags.items():
        values = [whole_numbers({key: value})[key] for value in values]
        grid.add(key, values, shorthand=shorthands.get(key))
    num_procs = number_of_processes(run_options.get("num_cpu"), run_options.get("launcher"))
    variants = grid.variants()
    for variant in variants:
        try:
            check_values(algorithm, variant, num_procs)
        except UserError as error:
            hint = _how_a_grid_is_typed(error, flags) or _from_preset(error, preset, flags)
            raise UserError(f"{error}{hint}") from error
    if preset:
        run_options["note"] = _used_settings(run_options["preset"], preset, variants)
    else:
        run_options["note"] = _hint(algorithm, flags["env_name"])
    return grid, run_options


def _how_a_grid_is_typed(error, flags):
    """Return a hint for an error about values separated by commas; "" for other errors."""
    for key, value in ((key, value) for key, values in flags.items() for value in values):
        if isinstance(value, tuple) and str(error).startswith(f"{key} is {value!r};"):
            typed = " ".join(map(str, value))
            return f" For a grid, separate the values by spaces: --{key} {typed}."
    return ""


def _from_preset(error, preset, flags):
    """Return a hint for an error about a value from a preset; "" for other errors."""
    for key in preset.settings if preset else ():
        if key not in flags and str(error).startswith(f"{key} is "):
            return f" (It stands in the preset {preset.name}.)"
    return ""


def _preset(name, algorithm, env_names):
    """Load the preset of this name; raise UserError unless it fits algorithm and environments."""
    first, *others = [load(algorithm, name, env_name) for env_name in env_names or [None]]
    for other in others:
        if (other.settings, other.env_kwargs) != (first.settings, first.env_kwargs):
            raise UserError(
                f"the preset {name} has other settings for {other.env} than for {first.env}; start "
                "them one after the other."
            )
    return first


def _used_settings(name, preset, variants):
    """Return a text that shows the settings from a preset, and which flags override them."""
    lines = []
    used = [as_flags(variant) for variant in variants]
    for flag, value in as_flags(preset.arguments).items():
        values = [flags[flag] for flags in used if flag in flags]
        different = [x for i, x in enumerate(values) if x not in values[:i]]
        instead = "" if different == [value] else f"    (given, instead of {value!r})"
        shown = " ".join(map(repr, different)) or "-"
        lines.append(f"    --{flag.ljust(24)} {shown}{instead}")
    return "\n".join([f"preset {name}: {preset.doc}\n", *lines, ""])


def _hint(algorithm, env_names):
    """Return a line about presets that fit all the environments; "" if there are none."""
    fitting = [
        name
        for name in presets_for(algorithm)
        if all(name in presets_for(algorithm, env_name) for env_name in env_names)
    ]
    if not fitting:
        return ""
    return (
        f"Hint: there are tuned hyperparameters for {' and '.join(env_names)}: "
        f"--preset {' or --preset '.join(fitting)}\n"
    )
