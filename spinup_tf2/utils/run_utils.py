"""Running experiments: one (`call_experiment`), or all variants of a grid (`ExperimentGrid`).

    eg = ExperimentGrid(name="ppo-cartpole")
    eg.add("env_name", "CartPole-v1", "", True)
    eg.add("seed", [0, 10, 20])
    eg.add("ac_kwargs:hidden_sizes", [(32,), (64, 64)], "hid")
    eg.run(ppo, num_cpu=4)

Each experiment runs in a fresh process, or in `num_cpu` of them under mpirun, so that it inherits
nothing from the one before. Inside an MPI world (`mpirun -np 4 python my_grid.py`) the processes
are there already: every rank runs the experiments itself.
"""

from __future__ import annotations

import copy
import functools
import itertools
import json
import os
import re
import reprlib
import shlex
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

from tqdm import trange

from spinup_tf2 import user_config
from spinup_tf2.algos import load
from spinup_tf2.arguments.checks import whole_numbers
from spinup_tf2.envs.making import EnvFn
from spinup_tf2.envs.modules import import_flag
from spinup_tf2.errors import Interrupted, UserError
from spinup_tf2.experiments.checks import algorithm_name, check_experiment, signature_of
from spinup_tf2.parallel import launch, mpi
from spinup_tf2.parallel.interruption import SIGNALS
from spinup_tf2.parallel.threads import FAST_CONVOLUTIONS, available_cores
from spinup_tf2.printing import colored
from spinup_tf2.run_files import EXISTING_RUN, holds_run
from spinup_tf2.utils import run_entrypoint
from spinup_tf2.utils.serialization_utils import convert_json

if TYPE_CHECKING:
    import gymnasium as gym

DIV_LINE_WIDTH = 80
_LINE = "=" * DIV_LINE_WIDTH

_END = """
End of experiment.


Plot results from this run with:

{plot}


Watch the trained agent with:

{watch}


"""

_FAILURE = """

There appears to have been an error in your experiment.

Check the traceback above to see what actually went wrong.

"""


def setup_logger_kwargs(
    exp_name: str,
    seed: int | None = None,
    data_dir: str | os.PathLike | None = None,
    datestamp: bool = False,
) -> dict[str, Any]:
    """Choose the directory of a run; return the arguments for its logger.

    It is `data_dir/exp_name/exp_name_s[seed]`, or `data_dir/exp_name` if there is no seed. With
    `datestamp` both names get a date, the inner one also a time:
    `data_dir/YYYY-MM-DD_exp_name/YYYY-MM-DD_HH-MM-SS-exp_name_s[seed]`.

    Args:
        exp_name: Name of the experiment, shared by its runs with different seeds.
        seed: Seed of the run.
        data_dir: Where all experiments are; by default `user_config.DEFAULT_DATA_DIR`.
        datestamp: Whether to put date and time into the names.
    """
    check_exp_name(exp_name)
    datestamp = datestamp or user_config.FORCE_DATESTAMP
    parts = [time.strftime("%Y-%m-%d_") + exp_name if datestamp else exp_name]
    if seed is not None:
        parts.append(
            f"{time.strftime('%Y-%m-%d_%H-%M-%S-') if datestamp else ''}{exp_name}_s{seed}"
        )
    for part in parts:
        _check_file_name(part, f"exp_name is {exp_name!r} and seed {seed!r}")
    output_dir = os.path.join(data_dir or user_config.DEFAULT_DATA_DIR, *parts)
    return dict(output_dir=output_dir, exp_name=exp_name)


