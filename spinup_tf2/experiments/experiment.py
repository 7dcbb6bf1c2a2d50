"""Experiments, and the checks that are made before any of them starts."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spinup_tf2 import user_config
from spinup_tf2.algos import load
from spinup_tf2.arguments.checks import check_resume, whole_numbers
from spinup_tf2.envs.making import EnvFn
from spinup_tf2.errors import UserError
from spinup_tf2.experiments.checks import (
    ENVIRONMENT,
    algorithm_name,
    check_call,
    check_environment,
    check_experiment,
)
from spinup_tf2.experiments.experiment import (
    check_directory,
    check_exp_name,
    set_runs_aside,
    setup_logger_kwargs,
)
from spinup_tf2.files.logger import check_logger_arguments
from spinup_tf2.files.run_directory import holds_run
from spinup_tf2.parallel import mpi
from spinup_tf2.parallel.threads import FAST_CONVOLUTIONS

if TYPE_CHECKING:
    import gymnasium as gym


@dataclass(frozen=True)
class NamedAlgorithm:
    """An algorithm given by name, to be called with keyword arguments that are plain data.

    So the process that runs it is sent no code, only a name and values.
    """

    name: str

    def __call__(self, **kwargs: Any) -> Any:
        return load(self.name)(**kwargs)


@dataclass(frozen=True)
class Experiment:
    """One run: the function, its arguments, and the directory that has been chosen for it."""

    exp_name: str
    thunk: Callable
    kwargs: dict
    logger_kwargs: dict
    modules: tuple[str, ...] = ()

    @property
    def env_fn(self) -> EnvFn | None:
        """Factory of its environment; None if there is no `env_name`."""
        if "env_name" not in self.kwargs:
            return None
        return EnvFn(self.kwargs["env_name"], self.kwargs.get("env_kwargs"), self.modules)

    @property
    def output_dir(self) -> str | None:
        """Directory of its run; None if its logger is to choose one."""
        output_dir = self.logger_kwargs.get("output_dir")
        return None if output_dir is None else os.fspath(output_dir)

    @property
    def algorithm(self) -> str | None:
        """Name of the algorithm that it runs; None if it runs another function."""
        if isinstance(self.thunk, NamedAlgorithm):
            return self.thunk.name
        return algorithm_name(self.thunk)

    @property
    def environ(self) -> dict[str, str]:
        """Environment variables that its process needs before TensorFlow is loaded."""
        return FAST_CONVOLUTIONS if self.env_fn is not None and self.env_fn.shows_pictures else {}

    @property
    def replaces(self) -> bool:
        """Whether it replaces an existing run in its directory, if there is one."""
        return bool(self.logger_kwargs.get("overwrite")) and not self.kwargs.get("resume")

    @property
    def arguments(self) -> dict[str, Any]:
        """Keyword arguments that its function is called with."""
        arguments = self.kwargs | {"logger_kwargs": self.logger_kwargs}
        if self.env_fn is not None:
            arguments = {name: x for name, x in arguments.items() if name not in ENVIRONMENT}
            arguments["env_fn"] = self.env_fn
        return arguments

    def call(self) -> None:
        """Run it in this process."""
        self.thunk(**self.arguments)


def prepare_experiment(
    exp_name: str,
    thunk: Callable[..., Any],
    seed: int = 0,
    *,
    num_procs: int,
    data_dir: str | os.PathLike | None,
    datestamp: bool,
    overwrite: bool,
    quiet: bool,
    preset: str | None,
    **kwargs: Any,
) -> Experiment:
    """Check the arguments of `call_experiment` and choose the directory of the run."""
    check_exp_name(exp_name)
    algorithm = algorithm_name(thunk)
    if algorithm:
        kwargs = whole_numbers(kwargs)
        check_experiment(algorithm, kwargs | {"seed": seed}, num_procs)
    check_resume(kwargs.get("resume"), overwrite)
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
    else:
        options = dict(data_dir=data_dir, datestamp=datestamp, overwrite=overwrite, preset=preset)
        _check_logger_kwargs(logger_kwargs, options)
        if algorithm:
            check_logger_arguments(logger_kwargs)
        logger_kwargs = ({"quiet": True} if quiet else {}) | dict(logger_kwargs)
    experiment = Experiment(exp_name, thunk, kwargs | {"seed": seed}, logger_kwargs)
    if not algorithm:
        check_call(thunk, experiment.arguments)
    return experiment


def _check_logger_kwargs(logger_kwargs, options):
    """Raise UserError for options that would not reach the logger."""
    if not isinstance(logger_kwargs, Mapping):
        raise UserError(
            f"logger_kwargs is {logger_kwargs!r}; it must be a dict such as "
            "{'output_dir': 'data/run'}, or be left out."
        )
    for name, value in options.items():
        if value:
            where = "output_dir" if name in ("data_dir", "datestamp") else name
            raise UserError(
                f"{name} is {value!r}, and logger_kwargs is given, which takes its place; leave "
                f"logger_kwargs out, or leave {name} out and put {where!r} into logger_kwargs."
            )


def check_launch(
    experiments: Sequence[Experiment],
    check_env: Callable[[gym.Env], object] | None = None,
    finished: Container[str] = (),
) -> None:
    """Check, before the first experiment starts, that nothing prevents any of them from running.

    Rank 0 does the checks; a UserError is raised on all ranks.

    Args:
        experiments: Experiments to be run.
        check_env: As in `check_environment`.
        finished: Directories of those experiments that are finished and will not run again.
    """

    def look():
        from spinup_tf2.experiments.checks import check_needs

        _check_environments(experiments, check_env)
        runs = (each for each in experiments if each.algorithm and each.output_dir not in finished)
        check_needs(each.kwargs for each in runs)
        _check_directories(experiments, finished)

    mpi.on_root(look)


def set_replaced_aside(experiments: Iterable[Experiment]) -> None:
    """Move aside all runs that experiments of a grid replace, before the first one starts.

    If each run stayed until its successor starts, a grid that is stopped or killed would leave old
    runs among the new ones, with nothing to tell them apart.

    Each run is kept in its directory's `.replaced` until its successor has started, so that it is
    not lost if that one cannot start.

    Rank 0 moves them. On all ranks, UserError is raised if it cannot, or if one of these runs holds
    the weights that an experiment starts from (`init_from`).
    """
    experiments = [*experiments]
    old = {
        each.output_dir: each.logger_kwargs.get("output_fname", "progress.txt")
        for each in experiments
        if each.replaces and each.output_dir is not None
    }

    def move():
        _check_needed(experiments, old)
        set_runs_aside(old)

    mpi.on_root(move)


def _check_needed(experiments, old):
    experiments = [each for each in experiments if each.algorithm]
    needed = {each.kwargs["init_from"] for each in experiments if each.kwargs.get("init_from")}
    needed = {os.path.realpath(run_dir) for run_dir in needed}
    for output_dir in old:
        if os.path.realpath(output_dir) in needed and holds_run(output_dir):
            raise UserError(
                f"init_from is {output_dir}, whose run is to be replaced before the first "
                "experiment begins; choose another exp_name, or leave overwrite out."
            )


def _check_environments(experiments, check_env):
    """Make each environment once, so that anything missing is found before the start."""
    checked = [None]
    for env_fn in (experiment.env_fn for experiment in experiments):
        if env_fn not in checked:
            check_environment(env_fn, check_env)
            checked.append(env_fn)


def _check_directories(experiments, finished):
    taken = set()
    for experiment in experiments:
        output_dir = experiment.output_dir
        if output_dir is None:
            continue
        if output_dir in taken:
            raise UserError(
                f"two of the experiments would write to {output_dir}; their names must differ: "
                "choose other shorthands, or give each value once."
            )
        taken.add(output_dir)
        if output_dir in finished:
            continue
        may_exist = experiment.logger_kwargs.get("overwrite") or experiment.kwargs.get("resume")
        check_directory(output_dir, bool(may_exist))
