"""The command line: `python -m spinup_tf2.run CMD [ARGS...]`, also installed as `spinup_tf2`.

Every keyword argument of an algorithm is a flag. Several values for flags make a grid of
experiments. Nothing on the command line is executed: values are Python literals, names from a
table, or strings. TensorFlow is loaded only in the processes of the experiments.
"""

from __future__ import annotations

import argparse
import ast
import functools
import os
import re
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from spinup_tf2.algos import ALGORITHMS
from spinup_tf2.arguments.checks import MAY_CHANGE, check_epochs_left, whole_numbers
from spinup_tf2.errors import Interrupted, UserError, one_line
from spinup_tf2.experiments.checks import (
    check_spaces,
    check_values,
    did_you_mean,
    network_arguments,
    signature_of,
)
from spinup_tf2.presets import PRESETS, as_flags, presets_for
from spinup_tf2.version import __version__

if TYPE_CHECKING:
    from spinup_tf2.utils.run_utils import ExperimentGrid

UTILITIES = ("plot", "test_policy", "evaluate", "play")

HELP = ("--help", "-h", "help")

# Shorter forms of some common but long flags.
SUBSTITUTIONS = {
    "env": "env_name",
    "hid": "ac_kwargs:hidden_sizes",
    "act": "ac_kwargs:activation",
    "cpu": "num_cpu",
    "dt": "datestamp",
}

# Flags that say how to run the experiments, and take one value. They are not part of the grid.
RUN_KEYS = (
    *("num_cpu", "hosts", "launcher", "data_dir", "datestamp", "overwrite", "quiet"),
    "preset",
)
SWITCHES = ("datestamp", "overwrite", "quiet")

# Flags whose values are taken as they stand: `--exp_name 1e3` is not the number 1000.
TEXT_KEYS = ("exp_name", "env_name", "data_dir", "hosts", "launcher", "preset", "init_from")

# Arguments of the algorithms that only a Python program can give.
PYTHON_ONLY = ("env_fn", "actor_critic", "logger_kwargs", "behavior_policy")

# What `resume` may be given beside the directory: what does not make it another run.
RESUME_KEYS = (*MAY_CHANGE, "num_cpu", "hosts", "launcher", "quiet")

RESUME_USAGE = """
Go on with a run that was interrupted, killed or finished:

\tpython -m spinup_tf2.run resume RUN_DIR [--epochs N] [--cpu N] [--import MODULE] ...

RUN_DIR is the directory that holds progress.txt and checkpoint/. The run goes on with the
arguments and the number of processes with which it began. These may be changed:

{flags}

If its environment is in a module of yours, name that: --import my_envs. The file of a run
alone does not import it.
"""