def call_experiment(
    exp_name: str,
    thunk: Callable[..., Any],
    seed: int = 0,
    num_cpu: int | str = 1,
    data_dir: str | os.PathLike | None = None,
    datestamp: bool = False,
    *,
    overwrite: bool = False,
    quiet: bool = False,
    hosts: str | None = None,
    launcher: str | None = None,
    preset: str | None = None,
    **kwargs: Any,
) -> None:
    """Run `thunk(seed=seed, logger_kwargs=..., **kwargs)` in a process of its own.

    `env_name` (and `env_kwargs`) among the arguments become `env_fn`, an environment factory. A
    mistake in the arguments raises UserError before anything is written.

    Args:
        exp_name: Name of the experiment.
        thunk: A function, usually an algorithm.
        seed: Seed of the run.
        num_cpu: Number of MPI processes, or "auto" for as many as there are cores. Inside an MPI
            world the run has all processes of it, and no other number may be asked for.
        data_dir: Where to save, see `setup_logger_kwargs`.
        datestamp: Whether to put date and time into the directory's name.
        overwrite: Whether a run that the directory holds already may be replaced.
        quiet: Print nothing but errors.
        hosts: The machines that run the processes, such as `node1:2,node2:2`. `data_dir` must be
            the same directory on all of them.
        launcher: What starts the processes instead of mpirun, such as `srun --mpi=pmi2`.
        preset: Name of the preset from which there are arguments, to be recorded.
        **kwargs: Arguments for `thunk`.
    """
    processes = resolve_processes(num_cpu, hosts, launcher)
    options = dict(data_dir=data_dir, datestamp=datestamp, overwrite=overwrite, quiet=quiet)
    options |= dict(preset=preset, num_procs=processes.number)
    experiment = _prepare_experiment(exp_name, thunk, seed, **options, **kwargs)
    _check_launch([experiment])
    _run_experiment(experiment, processes, quiet)


@dataclass(frozen=True)
class _Experiment:
    """One run: what was asked for, and the directory that has been chosen for it."""

    exp_name: str
    thunk: Callable
    kwargs: dict
    logger_kwargs: dict
    modules: tuple[str, ...] = ()

    def env_fn(self):
        """The factory of its environment; None if there is no `env_name`."""
        if "env_name" not in self.kwargs:
            return None
        return EnvFn(self.kwargs["env_name"], self.kwargs.get("env_kwargs"), self.modules)

    @property
    def algorithm(self):
        """The name of the algorithm that it runs; None if it runs another function."""
        if isinstance(self.thunk, NamedAlgorithm):
            return self.thunk.name
        return algorithm_name(self.thunk)

    def call(self):
        """Run it, here."""
        _call(self.thunk, self.modules, **self._all_kwargs())

    def environ(self):
        """Variables that its process needs before TensorFlow is loaded."""
        env_fn = self.env_fn()
        return FAST_CONVOLUTIONS if env_fn is not None and env_fn.shows_pictures else {}

    def write(self, folder):
        """Write it into `folder`, for another process to run it."""
        run_entrypoint.write_process(folder, self.environ())
        if isinstance(self.thunk, NamedAlgorithm):
            arguments = (self.thunk.name, self.modules, self._all_kwargs())
            run_entrypoint.write_algorithm(folder, *arguments)
        else:
            run_entrypoint.write_function(folder, self.call)

    def _all_kwargs(self):
        return self.kwargs | {"logger_kwargs": self.logger_kwargs}


@dataclass(frozen=True)
class NamedAlgorithm:
    """An algorithm by its name, to be called with keyword arguments that are plain data.

    So its process gets no code from the one that starts it, only a name and values.
    """

    name: str

    def __call__(self, **kwargs: Any) -> Any:
        return load(self.name)(**kwargs)


def run_algorithm(name: str, modules: Iterable[str], /, **kwargs: Any) -> Any:
    """Call an algorithm by its name, with `env_name` (and `env_kwargs`) among the arguments.

    modules: what is to be imported before its environment is made.
    """
    return _call(NamedAlgorithm(name), (*modules,), **kwargs)


def _call(thunk, modules, /, **kwargs):
    if "env_name" in kwargs:
        env = (kwargs.pop("env_name"), kwargs.pop("env_kwargs", None), modules)
        kwargs["env_fn"] = EnvFn(*env)
    return thunk(**kwargs)


def _prepare_experiment(
    exp_name, thunk, seed=0, *, num_procs, data_dir, datestamp, overwrite, quiet, preset, **kwargs
):
    """An _Experiment, from the arguments of `call_experiment`."""
    check_exp_name(exp_name)
    algorithm = algorithm_name(thunk)
    if algorithm:
        kwargs = whole_numbers(kwargs)
        check_experiment(algorithm, kwargs | {"seed": seed}, num_procs)
    if kwargs.get("resume") and overwrite:
        raise UserError("resume goes on with a run, and overwrite removes it; give one of them.")
    if kwargs.get("resume") and (datestamp or user_config.FORCE_DATESTAMP):
        raise UserError(
            "resume finds a run by the name of its directory, which datestamp makes a new one; use "
            "python -m spinup_tf2.run resume RUN_DIR."
        )
    logger_kwargs = kwargs.get("logger_kwargs")
    if logger_kwargs is None:
        logger_kwargs = setup_logger_kwargs(exp_name, seed, data_dir, datestamp)
        options = dict(overwrite=overwrite, quiet=quiet, preset=preset)
        logger_kwargs |= {name: value for name, value in options.items() if value}
    return _Experiment(exp_name, thunk, kwargs | {"seed": seed}, logger_kwargs)


