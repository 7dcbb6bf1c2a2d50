"""Grids: one experiment for each combination of the values of some parameters."""

from __future__ import annotations

import copy
import functools
import itertools
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spinup_tf2 import user_config
from spinup_tf2.arguments.rules import POSITIVE_INTEGER, check
from spinup_tf2.errors import UserError
from spinup_tf2.experiments.calling import Processes, resolve_processes
from spinup_tf2.experiments.experiment import check_launch, prepare_experiment, set_replaced_aside
from spinup_tf2.experiments.outcomes import NOT_BEGUN, SKIPPED, Outcome, finished_runs
from spinup_tf2.experiments.presets import merged, nested
from spinup_tf2.experiments.schedule import run_all
from spinup_tf2.files.printing import RULE, colored, is_terminal, say
from spinup_tf2.files.run_directory import OUTPUT
from spinup_tf2.files.serialization import convert_json
from spinup_tf2.parallel import launched, mpi
from spinup_tf2.parallel.launched import threads_of_each


def all_bools(vals: Iterable[Any]) -> bool:
    """Return whether all values are Booleans."""
    return all(isinstance(value, bool) for value in vals)


def valid_str(v: Any) -> str:
    """Convert `v` to a string fit for a file name: only letters, digits, - and _."""
    if hasattr(v, "__name__"):
        return valid_str(v.__name__)
    if isinstance(v, tuple | list):
        return "-".join(valid_str(member) for member in v)
    text = str(v)
    if " at 0x" in text:  # a memory address, which would be different in another process
        text = str(convert_json(v))
    return re.sub(r"[^-_A-Za-z0-9]", "-", text.lower())


@dataclass(frozen=True)
class _Parameter:
    key: str
    vals: list
    shorthand: str | None
    in_name: bool

    def name_in(self, variant):
        """Return what the parameter adds to the name of a variant's experiment."""
        if self.key == "seed" or not (len(self.vals) > 1 or self.in_name):
            return ""  # runs that differ only in their seed are one experiment
        name = valid_str(self.key if self.shorthand is None else self.shorthand)
        # Key `a:b` is at variant["a"]["b"].
        value = functools.reduce(lambda level, part: level[part], self.key.split(":"), variant)
        if all_bools(self.vals):
            return f"_{name}" if value else ""
        return f"_{name}{valid_str(value)}"


