"""All combinations of the values of some parameters, run one after the other."""

from __future__ import annotations

import copy
import functools
import itertools
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from textwrap import dedent
from typing import TYPE_CHECKING, Any

from tqdm import trange

from spinup_tf2 import user_config
from spinup_tf2.errors import UserError
from spinup_tf2.experiments import calling
from spinup_tf2.experiments.experiment import NamedAlgorithm, check_launch, prepare_experiment
from spinup_tf2.experiments.processes import resolve_processes
from spinup_tf2.parallel import launched, mpi
from spinup_tf2.runs.printing import RULE, RULE_WIDTH, colored
from spinup_tf2.utils.serialization_utils import convert_json

if TYPE_CHECKING:
    import gymnasium as gym


def all_bools(vals: Iterable[Any]) -> bool:
    """Whether all values are True or False."""
    return all(isinstance(value, bool) for value in vals)


def valid_str(v: Any) -> str:
    """`v` as a part of a file name: letters, digits, - and _."""
    if hasattr(v, "__name__"):
        return valid_str(v.__name__)
    if isinstance(v, tuple | list):
        return "-".join(valid_str(member) for member in v)
    return re.sub(r"[^-_A-Za-z0-9]", "-", str(v).lower())


@dataclass(frozen=True)
class _Parameter:
    key: str
    vals: list
    shorthand: str | None
    in_name: bool

    def value_in(self, variant):
        """The value in a nested variant: key `a:b` is at variant["a"]["b"]."""
        return functools.reduce(lambda level, part: level[part], self.key.split(":"), variant)

    def name_in(self, variant):
        """What the parameter adds to the name of a variant's experiment."""
        if self.key == "seed" or not (len(self.vals) > 1 or self.in_name):
            return ""  # runs that differ only in their seed are one experiment
        name = valid_str(self.key if self.shorthand is None else self.shorthand)
        value = self.value_in(variant)
        if all_bools(self.vals):
            return f"_{name}" if value else ""
        return f"_{name}{valid_str(value)}"


