"""An experiment: its arguments and its directory, checked before any of a grid starts."""

from __future__ import annotations

import os
import reprlib
import time
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from spinup_tf2 import user_config
from spinup_tf2.algos import load
from spinup_tf2.arguments.checks import check_resume, whole_numbers
from spinup_tf2.envs.making import EnvFn
from spinup_tf2.envs.modules import modules_of
from spinup_tf2.errors import UserError
from spinup_tf2.experiments.checks import (
    ENVIRONMENT,
    algorithm_name,
    check_environment,
    check_experiment,
    has_options,
)
from spinup_tf2.files.run_directory import EXISTING_RUN, holds_run, run_lock, set_aside
from spinup_tf2.parallel import mpi
from spinup_tf2.parallel.launched import FAST_CONVOLUTIONS


@dataclass(frozen=True)
class NamedAlgorithm:
    """An algorithm given by name, to be called with keyword arguments that are plain data.

    So an experiment can be checked, and handed to its process, before TensorFlow is loaded.
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
        wrappers = tuple(self.kwargs.get("wrapper") or ())
        modules = (*self.modules, *modules_of(wrappers))
        return EnvFn(self.kwargs["env_name"], self.kwargs.get("env_kwargs"), modules, wrappers)

    @property
    def output_dir(self) -> str | None:
        """Directory of its run; None if its logger is to choose one."""
        output_dir = self.logger_kwargs.get("output_dir")
        return None if output_dir is None else os.fspath(output_dir)

    @property
    def algorithm(self) -> str | None:
        """Name of the algorithm that it runs; None if it runs another function."""
        if isinstance(self.thunk, NamedAlgorithm):
            return self.thunk.name if has_options(self.thunk.name) else None
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
    options = dict(overwrite=overwrite, quiet=quiet, preset=preset)
    options = {name: value for name, value in options.items() if value}
    logger_kwargs = kwargs.get("logger_kwargs")
    if logger_kwargs is None:
        logger_kwargs = setup_logger_kwargs(exp_name, seed, data_dir, datestamp) | options
    elif overwrite or preset or data_dir or datestamp:
        raise UserError(
            "overwrite, preset, data_dir and datestamp would not reach the logger, as "
            "logger_kwargs is given; put output_dir, overwrite and preset there, or leave it out."
        )
    else:
        logger_kwargs = options | dict(logger_kwargs)
    return Experiment(exp_name, thunk, kwargs | {"seed": seed}, logger_kwargs)


# ---------------------------------------------------------------- directories


def setup_logger_kwargs(
    exp_name: str,
    seed: int | None = None,
    data_dir: str | os.PathLike | None = None,
    datestamp: bool = False,
) -> dict[str, Any]:
    """Choose the directory of a run; return the arguments for its logger.

    The directory is `data_dir/exp_name/exp_name_s[seed]`, or `data_dir/exp_name` without a seed.
    With `datestamp`, both names get a date, and the inner one a time as well:
    `data_dir/YYYY-MM-DD_exp_name/YYYY-MM-DD_HH-MM-SS-exp_name_s[seed]`.

    Args:
        exp_name: Name of the experiment, shared by its runs with different seeds.
        seed: Seed of the run.
        data_dir: Directory of all experiments; by default `user_config.DEFAULT_DATA_DIR`.
        datestamp: Whether to put date and time into the names.
    """
    check_exp_name(exp_name)
    datestamp = datestamp or user_config.FORCE_DATESTAMP
    parts = [time.strftime("%Y-%m-%d_") + exp_name if datestamp else exp_name]
    if seed is not None:
        moment = time.strftime("%Y-%m-%d_%H-%M-%S-") if datestamp else ""
        parts.append(f"{moment}{exp_name}_s{seed}")
    for part in parts:
        _check_file_name(part, f"exp_name is {exp_name!r} and seed {seed!r}")
    output_dir = os.path.join(data_dir or user_config.DEFAULT_DATA_DIR, *parts)
    return dict(output_dir=output_dir, exp_name=exp_name)


def check_exp_name(exp_name: str) -> None:
    """Raise UserError unless an experiment's name is fit for a directory, and not a path."""
    _check_file_name(exp_name, f"exp_name is {reprlib.repr(exp_name)}")


def _check_file_name(name, given):
    """Raise UserError for paths, and for names that programs or terminals would misinterpret."""
    is_name = isinstance(name, str) and name not in ("", ".", "..") and name[0] not in "-~"
    if not is_name or os.sep in name or not name.isprintable():
        raise UserError(
            f"{given}; it must be a plain name: no slashes, no control characters, and neither - "
            "nor ~ at its beginning. data_dir says where to save."
        )


def check_directories(experiments: Iterable[Experiment], finished: Container[str] = ()) -> None:
    """Raise UserError if runs would share a directory or be lost.

    The directories in `finished` will not be written to.
    """
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
        may_hold_run = experiment.replaces or experiment.kwargs.get("resume")
        if output_dir not in finished and holds_run(output_dir) and not may_hold_run:
            raise UserError(EXISTING_RUN.format(output_dir))


# ---------------------------------------------------------------- before the start


def check_launch(experiments: Sequence[Experiment], finished: Container[str] = ()) -> None:
    """Check, before the first experiment starts, that nothing prevents any of them from running.

    Rank 0 does the checks; a UserError is raised on all ranks. The experiments whose directories
    are in `finished` will not run again.
    """

    def look():
        checked = []
        for each in experiments:
            own_networks = "actor_critic" in each.kwargs
            networks = () if own_networks else tuple(each.kwargs.get("ac_kwargs") or ())
            known = (each.env_fn, each.algorithm, networks)
            if each.env_fn is not None and known not in checked:
                check_environment(*known)
                checked.append(known)
        check_directories(experiments, finished)

    mpi.on_root(look)


def set_replaced_aside(experiments: Iterable[Experiment]) -> None:
    """Move aside all runs that experiments of a grid replace, before the first one starts.

    So a grid that is stopped or killed leaves no old runs among the new ones. UserError on all
    ranks, and nothing is moved, if another process writes to one of the runs.
    """
    rows_of = {
        each.output_dir: each.logger_kwargs.get("output_fname", "progress.txt")
        for each in experiments
        if each.replaces and each.output_dir is not None
    }

    def move():
        held = [path for path, rows in rows_of.items() if holds_run(path, rows)]
        for run_dir in held:
            with run_lock(run_dir):
                pass  # no other process writes there
        for run_dir in held:
            with run_lock(run_dir):
                set_aside(run_dir, rows_of[run_dir])

    mpi.on_root(move)