USAGE = """
Experiment in Spinning Up from the command line with

\tpython -m spinup_tf2.run CMD [ARGS...]

where CMD is a valid command. Current valid commands are:

{commands}

FYI: When running an algorithm, any keyword argument to the
algorithm function can be used as a flag, eg

\tpython -m spinup_tf2.run ppo --env HalfCheetah-v5 --clip_ratio 0.1

If you need a quick refresher on valid kwargs, get the docstring
with

\tpython -m spinup_tf2.run [algo] --help

See the "Running Experiments" docs page for more details. The version is printed by

\tpython -m spinup_tf2.run --version

Also: Some common but long flags can be substituted for shorter
ones. Valid substitutions are:

{substitutions}

These flags go with every algorithm:

\t--preset    NAME      tuned hyperparameters instead of the defaults, see below
\t--exp_name  NAME      name of the experiment, and of its directory
\t--data_dir  DIR       where all experiments are saved
\t--num_cpu   N         MPI processes, or auto for all cores
\t--hosts     A:2,B:2   machines, and how many processes each runs
\t--launcher  CMD       what starts the processes instead of mpirun
\t--datestamp           date and time in the names of directories
\t--overwrite           replace a run that is in the directory already
\t--resume              go on with the run that is in the directory, if there is one
\t--quiet               print nothing but errors
\t--debug               show where in the program an error comes from

These are the presets. The flags that are given beside them win:

{presets}
"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command line; `argv` is without the program's name, by default that of the process."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # as while all this was loaded
        signal.signal(signal.SIGINT, signal.default_int_handler)
    argv = sys.argv[1:] if argv is None else list(argv)
    # --debug belongs to this function, unless the arguments are another program's.
    is_utility = bool(argv) and argv[0] in UTILITIES
    debug = "--debug" in argv and not is_utility
    if debug:
        argv = [argument for argument in argv if argument != "--debug"]
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "0")
    try:
        _run_command(argv)
    except UserError as error:
        _fail(error, traceback.format_exc() if debug else "")
    except subprocess.CalledProcessError as error:
        from spinup_tf2.parallel.mpi import launched_by_mpi

        if launched_by_mpi():
            raise  # the experiment ran here, and failed to run a program
        sys.exit(error.returncode)  # the experiment's process has reported its own error
    except Interrupted as interruption:
        _leave(lambda: None, interruption.status)
    except KeyboardInterrupt:
        _leave(lambda: None, 130)


def _fail(error, trace):
    """Print the error as one line, and leave with status 2."""
    line = f"{trace}spinup_tf2: error: {one_line(error)}"
    _leave(lambda: print(line, file=sys.stderr), 2)


def _leave(report, status):
    """Report once, and leave with `status`, on all ranks."""
    from spinup_tf2.parallel.mpi import fail_together

    fail_together(report, status)
    sys.exit(status)


def _run_command(argv):
    command, *arguments = argv or ["help"]
    if command == "help" and arguments:
        command, arguments = arguments[0], ["--help"]
    if command in HELP:
        _print_once(_usage())
    elif command == "--version":
        _print_once(f"spinup_tf2 {__version__}")
    elif command in UTILITIES:
        import_module(f"spinup_tf2.utils.{command}").main(arguments)
    elif command == "resume":
        _resume(arguments)
    elif command in ALGORITHMS:
        if any(argument in HELP for argument in arguments):
            _print_once(_algorithm_help(command, arguments))
        else:
            _run_algorithm(command, arguments)
    else:
        known = [*ALGORITHMS, "resume", *UTILITIES, "help"]
        plain = re.sub("_(tf1|pytorch)$", "", command.lower())  # as in Spinning Up
        raise UserError(
            f"{command!r} is not a command;{did_you_mean(plain, known)} "
            f"the commands are {', '.join(known)}."
        )


def _print_once(text):
    from spinup_tf2.parallel.mpi import launched_rank

    if launched_rank() == 0:
        print(text)


def _usage():
    commands = "\n".join(f"\t{name}" for name in (*ALGORITHMS, "resume", *UTILITIES))
    substitutions = "\n".join(
        f"\t--{short.ljust(10)}for       --{flag}" for short, flag in SUBSTITUTIONS.items()
    )
    presets = "\n".join(
        f"\t{preset.algorithm.ljust(5)} --preset {name.ljust(17)} {preset.doc}"
        for name, preset in PRESETS.items()
    )
    return USAGE.format(commands=commands, substitutions=substitutions, presets=presets)


def _algorithm_help(algorithm, arguments):
    """What an algorithm's flags are, and its presets; those among the arguments in full."""
    signature = signature_of(algorithm)
    flags = {name: x for name, x in signature.defaults.items() if name not in PYTHON_ONLY}
    text = (
        f"\n\nShowing docstring for spinup_tf2.{algorithm}:\n\n{signature.doc}\n\n"
        f"Flags and their defaults:\n\n{_flag_lines(flags)}\n"
    )
    presets = presets_for(algorithm)
    if presets:
        docs = {f"preset {name}": preset.doc for name, preset in presets.items()}
        lines = "\n".join(f"    --{flag.ljust(20)} {doc}" for flag, doc in docs.items())
        text += f"\nPresets, which take the place of the defaults:\n\n{lines}\n"
    for name in presets:
        if name in arguments:
            settings = _flag_lines(as_flags(presets[name].arguments))
            text += f"\nThe hyperparameters of preset {name}:\n\n{settings}\n"
    return text


def _flag_lines(flags):
    width = max(map(len, flags))
    return "\n".join(f"    --{name.ljust(width)} {value!r}" for name, value in flags.items())


# ---------------------------------------------------------------- an algorithm's command line


def _run_algorithm(algorithm, arguments):
    from spinup_tf2.envs.modules import look_here
    from spinup_tf2.parallel import mpi
    from spinup_tf2.utils.run_utils import NamedAlgorithm

    mpi.write_by_lines()
    look_here()  # for environments as module:EnvId
    mpi.comm()  # first of all: without MPI nobody could wait for a rank that has failed

    grid, run_options = parse_experiments(algorithm, arguments)
    # Every environment of a grid is combined with every argument of its networks.
    names = {name for variant in grid.variants() for name in variant.get("ac_kwargs") or {}}
    check_env = functools.partial(check_spaces, algorithm=algorithm, ac_kwargs=names)
    grid.run(NamedAlgorithm(algorithm), check_env=check_env, **run_options)


