"""The texts that `--help` prints."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from spinup_tf2.algos import ALGORITHMS
from spinup_tf2.arguments.checks import PYTHON_ONLY
from spinup_tf2.cli.flags import SUBSTITUTIONS
from spinup_tf2.experiments.checks import network_arguments, signature_of
from spinup_tf2.experiments.presets import Preset, as_flags, load, presets_for
from spinup_tf2.parallel import launched

HELP = ("--help", "-h", "help")

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

{common}

These are the presets. The flags that are given beside them win. A file of your own works as well:
--preset my.toml. What each of them sets, and where that is from, is shown by

\tpython -m spinup_tf2.run presets --full

{presets}
"""

COMMON = """
\t--env       ID ...    the environment, or several
\t--env_kwargs:KEY X    an argument of the environment
\t--preset    NAME      tuned hyperparameters instead of the defaults
\t--exp_name  NAME      name of the experiment, and of its directory
\t--data_dir  DIR       where all experiments are saved
\t--num_cpu   N         MPI processes, or auto for all cores
\t--launcher  CMD       what starts the processes instead of mpirun
\t--workers   N         experiments of a grid that run at a time
\t--skip_finished       leave out experiments of a grid that are finished already
\t--datestamp           date and time in the names of directories
\t--overwrite           replace a run that is in the directory already
\t--resume              go on with the run that is in the directory, if there is one
\t--quiet               print only errors and warnings
\t--debug               show where in the program an error comes from
""".strip("\n")


def usage(commands: Iterable[str]) -> str:
    """Return the help text of the command line."""
    names = "\n".join(f"\t{name}" for name in commands)
    substitutions = "\n".join(
        f"\t--{short.ljust(10)}for       --{flag}" for short, flag in SUBSTITUTIONS.items()
    )
    presets = "\n".join(
        f"\t{preset_line(preset)}"
        for algorithm in ALGORITHMS
        for preset in presets_for(algorithm).values()
    )
    parts = dict(commands=names, substitutions=substitutions, common=COMMON, presets=presets)
    return USAGE.format(**parts)


def algorithm_help(algorithm: str, argv: Sequence[str]) -> str:
    """Return the help text of an algorithm, with the settings of a preset named in `argv`."""
    signature = signature_of(algorithm)
    flags = {name: x for name, x in signature.defaults.items() if name not in PYTHON_ONLY}
    text = (
        f"\n\nShowing docstring for spinup_tf2.{algorithm}:\n\n{signature.doc}\n\n"
        f"Flags and their defaults:\n\n{_flag_lines(flags)}\n\n"
        f"Those of the default networks:\n\n"
        + "\n".join(f"    --ac_kwargs:{name}" for name in network_arguments(algorithm))
        + f"\n\nThose of every algorithm:\n\n{COMMON.expandtabs(4)}\n"
    )
    presets = presets_for(algorithm)
    if presets:
        docs = {f"preset {name}": preset.doc for name, preset in presets.items()}
        lines = "\n".join(f"    --{flag.ljust(20)} {doc}" for flag, doc in docs.items())
        text += f"\nPresets, which take the place of the defaults:\n\n{lines}\n"
    name, env = _value_of(argv, "--preset"), _value_of(argv, "--env", "--env_name")
    if name is not None:
        settings = _flag_lines(as_flags(load(algorithm, name, env).arguments))
        text += f"\nThe hyperparameters of preset {name}:\n\n{settings}\n"
    return text


def _value_of(argv, *flags):
    """Return the word after one of these flags; None if there is none."""
    pairs = itertools.pairwise(argv)
    return next((word for flag, word in pairs if flag in flags and word[:1] != "-"), None)


def _flag_lines(flags):
    width = max(map(len, flags))
    return "\n".join(f"    --{name.ljust(width)} {value!r}" for name, value in flags.items())


def preset_line(preset: Preset) -> str:
    """Describe a preset in one line, with the flag that selects it."""
    return f"{preset.algorithm.ljust(5)} --preset {preset.name.ljust(17)} {preset.doc}"


def print_once(text: str) -> None:
    """Print a text on rank 0 only."""
    if launched.rank() == 0:
        print(text)
