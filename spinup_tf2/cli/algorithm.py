"""Runs an algorithm: `python -m spinup_tf2.run ppo --env CartPole-v1 --seed 0 10 20`.

Every keyword argument of an algorithm is a flag. Flags with several values make a grid of
experiments. `module:function` is an algorithm of the user's own: any function with Spinning Up's
arguments env_fn, seed and logger_kwargs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spinup_tf2.arguments.checks import whole_numbers
from spinup_tf2.cli.flags import RUN_KEYS, check_names, only_value, parse_flags, split_equals
from spinup_tf2.envs.modules import look_here
from spinup_tf2.errors import UserError
from spinup_tf2.experiments.calling import resolve_processes
from spinup_tf2.experiments.checks import check_values
from spinup_tf2.experiments.experiment import NamedAlgorithm
from spinup_tf2.experiments.grid import ExperimentGrid
from spinup_tf2.experiments.presets import as_flags, hint, load
from spinup_tf2.parallel import mpi


def run_algorithm(algorithm: str, argv: Sequence[str]) -> None:
    """Run the experiments that the flags of an algorithm describe."""

    mpi.write_by_lines()
    look_here()  # for environments given as module:EnvId
    mpi.comm()  # must come first: without MPI, ranks could not wait for one that has failed

    grid, run_options = parse_experiments(algorithm, argv)
    command = (algorithm, *split_equals(argv))
    grid.run(NamedAlgorithm(algorithm), command=command, **run_options)


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
    default_name = f"cmd_{algorithm.rpartition(':')[2]}"
    exp_name = only_value("exp_name", flags.pop("exp_name", [default_name]))
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
    processes = {key: x for key, x in run_options.items() if key in ("num_cpu", "launcher")}
    variants = grid.variants()
    for variant in variants:
        check_values(algorithm, variant, resolve_processes(**processes).number)
    if preset:
        run_options["note"] = _used_settings(preset, variants)
    else:
        known = hint(algorithm, flags["env_name"])
        run_options["note"] = known and f"Hint: {known}\n"
    return grid, run_options


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


def _used_settings(preset, variants):
    """Return a text that shows the settings from a preset, and which flags override them."""
    lines = [f"preset {preset.name}: {preset.doc}\n"]
    used = [as_flags(variant) for variant in variants]
    for flag, value in as_flags(preset.arguments).items():
        values = [flags[flag] for flags in used if flag in flags]
        different = [x for i, x in enumerate(values) if x not in values[:i]]
        instead = "" if different == [value] else f"    (given, instead of {value!r})"
        lines.append(f"    --{flag:24} {' '.join(map(repr, different)) or '-'}{instead}")
    return "\n".join([*lines, ""])