def _resume(arguments):
    """Go on with a run: `resume RUN_DIR [--epochs N] ...`."""
    if any(argument in HELP for argument in arguments):
        _print_once(RESUME_USAGE.format(flags="\n".join(f"\t--{key}" for key in RESUME_KEYS)))
        return
    from spinup_tf2.envs.modules import import_for_command
    from spinup_tf2.parallel import mpi
    from spinup_tf2.utils.run_utils import NamedAlgorithm, resume_experiment

    mpi.write_by_lines()
    mpi.comm()
    modules, arguments = _take_modules(arguments)
    import_for_command(modules)
    run_dir, algorithm, options, kwargs = parse_resume(arguments)
    options |= dict(modules=modules)
    resume_experiment(run_dir, NamedAlgorithm(algorithm), **options, **kwargs)


def _take_modules(arguments):
    """What `--import` names in a command line, and the rest of it."""
    from spinup_tf2.envs.modules import add_import_argument

    parser = argparse.ArgumentParser("resume", add_help=False, allow_abbrev=False)
    add_import_argument(parser)
    known, rest = parser.parse_known_args(arguments)
    return known.modules, rest


def parse_resume(arguments: Sequence[str]) -> tuple[str, str, dict[str, Any], dict[str, Any]]:
    """Read and check the arguments of `resume`, and what the run's checkpoint says of it.

    Returns the run's directory, the algorithm, and the keyword arguments for `resume_experiment`
    and those for the algorithm. Raises UserError for what cannot be resumed.
    """
    from spinup_tf2.parallel.mpi import launched_by_mpi
    from spinup_tf2.persistence.checkpoints import Checkpoints
    from spinup_tf2.persistence.reading import runs_in
    from spinup_tf2.utils.run_utils import check_exp_name

    if not arguments or arguments[0].startswith("--"):
        raise UserError("resume needs the directory of a run: resume RUN_DIR [--epochs N].")
    run_dir, *rest = arguments
    flags, _ = parse_flags(rest)
    for name in flags:
        if name not in RESUME_KEYS:
            raise UserError(
                f"--{name} cannot be given to resume;"
                f"{did_you_mean(name, [*RESUME_KEYS, *SUBSTITUTIONS], '--')} a run goes on with "
                f"its own arguments, of which these may change: {', '.join(RESUME_KEYS)}."
            )
    given = whole_numbers({name: _only_value(name, values) for name, values in flags.items()})
    if not os.path.isdir(run_dir):
        raise UserError(f"there is no directory {run_dir}.")
    run = Checkpoints(run_dir).describe()
    if run is None:
        runs = runs_in(run_dir, "checkpoint")
        raise UserError(
            f"{run_dir} holds no checkpoint that can be read, and so nothing to resume; give "
            + (f"one of the runs in it: {runs}." if runs else "the directory of a run.")
        )
    algorithm, command, exp_name = (run.get(key) for key in ("algorithm", "command", "exp_name"))
    if algorithm not in [*ALGORITHMS] or not isinstance(command, dict | None):
        raise UserError(f"the checkpoint in {run_dir} is of no algorithm that is known here.")
    if command is None:
        raise UserError(
            f"the run in {run_dir} was started by a Python program, with an environment or "
            f"networks that only this knows; call {algorithm}(..., resume=True) there."
        )
    known = {*signature_of(algorithm).defaults, "env_name", "env_kwargs"} - {*PYTHON_ONLY}
    if not command.keys() <= known:
        unknown = ", ".join(sorted(command.keys() - known))
        raise UserError(f"the checkpoint in {run_dir} has arguments that are none: {unknown}.")
    if exp_name is not None:
        check_exp_name(exp_name)
    _register_environment(command, run_dir)

    environments, num_procs = run.get("num_envs"), run.get("num_procs")
    if not all(type(number) is int and number > 0 for number in (environments, num_procs)):
        raise UserError(f"the checkpoint in {run_dir} does not say how many processes it had.")
    options = {key: given.pop(key) for key in ("hosts", "launcher") if key in given}
    known = launched_by_mpi() or "hosts" in options
    asked = given.pop("num_cpu", None if known else num_procs)
    num_cpu = _number_of_processes(asked, options.get("hosts"), options.get("launcher"))
    options |= dict(exp_name=exp_name, quiet=given.pop("quiet", False), num_cpu=num_cpu)
    if isinstance(run.get("preset"), str):
        options |= dict(preset=run["preset"])
    if num_cpu != num_procs:  # the environments are spread anew
        if environments % num_cpu:
            raise UserError(
                f"the run has {environments} environments, which {num_cpu} processes cannot share "
                "equally; choose a number of processes that divides it."
            )
        command = command | dict(num_envs=environments // num_cpu)
    check_values(algorithm, command | given, num_cpu)
    if "epochs" in given and type(run["epochs_done"]) is int:
        check_epochs_left(given["epochs"], run["epochs_done"], run_dir)
    return run_dir, algorithm, options, command | given


def _register_environment(command, run_dir):
    """Register the environment of a checkpoint, of which the file's word decides nothing more."""
    from spinup_tf2.envs.modules import check_environment_arguments
    from spinup_tf2.persistence.env_spec import register_for_file

    try:
        register_for_file(command.get("env_name"))
        check_environment_arguments(command.get("env_kwargs"))
    except (Exception, SystemExit) as error:  # what is installed may raise anything, too
        reason = one_line(error)
        raise UserError(
            f"the environment of the run in {run_dir} cannot be made: {reason}."
        ) from error


def parse_experiments(
    algorithm: str, arguments: Sequence[str]
) -> tuple[ExperimentGrid, dict[str, Any]]:
    """Read and check the arguments of an algorithm's command line.

    Returns the ExperimentGrid and the keyword arguments for its `run`. Raises UserError for
    everything that can be known to be wrong without starting.
    """
    from spinup_tf2.utils.run_utils import ExperimentGrid, check_exp_name

    flags, shorthands = parse_flags(arguments)
    _check_names(algorithm, flags)

    run_options = {key: _only_value(key, flags.pop(key)) for key in RUN_KEYS if key in flags}
    exp_name = _only_value("exp_name", flags.pop("exp_name", [f"cmd_{algorithm}"]))
    check_exp_name(exp_name)
    preset = None
    if "preset" in run_options:
        if [*arguments].count("--preset") > 1:
            raise UserError("--preset is given twice; give one.")
        preset = _preset(run_options["preset"], algorithm, flags.get("env_name", []))
    elif "env_name" not in flags:
        raise UserError("You did not give a value for --env_name! Add one and try again.")

    grid = ExperimentGrid(name=exp_name, base=preset and preset.arguments)
    for key, values in flags.items():
        values = [whole_numbers({key: value})[key] for value in values]
        grid.add(key, values, shorthand=shorthands.get(key))
    num_procs = _number_of_processes(
        *(run_options.get(key) for key in ("num_cpu", "hosts", "launcher"))
    )
    variants = grid.variants()
    for variant in variants:
        check_values(algorithm, variant, num_procs)
    if preset:
        run_options["note"] = _used_settings(run_options["preset"], preset, variants)
    else:
        run_options["note"] = _hint(algorithm, flags["env_name"])
    return grid, run_options


def _preset(name, algorithm, env_names):
    """The preset of this name, which must be for the algorithm and the environments."""
    own = presets_for(algorithm)
    if name not in PRESETS:
        known = f"those of {algorithm} are {', '.join(own)}" if own else f"{algorithm} has none"
        raise UserError(f"{name!r} is not a preset;{did_you_mean(name, own)} {known}.")
    preset = PRESETS[name]
    if name not in own:
        raise UserError(f"the preset {name} is for {preset.algorithm}, not for {algorithm}.")
    for env_name in env_names:
        if name not in presets_for(algorithm, env_name):
            raise UserError(
                f"the preset {name} does not fit {env_name}: it is for {preset.fits}, such as "
                f"{preset.env}. Choose one of these environments, or leave --preset out."
            )
    return preset


def _used_settings(name, preset, variants):
    """The block that says which settings a preset has brought, and which were given instead."""
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
    """A line about presets that fit all the environments; "" if there are none."""
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


def parse_flags(arguments: Sequence[str]) -> tuple[dict[str, list], dict[str, str]]:
    """Parse `--flag value value --flag[shorthand] ...`.

    Returns `(flags, shorthands)`: lists of values, and the shorthands that were given, by the full
    name of the flag. The order is that of Spinning Up, which decides the order of a grid: plain
    flags as typed, then those with a shorthand, then substituted ones.
    """
    if arguments and not arguments[0].startswith("--"):
        raise UserError(
            f"You didn't specify a first flag. {arguments[0]!r} stands before any flag; "
            "write for instance --env CartPole-v1."
        )
    words = {}
    for argument in arguments:
        if argument.startswith("--"):
            name = argument[2:]
            words[name] = []  # a repeated flag starts again
        else:
            words[name].append(argument)

    shorthands = {}
    for flag in [*words]:
        name, bracket, rest = flag.partition("[")
        if bracket and rest.endswith("]"):
            words[name] = words.pop(flag)
            shorthands[name] = rest[:-1]

    for short, name in SUBSTITUTIONS.items():
        if short in words:
            if name in words:
                raise UserError(f"--{short} and --{name} are the same flag; give it once.")
            words[name] = words.pop(short)
        if short in shorthands:
            shorthands[name] = shorthands.pop(short)

    flags = {}
    for name, values in words.items():
        if name in TEXT_KEYS:
            if not values:
                raise UserError(f"--{name} was given without a value.")
            flags[name] = values
        else:
            flags[name] = [parse_value(value) for value in values] or [True]
    return flags, shorthands


# tf.nn.tanh, tf.tanh, torch.nn.Tanh, ...: activations under the names that their libraries give
# them. Keras knows them all by their plain name.
_ACTIVATION_PREFIXES = ("tf.nn.", "tf.", "tf.keras.activations.", "keras.activations.")
_TORCH_ACTIVATIONS = {
    "torch.nn.ELU": "elu",
    "torch.nn.GELU": "gelu",
    "torch.nn.Identity": "linear",
    "torch.nn.LeakyReLU": "leaky_relu",
    "torch.nn.ReLU": "relu",
    "torch.nn.SELU": "selu",
    "torch.nn.Sigmoid": "sigmoid",
    "torch.nn.SiLU": "silu",
    "torch.nn.Softplus": "softplus",
    "torch.nn.Softsign": "softsign",
    "torch.nn.Tanh": "tanh",
}


@functools.cache
def _known_names():
    """What words other than literals stand for."""
    from spinup_tf2.arguments.rules import ACTIVATIONS

    dotted = {prefix + name: name for prefix in _ACTIVATION_PREFIXES for name in ACTIVATIONS}
    return dotted | _TORCH_ACTIVATIONS


def parse_value(text: str) -> Any:
    """A known name, a Python literal (`1e-3`, `[32,32]`, `True`, `None`), or the text itself."""
    if text in _known_names():
        return _known_names()[text]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python's parser, about what is no Python
            value = ast.literal_eval(text)
        repr(value)  # a number of thousands of digits cannot be printed, and was none
        return value
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text


# ---------------------------------------------------------------- checks


def _check_names(algorithm, flags):
    """Refuse flags that the algorithm does not have."""
    known = [name for name in signature_of(algorithm).defaults if name not in PYTHON_ONLY]
    known += [f"ac_kwargs:{name}" for name in network_arguments(algorithm)]
    known += ["env_name", "env_kwargs", "exp_name", *RUN_KEYS]
    for name in flags:
        if ":".join(name.split(":")[:2]) in known or name.startswith("env_kwargs:"):
            continue
        if name in PYTHON_ONLY:
            raise UserError(f"--{name} cannot be given here; call spinup_tf2.{algorithm} instead.")
        plain, equals, value = name.partition("=")
        if equals:
            raise UserError(f"--{name} has a = in it; write --{plain} {value}.")
        raise UserError(
            f"--{name} is not a flag of {algorithm};"
            f"{did_you_mean(name, [*known, *SUBSTITUTIONS], '--')} "
            f"python -m spinup_tf2.run {algorithm} --help shows them all."
        )


def _only_value(key, values):
    if len(values) > 1:
        raise UserError(f"You can only provide one value for {key}.")
    [value] = values
    if key in SWITCHES and not isinstance(value, bool):
        raise UserError(f"--{key} is a switch; give it without a value instead of {value!r}.")
    return value


def _number_of_processes(num_cpu, hosts, launcher):
    """How many processes an experiment will have; None stands for what was not given."""
    from spinup_tf2.utils.run_utils import resolve_processes

    number = resolve_processes(1 if num_cpu is None else num_cpu, hosts, launcher).number
    if num_cpu == 1 != number:  # which a program may leave at its default, but here was typed
        source = "hosts gives" if hosts else "the MPI launcher started"
        raise UserError(f"--num_cpu is 1, but {source} {number} processes.")
    return number


if __name__ == "__main__":
    main()
