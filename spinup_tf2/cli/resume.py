"""Resumes a run: `python -m spinup_tf2.run resume RUN_DIR`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any

from spinup_tf2.algos import ALGORITHMS
from spinup_tf2.arguments.checks import MAY_CHANGE, PYTHON_ONLY, whole_numbers
from spinup_tf2.cli.flags import SUBSTITUTIONS, only_value, parse_flags
from spinup_tf2.cli.help import HELP, print_once
from spinup_tf2.envs.making import wrapper_of
from spinup_tf2.envs.modules import (
    add_import_argument,
    check_environment_arguments,
    import_for_command,
    import_for_file,
    is_own,
)
from spinup_tf2.errors import UserError, did_you_mean, one_line
from spinup_tf2.experiments import calling
from spinup_tf2.experiments.checks import ENVIRONMENT, check_values, has_options, signature_of
from spinup_tf2.experiments.experiment import (
    Experiment,
    NamedAlgorithm,
    check_exp_name,
    check_launch,
)
from spinup_tf2.files.as_json import from_json
from spinup_tf2.files.env_spec import register_for_file
from spinup_tf2.files.run_directory import runs_in
from spinup_tf2.parallel import launched, mpi
from spinup_tf2.training.checkpoints import Checkpoints

_MOST_PER_CORE = 8  # processes that the file of a run may start

# Flags that `resume` accepts: those that do not make it another run.
RESUME_KEYS = (*MAY_CHANGE, "num_cpu", "launcher", "quiet")

USAGE = """
Continue a run that was interrupted, killed or finished:

\tpython -m spinup_tf2.run resume RUN_DIR [--epochs N] [--cpu N] [--import MODULE] ...

RUN_DIR is the directory that holds progress.txt and checkpoint/. The run continues with the
arguments and the number of processes with which it began. These may be changed:

{flags}