class ExperimentGrid:
    """All combinations of the values of some parameters, run one after the other.

    Args:
        name: Name of the grid, with which the names of its experiments begin.
        base: Arguments of all experiments, of which parameters take the place; dicts in it are
            replaced key by key. Such as `PRESETS["mario"].arguments` of `spinup_tf2.presets`.
    """

    def __init__(self, name: str = "", base: Mapping[str, Any] | None = None):
        self._base = dict(base or {})
        self._parameters = []
        self.name(name)

    def name(self, _name: str) -> None:
        """Set the name of the grid."""
        if not isinstance(_name, str):
            raise UserError(f"Name has to be a string. It is {_name!r}.")
        self._name = _name

    def add(self, key: str, vals: Any, shorthand: str | None = None, in_name: bool = False) -> None:
        """Add a parameter. The first one added varies slowest.

        Args:
            key: Name of the parameter. Colons reach into dicts: `ac_kwargs:hidden_sizes`.
            vals: List of values, or one value (also a tuple).
            shorthand: Short form of the key for the names of experiments. By default the first
                three letters; "" leaves only the value.
            in_name: Whether the names also show a parameter of only one value.
        """
        if not isinstance(key, str):
            raise UserError(f"Key must be a string. It is {key!r}.")
        if not (shorthand is None or isinstance(shorthand, str)):
            raise UserError(f"Shorthand must be a string. It is {shorthand!r}.")
        for other in (parameter.key for parameter in self._parameters):
            if f"{key}:".startswith(f"{other}:") or f"{other}:".startswith(f"{key}:"):
                raise UserError(
                    f"You can't assign multiple values to the same key. There is {other}, and then "
                    f"{key}."
                )
        if shorthand is None and user_config.DEFAULT_SHORTHAND:
            shorthand = self._default_shorthand(key)
        vals = vals if isinstance(vals, list) else [vals]
        self._parameters.append(_Parameter(key, vals, shorthand, in_name))

    @staticmethod
    def _default_shorthand(key):
        """The first three letters of each part: `ac_kwargs:hidden_sizes` gives `ac-hid`."""
        return "-".join(re.sub(r"[^A-Za-z0-9]", "", part[:3]) for part in key.split(":"))

    def print(self) -> None:
        """Print the parameters, their values, and the number of variants."""
        message = f"ExperimentGrid [{self._name}] runs over parameters:\n"
        if len(message) > RULE_WIDTH:
            message = f"ExperimentGrid [{self._name}]\n runs over parameters:\n"
        print(RULE)
        print(colored(message, color="green", bold=True))
        for parameter in self._parameters:
            key = colored(parameter.key.ljust(40), color="cyan", bold=True)
            shorthand = "" if parameter.shorthand is None else f"[{parameter.shorthand}]"
            print("", key, shorthand, "\n")
            for value in parameter.vals:
                print(f"\t{convert_json(value)}")
            print()
        sizes = {parameter.key: len(parameter.vals) for parameter in self._parameters}
        total = functools.reduce(lambda a, b: a * b, sizes.values(), 1)
        print(" Variants, counting seeds: ".ljust(40), total)
        print(" Variants, not counting seeds: ".ljust(40), total // sizes.get("seed", 1))
        print()
        print(RULE)

    def variant_name(self, variant: dict[str, Any]) -> str:
        """Name of the experiment to which a variant belongs."""
        parts = [parameter.name_in(variant) for parameter in self._parameters]
        return "".join([self._name, *parts]).lstrip("_")

    def variants(self) -> list[dict[str, Any]]:
        """All combinations, as keyword arguments: keys with colons have become nested dicts."""
        values = itertools.product(*(parameter.vals for parameter in self._parameters))
        keys = [parameter.key for parameter in self._parameters]
        own = (_nested(zip(keys, combination, strict=True)) for combination in values)
        return [_merged(self._base, variant) for variant in own]

    def run(
        self,
        thunk: Callable[..., Any] | str,
        num_cpu: int | str = 1,
        data_dir: str | os.PathLike | None = None,
        datestamp: bool = False,
        *,
        overwrite: bool = False,
        quiet: bool = False,
        hosts: str | None = None,
        launcher: str | None = None,
        preset: str | None = None,
        check_env: Callable[[gym.Env], object] | None = None,
        note: str = "",
    ) -> None:
        """Run every variant as `call_experiment` does, one after the other.

        Args:
            thunk: A function; or the name of a parameter whose values are functions.
            num_cpu, data_dir, datestamp, overwrite, quiet, hosts, launcher, preset: as for
                `call_experiment`.
            check_env: A function that raises UserError if `thunk` cannot use an environment. It is
                called with each one before the first experiment starts.
            note: What is printed before all else.
        """
        processes = resolve_processes(num_cpu, hosts, launcher)
        options = dict(data_dir=data_dir, datestamp=datestamp, overwrite=overwrite, quiet=quiet)
        options |= dict(preset=preset, num_procs=processes.number)
        keys = [parameter.key for parameter in self._parameters]
        if isinstance(thunk, str) and thunk not in [*keys, *self._base]:
            raise UserError(
                f"{thunk!r} is not a parameter of this grid, of which the values would be the "
                "functions to run; give the function itself, such as run(spinup_tf2.ppo)."
            )
        experiments = []
        for variant in self.variants():
            name = self.variant_name(variant)
            function = variant.pop(thunk) if isinstance(thunk, str) else thunk
            experiments.append(prepare_experiment(name, function, **options, **variant))

        check_launch(experiments, check_env)
        if not quiet and mpi.proc_id() == 0:
            if note:
                print(note)
            self._announce({experiment.exp_name for experiment in experiments})
        for i, experiment in enumerate(experiments):
            try:
                calling.run_experiment(experiment, processes, quiet)
            except KeyboardInterrupt:
                if not quiet and launched.rank() == 0 and len(experiments) > 1:
                    _say_how_to_go_on(experiments, i, datestamp)
                raise

    def _announce(self, names):
        self.print()
        preparing = "Preparing to run the following experiments..."
        print(f"\n{colored(preparing, color='green', bold=True)}\n")
        print("\n".join(sorted(names)), f"\n{RULE}", sep="\n")
        # Nobody reviews what goes into a file.
        if user_config.WAIT_BEFORE_LAUNCH > 0 and sys.stdout.isatty():
            _wait_before_launch(user_config.WAIT_BEFORE_LAUNCH)


def _say_how_to_go_on(experiments, stopped, datestamp):
    """Print what a grid has done and how it goes on, after it was stopped in one experiment."""
    here = experiments[stopped]
    print(f"\nThe grid was stopped in experiment {stopped + 1} of {len(experiments)}:\n")
    for i, experiment in enumerate(experiments):
        state = "done" if i < stopped else "stopped" if i == stopped else "to do"
        where = experiment.logger_kwargs.get("output_dir", experiment.exp_name)
        print(f"{state:>10}  {where}")
    if datestamp or user_config.FORCE_DATESTAMP:
        return  # the same command would make directories of another date
    how = (
        "the same command with --resume"
        if isinstance(here.thunk, NamedAlgorithm)
        else "the same grid with grid.add('resume', True)"
    )
    again = " and without overwrite" if here.logger_kwargs.get("overwrite") else ""
    print(f"\nIt goes on with {how}{again}; what is done is not done again.", flush=True)


def _wait_before_launch(seconds, steps=100):
    message = dedent(
        """
        Launch delayed to give you a few seconds to review your experiments.

        To customize or disable this behavior, change WAIT_BEFORE_LAUNCH in
        spinup_tf2/user_config.py, or set SPINUP_TF2_WAIT_BEFORE_LAUNCH.

        """
    )
    print(colored(message, color="cyan", bold=True) + RULE)
    bar_format = "{desc}: {bar}| {remaining} {elapsed}"
    for _ in trange(
        steps,
        desc="Launching in...",
        leave=False,
        ncols=RULE_WIDTH,
        mininterval=0.25,
        bar_format=bar_format,
    ):
        time.sleep(seconds / steps)


def _nested(items):
    """{"a:b": 1, "a:c": 2, "d": 3} as {"a": {"b": 1, "c": 2}, "d": 3}."""
    result = {}
    for key, value in items:
        *path, last = key.split(":")
        level = functools.reduce(lambda level, part: level.setdefault(part, {}), path, result)
        level[last] = value
    return result


def _merged(base, own):
    """`own` over `base`: dicts that both have are merged key by key."""
    both = {
        key: _merged(base[key], value)
        for key, value in own.items()
        if isinstance(value, dict) and isinstance(base.get(key), dict)
    }
    return copy.deepcopy(dict(base)) | own | both