def resume_experiment(
    run_dir: str | os.PathLike,
    thunk: Callable[..., Any],
    exp_name: str | None,
    num_cpu: int = 1,
    quiet: bool = False,
    hosts: str | None = None,
    launcher: str | None = None,
    preset: str | None = None,
    modules: Iterable[str] = (),
    **kwargs: Any,
) -> None:
    """Go on with the run in `run_dir`, in a process of its own.

    Args:
        run_dir: Directory of the run.
        thunk: The algorithm.
        exp_name: Name of the experiment to which the run belongs.
        num_cpu, quiet, hosts, launcher, preset: as for `call_experiment`.
        modules: What its processes are to import first, to register the environment.
        **kwargs: Arguments for `thunk`, those with which the run began.
    """
    names = dict(exp_name=exp_name, preset=preset)
    logger_kwargs = dict(output_dir=os.fspath(run_dir), quiet=quiet, **names)
    name = exp_name or os.path.basename(os.path.abspath(run_dir))
    experiment = _Experiment(name, thunk, kwargs | {"resume": True}, logger_kwargs, (*modules,))
    _check_launch([experiment])
    defaults = signature_of(experiment.algorithm).defaults if experiment.algorithm else {}
    changed = {
        name: value
        for name, value in experiment.kwargs.items()
        if name not in defaults or value != defaults[name]
    }
    processes = resolve_processes(num_cpu, hosts, launcher)
    _run_experiment(experiment, processes, quiet, changed)


def _run_experiment(experiment, processes, quiet, shown=None):
    """Run an experiment that has been checked, and print what it is and what can follow it.

    shown: those of its arguments that are printed; None: all.
    """
    say = _silent if quiet or mpi.launched_rank() != 0 else print
    kwargs = convert_json(experiment.kwargs if shown is None else shown)
    say(colored("Running experiment:\n", color="cyan", bold=True))
    say(experiment.exp_name + "\n")
    say(colored("with kwargs:\n", color="cyan", bold=True))
    say(json.dumps(kwargs, separators=(",", ":\t"), indent=4, sort_keys=True) + "\n")
    if "logger_kwargs" in kwargs:
        say("Note: Call experiment is not handling logger_kwargs.\n")

    if experiment.algorithm:
        say("Loading TensorFlow ...\n")

    if mpi.launched_by_mpi():
        for name, value in experiment.environ().items():
            os.environ.setdefault(name, value)
        with mpi.exit_together():
            experiment.call()
    else:
        _run_in_fresh_process(experiment, processes)

    if "output_dir" not in experiment.logger_kwargs:
        return  # the logger has chosen a directory, and said which
    run_dir = shlex.quote(str(experiment.logger_kwargs["output_dir"]))
    plot = colored(f"python -m spinup_tf2.run plot {run_dir}", "green")
    flag = import_flag(kwargs.get("env_name", ""), experiment.modules)
    watch = colored(f"python -m spinup_tf2.run test_policy {run_dir}{flag}", "green")
    say("\n" * 5 + _LINE + _END.format(plot=plot, watch=watch) + _LINE + "\n" * 5)


def _silent(*_):
    """`print` where nothing is to be printed."""


@dataclass(frozen=True)
class Processes:
    """How many processes an experiment has, and where: see `launch.mpirun_command`."""

    number: int
    hosts: dict[str, int] | None = None
    launcher: str | None = None

    @property
    def are_here(self) -> bool:
        """Whether all of them are sure to be on this machine."""
        return not (self.hosts or self.launcher)

    def run(self, arguments: list[str]) -> int:
        """Run Python with `arguments` in each of them, and return the exit status."""
        if self.number == 1 and self.are_here:
            return launch.run_to_end([sys.executable, *arguments])
        command = launch.mpirun_command(
            self.number, arguments, hosts=self.hosts, launcher=self.launcher
        )
        return launch.run_to_end(
            command,
            mpi=True,
            env=launch.mpirun_environment(max((self.hosts or {"": self.number}).values())),
            stdin=subprocess.DEVNULL,  # mpirun reads it, and so would stop in the background
        )