If its environment or its algorithm is in a module of yours, name that: --import my_envs. The file
of a run alone does not import it.
"""


def main(argv: Sequence[str]) -> None:
    """Run the command line; `argv` holds the arguments after `resume`, such as RUN_DIR."""
    if any(argument in HELP for argument in argv):
        print_once(USAGE.format(flags="\n".join(f"\t--{key}" for key in RESUME_KEYS)))
        return

    mpi.write_by_lines()
    mpi.comm()
    parser = argparse.ArgumentParser("resume", add_help=False, allow_abbrev=False)
    add_import_argument(parser)
    known, argv = parser.parse_known_args(argv)
    import_for_command(known.modules)
    run_dir, algorithm, options, kwargs = parse_resume(argv)
    exp_name, quiet = options["exp_name"], options["quiet"]
    logger_kwargs = dict(output_dir=run_dir, quiet=quiet, exp_name=exp_name)
    logger_kwargs |= dict(preset=options["preset"])
    experiment = Experiment(
        exp_name or os.path.basename(os.path.abspath(run_dir)),
        NamedAlgorithm(algorithm),
        kwargs | {"resume": True},
        logger_kwargs,
        tuple(known.modules),
    )
    check_launch([experiment])
    processes = calling.resolve_processes(options["num_cpu"], options["launcher"])
    calling.run_experiment(experiment, processes, quiet)


def parse_resume(argv: Sequence[str]) -> tuple[str, str, dict[str, Any], dict[str, Any]]:
    """Read and check the arguments of `resume`, and the description in the run's checkpoint.

    Returns:
        The run's directory, the algorithm, `exp_name`, `preset`, `quiet`, `num_cpu` and `launcher`
        as a dict, and the arguments of the algorithm.

    Raises:
        UserError: The run cannot be resumed, or an argument is invalid.
    """
    if not argv or argv[0].startswith("--"):
        raise UserError(
            "resume needs the directory of a run, before any flag: resume RUN_DIR [--epochs N]."
        )
    run_dir, *rest = argv
    given = _changes(rest)
    run = _described_run(run_dir)
    algorithm = run["function"]
    command = run["command"] | _environment_arguments(run["command"], run_dir)
    _import_callbacks({**command, **given}.get("callbacks"), run_dir)

    launcher, quiet = given.pop("launcher", None), given.pop("quiet", False)
    alone = launcher is None and not launched.by_mpi()
    most = _MOST_PER_CORE * os.cpu_count()
    if alone and "num_cpu" not in given and run["num_procs"] > most:
        raise UserError(
            f"the run in {run_dir} had {run['num_procs']} processes, which is too many for this "
            "machine; give --num_cpu."
        )
    asked = given.pop("num_cpu", 1 if launched.by_mpi() else run["num_procs"])
    num_cpu = calling.resolve_processes(asked, launcher).number
    preset = run.get("preset") if isinstance(run.get("preset"), str) else None
    options = dict(exp_name=run["exp_name"], preset=preset)
    options |= dict(quiet=quiet, num_cpu=num_cpu, launcher=launcher)
    if num_cpu != run["num_procs"]:  # redistribute the environments
        if run["num_envs"] % num_cpu:
            raise UserError(
                f"the run has {run['num_envs']} environments, which {num_cpu} processes cannot "
                "share equally; choose a number of processes that divides it."
            )
        command = command | dict(num_envs=run["num_envs"] // num_cpu)
    check_values(algorithm, command | given, num_cpu)
    apart = command.get("vectorization") not in (None, "sync") and "vectorization" not in given
    if alone and apart and run["num_envs"] > most:
        raise UserError(
            f"the run in {run_dir} has {run['num_envs']} environments that run at the same time, "
            "which is too many for this machine; give --vectorization, such as sync."
        )
    if "track" not in given and {*(command.get("track") or ())} - {"tensorboard"}:
        raise UserError(
            f"the run in {run_dir} sends what it logs to {', '.join(command['track'])}; if you "
            "want that, say so: --track with these names, or --track None."
        )
    return run_dir, algorithm, options, command | given


def _changes(argv):
    """Return the values of the flags; raise UserError for those that may not change in a run."""
    flags, _ = parse_flags(argv)
    for name in flags:
        if name not in RESUME_KEYS:
            raise UserError(
                f"--{name} cannot be given to resume;"
                f"{did_you_mean(name, [*RESUME_KEYS, *SUBSTITUTIONS], '--')} a run continues with "
                f"its own arguments, of which these may change: {', '.join(RESUME_KEYS)}."
            )
    return whole_numbers({name: only_value(name, values) for name, values in flags.items()})


def _described_run(run_dir):
    """Return the description of a run from its newest checkpoint.

    Raises:
        UserError: There is none, or the run cannot be resumed from the command line.
    """
    if not os.path.isdir(run_dir):
        raise UserError(f"there is no directory {run_dir}.")
    run = Checkpoints(run_dir).describe()
    if run is None:
        runs = runs_in(run_dir, "checkpoint")
        hint = f"; give one of the runs in it: {runs}" if runs else ""
        raise UserError(f"{run_dir} holds no checkpoint that can be read{hint}.")
    names = ("algorithm", "command", "exp_name", "num_envs", "num_procs")
    run = dict.fromkeys(names) | run
    function, command = run.setdefault("function", run["algorithm"]), run["command"]
    numbers = (run["num_envs"], run["num_procs"])
    if not (
        isinstance(function, str)
        and isinstance(command, dict | None)
        and all(type(number) is int and number > 0 for number in numbers)
        and all(isinstance((command or {}).get(x), list | None) for x in ("callbacks", "track"))
    ):
        raise UserError(f"the checkpoint in {run_dir} does not describe a run.")
    if command is None:
        raise UserError(
            f"the run in {run_dir} was started by a Python program, with an algorithm, an "
            f"environment or networks that only this knows; call {run['algorithm']}(..., "
            "resume=True) there."
        )
    _check_algorithm(function, run_dir)
    known = {*signature_of(function).defaults, *ENVIRONMENT} - {*PYTHON_ONLY}
    if unknown := ", ".join(sorted(command.keys() - known)):
        raise UserError(f"the checkpoint in {run_dir} has arguments that are none: {unknown}.")
    if run["exp_name"] is not None:
        check_exp_name(run["exp_name"])
    return run


@contextmanager
def _of_run(run_dir, what):
    """Context manager in which whatever is raised becomes a UserError about a part of the run."""
    try:
        yield
    except (Exception, SystemExit) as error:  # modules and installed packages may raise anything
        text = one_line(error).removesuffix(".")
        raise UserError(f"the run in {run_dir} has {what}: {text}.") from error


def _check_algorithm(name, run_dir):
    """Raise UserError unless a file may name this algorithm: `ppo`, or `module:function`.

    The module must be permitted, and the function be defined in it, by `@algorithm`, so that the
    file of a stranger can start nothing else that lies there.
    """
    if name in ALGORITHMS:
        return
    module, _, function = name.rpartition(":")
    with _of_run(run_dir, f"the algorithm {name}"):
        if not module or is_own(module):
            raise UserError("it is none")
        found = vars(import_for_file(module)).get(function)
        if getattr(found, "__module__", None) != module or not has_options(name):
            raise UserError("it is none")


def _import_callbacks(callbacks, run_dir):
    """Import the modules of callbacks; raise UserError if one may not be imported."""
    for name in callbacks or []:
        with _of_run(run_dir, f"a callback {name}"):
            import_for_file(str(name).rpartition(":")[0])


def _environment_arguments(command, run_dir):
    """Register the environment of a checkpoint, and return its env_kwargs, if there are any.

    Nothing else is imported or made on behalf of the file.
    """
    with _of_run(run_dir, "an environment that cannot be made"):
        register_for_file(command.get("env_name"))
        for text in command.get("wrapper") or ():
            module = str(text).partition("(")[0].rpartition(":")[0]
            import_for_file(module or "gymnasium.wrappers")
            check_environment_arguments(wrapper_of(text)[1])
        known = {name: from_json(x) for name, x in command.items() if name == "env_kwargs"}
        check_environment_arguments(known)
        return known
