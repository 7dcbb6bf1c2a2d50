"""The texts that `--help` prints."""

from __future__ import annotations

import inspect
import re
import shutil
import textwrap
from collections.abc import Iterable

from spinup_tf2.algos import ALGORITHMS
from spinup_tf2.arguments.checks import PYTHON_ONLY
from spinup_tf2.cli.flags import SUBSTITUTIONS
from spinup_tf2.experiments.checks import network_arguments, signature_of
from spinup_tf2.parallel import launched

HELP = ("--help", "-h", "help")

USAGE = """
Experiment in Spinning Up from the command line with

\tpython -m spinup_tf2.run CMD [ARGS...]

where CMD is a valid command. Current valid commands are:

{commands}

or module:function, an algorithm of your own.

FYI: When running an algorithm, any keyword argument to the
algorithm function can be used as a flag, eg

\tpython -m spinup_tf2.run ppo --env HalfCheetah-v5 --clip_ratio 0.1

If you need a quick refresher on valid kwargs, list them with

\tpython -m spinup_tf2.run [algo] --help

(--help --full prints the docstring.) See the "Running Experiments"
docs page for more details. The version is printed by

\tpython -m spinup_tf2.run --version

Also: Some common but long flags can be substituted for shorter
ones. Valid substitutions are:

{substitutions}

These flags go with every algorithm:

{common}
"""

COMMON = """
\t--env       ID ...    the environment, or several
\t--env_kwargs:KEY X    an argument of the environment
\t--wrapper   CLASS ... wrappers around it, such as FlattenObservation
\t--preset    NAME      tuned hyperparameters instead of the defaults
\t--exp_name  NAME      name of the experiment, and of its directory
\t--data_dir  DIR       where all experiments are saved
\t--num_cpu   N         MPI processes, or auto for all cores
\t--launcher  CMD       what starts the processes instead of mpirun
\t--workers   N         experiments of a grid that run at a time
\t--skip_finished       leave out experiments of a grid that are finished already
\t--datestamp           date and time in the names of directories
\t--overwrite           replace a run that is in the directory already
\t--resume              continue the run in this directory, if there is one
\t--quiet               print only errors and warnings
\t--debug               show where in the program an error comes from
""".strip("\n")


def usage(commands: Iterable[str]) -> str:
    """Return the help text of the command line."""
    names = "\n".join(f"\t{name}" for name in commands)
    substitutions = "\n".join(
        f"\t--{short.ljust(10)}for       --{flag}" for short, flag in SUBSTITUTIONS.items()
    )
    return USAGE.format(commands=names, substitutions=substitutions, common=COMMON)


def algorithm_help(algorithm: str, full: bool) -> str:
    """Return the help text of an algorithm: a line for each flag, or if `full` its docstring."""
    signature = signature_of(algorithm)
    if full:
        return signature.doc
    flags = {name: x for name, x in signature.defaults.items() if name not in PYTHON_ONLY}
    return _short(algorithm, signature.doc, flags)


def _short(algorithm, doc, flags):
    """Return the help text that has a line for each flag: its default, and its meaning."""
    meanings = _meanings(doc)
    typed = {
        name: f"--{name}" if default is inspect.Parameter.empty else f"--{name} {default!r}"
        for name, default in flags.items()
    }
    rows = [(f"  {flag:31} ", meanings.get(name, "")) for name, flag in typed.items()]
    cut = [before + textwrap.shorten(x, _width(before), placeholder=" ...") for before, x in rows]
    rows_of_all = [(f" {line[1:23]}", line[23:]) for line in COMMON.splitlines()]
    presets = f" Presets: python -m spinup_tf2.run presets {algorithm}"
    parts = [
        _filled(f"python -m spinup_tf2.run {algorithm} --env ID [--FLAG VALUE ...]"),
        _filled(" ".join(doc.partition("\n\n")[0].split())),
        _filled("Flags, their defaults and meanings (several values make a grid):"),
        "\n".join(map(str.rstrip, cut)),
        _filled(" ".join(f"--ac_kwargs:{name}" for name in network_arguments(algorithm)), "  "),
        "\n".join(_filled(meaning, f" {typed}") for typed, meaning in rows_of_all),
        _filled(f"In full: --help --full.{presets if algorithm in ALGORITHMS else ''}"),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _width(before):
    """Return how many columns of the terminal are left for a text after another one."""
    return max(min(shutil.get_terminal_size().columns, 100) - len(before), 20)


def _filled(text, before=""):
    """Wrap a text at the terminal's width, indented as far as what stands before it."""
    first, *rest = textwrap.wrap(text, _width(before), break_on_hyphens=False) or [""]
    return f"\n{' ' * len(before)}".join([(before + first).rstrip(), *rest])


def _meanings(doc):
    """Return {argument: the first sentence of its description} of a docstring in Google's style."""
    _, _, entries = doc.partition("Args:\n")
    found = re.findall(r"^ {4}(\w+)(?: \(.*?\))?: (.*(?:\n {5,}.*)*)", entries, re.MULTILINE)
    return {name: re.split(r"(?<=\.) ", " ".join(text.split()))[0] for name, text in found}


def print_once(text: str) -> None:
    """Print a text on rank 0 only."""
    if launched.rank() == 0:
        print(text)