def resolve_processes(
    num_cpu: int | str = 1, hosts: str | None = None, launcher: str | None = None
) -> Processes:
    """What the three arguments stand for; what cannot be had is refused."""
    if (hosts or launcher) and mpi.launched_by_mpi():
        raise UserError(
            "hosts and launcher say how to start processes, but an MPI launcher has started them "
            "already; leave both out."
        )
    if launcher is not None:
        launch.parse_launcher(launcher)
    number = resolve_num_cpu(num_cpu)
    if hosts is None:
        if launcher is not None and number == 1:
            raise UserError("launcher is given, but for one process; give num_cpu as well.")
        return Processes(number, None, launcher)
    given = None if num_cpu in (1, "auto") else number
    each = launch.parse_hosts(hosts, given)
    number = sum(each.values())
    if given not in (None, number):
        raise UserError(f"num_cpu is {given}, but hosts gives {number} processes; leave it out.")
    launch.check_takes_hosts(launcher)
    if launcher is None:
        launch.check_hosts(each)
    return Processes(number, each, launcher)


def resolve_num_cpu(num_cpu: int | str) -> int:
    """The number of processes that `num_cpu` stands for; what cannot be had is refused."""
    launched = mpi.num_procs() if mpi.launched_by_mpi() else None
    if num_cpu == "auto":
        return launched or available_cores()
    if not isinstance(num_cpu, int) or isinstance(num_cpu, bool) or num_cpu < 1:
        raise UserError(f"num_cpu is {num_cpu!r}; it must be a whole number of at least 1 or auto.")
    if launched and num_cpu not in (1, launched):
        raise UserError(
            f"num_cpu is {num_cpu}, but the MPI launcher started {launched} processes; "
            f"leave num_cpu out, or start {num_cpu} processes."
        )
    return launched or num_cpu


# ---------------------------------------------------------------- before anything starts


def _check_launch(experiments, check_env=None):
    """Find what would stop any of the experiments, before the first.

    Rank 0 looks, and all ranks raise what it has found.
    """

    def look():
        _check_environments(experiments, check_env)
        _check_directories(experiments)

    mpi.on_root(look)


def _check_directories(experiments):
    taken = set()
    for experiment in experiments:
        output_dir = experiment.logger_kwargs.get("output_dir")
        if output_dir is None:
            continue
        if output_dir in taken:
            raise UserError(
                f"two of the experiments would write to {output_dir}; their names must differ: "
                "choose other shorthands, or give each value once."
            )
        taken.add(output_dir)
        may_exist = experiment.logger_kwargs.get("overwrite") or experiment.kwargs.get("resume")
        if holds_run(output_dir) and not may_exist:
            raise UserError(EXISTING_RUN.format(output_dir))
        _check_writable(Path(output_dir).absolute())


def check_exp_name(exp_name: str) -> None:
    """An experiment's name is the name of a directory, and not a path."""
    if not isinstance(exp_name, str):
        raise UserError(f"exp_name is {exp_name!r}; Name has to be a string.")
    _check_file_name(exp_name, f"exp_name is {reprlib.repr(exp_name)}")
    size = len(os.fsencode(exp_name))
    if size > _LONGEST_NAME:
        raise UserError(
            f"exp_name is {reprlib.repr(exp_name)}, of {size} bytes; the name of a directory has "
            f"room for {_LONGEST_NAME} beside date and seed. Choose a shorter one, or shorthands "
            "for the parameters that it lists."
        )


_LONGEST_NAME = 255 - len("2026-01-31_23-59-59-" + "_s4294967295")  # of what file systems allow


def _check_file_name(name, given):
    """Refuse a path, and what programs or terminals would take for something else than a name."""
    if name in ("", ".", "..") or os.sep in name or name[0] in "-~" or not name.isprintable():
        raise UserError(
            f"{given}; it must be a plain name: no slashes, no control characters, and neither - "
            "nor ~ at its beginning. data_dir says where to save."
        )


def _check_writable(path):
    """Try to write where `path` will be made, and leave nothing behind."""
    parent = next(folder for folder in (path, *path.parents) if os.path.lexists(folder))
    try:
        with tempfile.TemporaryDirectory(dir=parent):
            pass
    except OSError as error:
        raise UserError(
            f"cannot write to {path} ({error.strerror}: {parent}); choose another data_dir."
        ) from error