class ExperimentGrid:
    """Runs one experiment for each combination of the values of some parameters.

    Args:
        name: Name of the grid, and prefix of the names of its experiments.
        base: Arguments common to all experiments, such as `load("ppo", "mario").arguments` from
            `spinup_tf2.experiments.presets`. Parameters override them; in nested dicts, key by key.
    """

    def __init__(self, name: str = "", base: Mapping[str, Any] | None = None):
        self._base = dict(base or {})
        self._parameters = []
        self.name(name)

    def name(self, _name: str) -> None:
        """Set the name of the grid."""
        self._name = _name

    def add(self, key: str, vals: Any, shorthand: str | None = None, in_name: bool = False) -> None:
        """Add a parameter. The first one added varies slowest.

        Args:
            key: Name of the parameter. Colons reach into dicts: `ac_kwargs:hidden_sizes`.
            vals: List of values, or a single value (which may be a tuple).
            shorthand: Short form of the key for the names of experiments, by default its first
                three letters. With "", names show only the value.
            in_name: Whether names show the parameter even if it has only one value.

        Raises:
            UserError: There are no values, or the key overlaps with one added before.
        """
        for other in (parameter.key for parameter in self._parameters):
            if f"{key}:".startswith(f"{other}:") or f"{other}:".startswith(f"{key}:"):
                raise UserError(
                    f"You can't assign multiple values to the same key. There is {other}, and then "
                    f"{key}."
                )
        if shorthand is None and user_config.DEFAULT_SHORTHAND:
            shorthand = self._default_shorthand(key)
        vals = vals if isinstance(vals, list) else [vals]
        if not vals:
            raise UserError(f"{key} has no values; give at least one, or leave {key} out.")
        self._parameters.append(_Parameter(key, vals, shorthand, in_name))

    @staticmethod
    def _default_shorthand(key):
        """Return the first three letters of each part: `ac_kwargs:hidden_sizes` gives `ac-hid`."""
        return "-".join(re.sub(r"[^A-Za-z0-9]", "", part[:3]) for part in key.split(":"))

    def print(self) -> None:
        """Print the parameters, their values, and the number of variants."""
        title = f"ExperimentGrid [{self._name}] runs over parameters:\n"
        say(RULE)
        say(colored(title, color="green", bold=True))
        for parameter in self._parameters:
            key = colored(parameter.key.ljust(40), color="cyan", bold=True)
            shorthand = "" if parameter.shorthand is None else f"[{parameter.shorthand}]"
            say(f" {key} {shorthand} \n")
            for value in parameter.vals:
                say(f"\t{convert_json(value)}")
            say("")
        sizes = {parameter.key: len(parameter.vals) for parameter in self._parameters}
        total = math.prod(sizes.values())
        say(f"{' Variants, counting seeds: ':40} {total}")
        say(f"{' Variants, not counting seeds: ':40} {total // sizes.get('seed', 1)}\n")
        say(RULE)

    def variant_name(self, variant: dict[str, Any]) -> str:
        """Return the name of the experiment to which a variant belongs."""
        parts = [parameter.name_in(variant) for parameter in self._parameters]
        return "".join([self._name, *parts]).lstrip("_")

    def variants(self) -> list[dict[str, Any]]:
        """Return all combinations as keyword arguments, keys with colons as nested dicts."""
        every = [[nested(each.key, value) for value in each.vals] for each in self._parameters]
        return [
            functools.reduce(merged, combination, copy.deepcopy(self._base))
            for combination in itertools.product(*every)
        ]

    def run(
        self,
        thunk: Callable[..., Any] | str,
        num_cpu: int | str = 1,
        data_dir: str | os.PathLike | None = None,
        datestamp: bool = False,
        *,
        overwrite: bool = False,
        quiet: bool = False,
        launcher: str | None = None,
        preset: str | None = None,
        workers: int = 1,
        skip_finished: bool = False,
        note: str = "",
        command: Sequence[str] | None = None,
    ) -> None:
        """Run every variant as `call_experiment` does, one after the other or several at a time.

        If an experiment fails, the others still run. A signal stops the grid: running experiments
        save and end, and no others are started.

        Args:
            thunk: Function to run, or the name of a parameter whose values are functions.
            num_cpu, data_dir, datestamp, quiet, launcher, preset: As in `call_experiment`.
            overwrite: Whether existing runs in the directories may be replaced. Those of a grid of
                several are moved aside before the first one starts, so that old runs never remain
                among new ones if the grid is stopped.
            workers: Number of experiments to run at a time. If greater than 1, they share the
                cores, and the output of each goes to output.txt in its directory.
            skip_finished: Whether to leave out experiments that are already finished, that is,
                whose directories hold complete runs with the same arguments. An unfinished one
                needs `resume` or `overwrite`.
            note: Text to print first.
            command: Words of the command line that runs the grid, if any; for that of the rest.

        Raises:
            UserError: The arguments are invalid, before any experiment starts; or the only
                experiment of the grid has raised it.
            ExperimentsFailed: Experiments have failed; raised after all others have run.
            Interrupted: A signal has stopped the grid.
        """
        processes = resolve_processes(num_cpu, launcher)
        options = dict(data_dir=data_dir, datestamp=datestamp, overwrite=overwrite, quiet=quiet)
        options |= dict(preset=preset, num_procs=processes.number)
        experiments = []
        for variant in self.variants():
            name = self.variant_name(variant)
            function = variant.pop(thunk) if isinstance(thunk, str) else thunk
            experiments.append(prepare_experiment(name, function, **options, **variant))

        _check_workers(workers, experiments, processes)
        if skip_finished and (datestamp or user_config.FORCE_DATESTAMP):
            raise UserError(
                "skip_finished finds a run by the name of its directory, which datestamp makes a "
                "new one; give one of them."
            )
        finished = finished_runs(experiments, processes.number) if skip_finished else set()
        check_launch(experiments, finished)
        outcomes = [
            Outcome(each, number, SKIPPED if each.output_dir in finished else NOT_BEGUN)
            for number, each in enumerate(experiments, 1)
        ]
        plan = _plan_of(outcomes, processes, workers)
        if not quiet and mpi.proc_id() == 0:
            if note:
                say(note)
            if len(experiments) > 1:  # a single experiment is announced when it starts
                self._announce({experiment.exp_name for experiment in experiments}, plan)
            elif plan:
                say(plan)
        if len(experiments) > 1:  # a single experiment replaces its predecessor when it starts
            set_replaced_aside(each.experiment for each in outcomes if each.state == NOT_BEGUN)
        run_all(outcomes, processes, workers, quiet, command)

    def _announce(self, names, plan):
        self.print()
        preparing = "Preparing to run the following experiments..."
        say(f"\n{colored(preparing, color='green', bold=True)}\n")
        say("\n".join([*sorted(names), f"\n{RULE}"]))
        if plan:
            say(f"\n{plan}\n")
        # If the output goes to a file, nobody is there to review it.
        if user_config.WAIT_BEFORE_LAUNCH > 0 and is_terminal(sys.stdout):
            _wait_before_launch(user_config.WAIT_BEFORE_LAUNCH)


def _check_workers(workers, experiments, processes):
    """Raise UserError if this many experiments of a grid cannot run at a time."""
    check(POSITIVE_INTEGER, workers=workers)
    if workers == 1:
        return
    if launched.by_mpi() or any(each.output_dir is None for each in experiments):
        raise UserError(
            f"workers is {workers}, but experiments run at the same time only in processes that "
            "the grid starts (not under an MPI launcher) and in directories that it has chosen "
            "(without logger_kwargs)."
        )
    processes.command([])  # raises UserError if there is no MPI launcher


def _plan_of(outcomes: Sequence[Outcome], processes: Processes, workers: int) -> str:
    """Describe in words what will run; "" if all experiments run, one after the other."""
    skipped = sum(outcome.state == SKIPPED for outcome in outcomes)
    at_a_time = min(workers, len(outcomes) - skipped)
    lines = []
    if skipped:
        lines.append(f"{skipped} of {len(outcomes)} experiments are finished already, and skipped.")
    if at_a_time > 1:
        threads = threads_of_each(at_a_time * processes.number)
        lines += [
            f"{at_a_time} experiments run at a time (threads of each process: {threads}).",
            f"What they print goes to {OUTPUT} in their directories.",
        ]
    return "\n".join(lines)


def _wait_before_launch(seconds):
    message = (
        "Launch delayed to give you a few seconds to review your experiments.\n\n"
        "To customize or disable this behavior, change WAIT_BEFORE_LAUNCH in\n"
        "spinup_tf2/user_config.py, or set SPINUP_TF2_WAIT_BEFORE_LAUNCH.\n"
    )
    say(colored(f"\n{message}\n", color="cyan", bold=True) + RULE)
    time.sleep(seconds)