def _check_environments(experiments, check_env):
    """Make each environment once, so that what is missing for it is known before the start."""
    checked = [None]
    for env_fn in (experiment.env_fn() for experiment in experiments):
        if env_fn not in checked:
            check_environment(env_fn, check_env)
            checked.append(env_fn)


def check_environment(env_fn: EnvFn, check_env: Callable[[gym.Env], object] | None = None) -> None:
    """Raise UserError if the environment does not exist, or cannot be made with its arguments.

    check_env: called with the environment, to refuse it for other reasons.
    """
    if (env_fn.env_kwargs or {}).get("render_mode") == "human":
        raise UserError(
            "render_mode is 'human', which would show every step of the training in a window; "
            "leave it out, and watch the trained agent with: "
            "python -m spinup_tf2.run test_policy DIRECTORY"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the experiment's own process will give them
            with closing(env_fn()) as env:
                if check_env:
                    _check_with(check_env, env, env_fn.env_name)
    except UserError:
        raise
    except Exception as error:  # whatever an environment may raise when it is made
        arguments = f" with {env_fn.env_kwargs}" if env_fn.env_kwargs else ""
        raise UserError(
            f"the environment {env_fn.env_name} cannot be made{arguments}: "
            f"{type(error).__name__}: {error}"
        ) from error


def _check_with(check_env, env, env_name):
    try:
        check_env(env)
    except UserError as error:
        raise UserError(f"{env_name} cannot be used: {error}") from error


# ---------------------------------------------------------------- the process of an experiment


class _ExperimentTraceback(Exception):
    """The traceback of an error in the process of an experiment, as text."""

    def __str__(self):
        return f"\n{self.args[0]}"


def _run_in_fresh_process(experiment, processes):
    """Run an experiment in a new Python process, or in several under mpirun.

    It is handed over in a file in a private directory: arguments are limited to 128 KiB each, and
    everybody can read them.
    """
    with _private_folder(experiment, processes) as folder:
        experiment.write(folder)
        arguments = [run_entrypoint.__file__, folder]
        status = processes.run(arguments)
        error = run_entrypoint.read_error(folder)
    if error:
        message, trace = error
        raise UserError(message) from _ExperimentTraceback(trace)
    if status - 128 in SIGNALS:  # sent to the processes themselves
        raise Interrupted(status - 128)
    if status != 0:
        print("\n" * 3 + _LINE + _FAILURE + _LINE + "\n" * 3, flush=True)
        raise subprocess.CalledProcessError(status, arguments)


@contextmanager
def _private_folder(experiment, processes):
    """A directory that only this user may enter, and that all machines see."""
    shared = None
    if not processes.are_here:
        output_dir = experiment.logger_kwargs.get("output_dir")
        shared = Path(output_dir).parent if output_dir else Path(user_config.DEFAULT_DATA_DIR)
        shared = shared.absolute()
        shared.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".spinup_tf2_", dir=shared) as folder:
        yield folder


# ---------------------------------------------------------------- grids


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
        if len(message) > DIV_LINE_WIDTH:
            message = f"ExperimentGrid [{self._name}]\n runs over parameters:\n"
        print(_LINE)
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
        print(_LINE)

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
            experiments.append(_prepare_experiment(name, function, **options, **variant))

        _check_launch(experiments, check_env)
        if not quiet and mpi.proc_id() == 0:
            if note:
                print(note)
            self._announce({experiment.exp_name for experiment in experiments})
        for i, experiment in enumerate(experiments):
            try:
                _run_experiment(experiment, processes, quiet)
            except KeyboardInterrupt:
                if not quiet and mpi.launched_rank() == 0 and len(experiments) > 1:
                    _say_how_to_go_on(experiments, i, datestamp)
                raise

    def _announce(self, names):
        self.print()
        preparing = "Preparing to run the following experiments..."
        print(f"\n{colored(preparing, color='green', bold=True)}\n")
        print("\n".join(sorted(names)), f"\n{_LINE}", sep="\n")
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
    print(colored(message, color="cyan", bold=True) + _LINE)
    bar_format = "{desc}: {bar}| {remaining} {elapsed}"
    for _ in trange(
        steps,
        desc="Launching in...",
        leave=False,
        ncols=DIV_LINE_WIDTH,
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
