"""Finds out which experiments of a grid are finished, from the directories of their runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spinup_tf2.arguments.checks import MAY_CHANGE, check_epochs_left
from spinup_tf2.arguments.options import OPTIONS
from spinup_tf2.errors import UserError, shortened
from spinup_tf2.experiments.checks import ENVIRONMENT, default_networks, signature_of
from spinup_tf2.experiments.experiment import Experiment
from spinup_tf2.experiments.outcomes import progress_of
from spinup_tf2.files.run_directory import holds_run, read_json
from spinup_tf2.files.saves import has_save
from spinup_tf2.files.serialization import convert_json
from spinup_tf2.parallel import mpi
from spinup_tf2.training.checkpoints import Checkpoints

# These may change without making it another run; config.json holds their values at the last start.
_NOT_COMPARED = (*MAY_CHANGE, "logger_kwargs", "resume", "exp_name", "preset")

# Arguments that can end a training run before its last epoch.
_ENDING = ("callbacks", "stop_at_return", "stop_without_improvement", "stop_after")


def finished_runs(experiments: Sequence[Experiment], num_procs: int) -> set[str]:
    """Return the directories of finished experiments: with the same arguments, and complete.

    A run is complete if it has all epochs, or was ended early by a callback, and has saved a
    policy. Collective: rank 0 does the work.

    Args:
        experiments: All experiments of a grid.
        num_procs: Number of processes that each of them would have.

    Raises:
        UserError: A directory holds a run that is unfinished (and neither resume nor overwrite is
            set), or one that has other arguments (and overwrite is not set).
    """

    def look():
        return {each.output_dir for each in experiments if _is_finished(each, num_procs)}

    return mpi.on_root(look)


def _is_finished(experiment, num_procs):
    run_dir = experiment.output_dir
    if experiment.algorithm is None or run_dir is None:
        raise UserError(
            "skip_finished compares the arguments of a run with those that were asked for, which "
            "it can do for the algorithms of spinup_tf2, in directories that the grid has chosen; "
            "leave skip_finished or logger_kwargs out."
        )
    if not holds_run(run_dir):
        return False
    overwrite, resume = experiment.logger_kwargs.get("overwrite"), experiment.kwargs.get("resume")
    described = Checkpoints(run_dir).describe() or {}
    difference = _difference(experiment, num_procs, described)
    if difference and not overwrite:
        raise UserError(
            f"{run_dir} holds another run, which is neither skipped nor run again: {difference}. "
            "Choose another exp_name, seed or data_dir, or pass --overwrite (overwrite=True) to "
            "replace it."
        )
    done, epochs = epochs_done(run_dir, described), epochs_of(experiment)
    if difference:
        return False
    if done >= epochs or _has_ended_early(experiment, described):
        if has_save(run_dir):
            return True
        state = "without a trained agent (tf2_save): perhaps the disk was full"
    else:
        state = f"that is not finished ({done} of {epochs} epochs)"
    if not (resume or overwrite):
        go_on = "--resume (resume=True) to go on with it, or " if described else ""
        raise UserError(
            f"{run_dir} holds a run {state}; pass {go_on}--overwrite (overwrite=True) to replace "
            "it."
        )
    return False


def check_going_on(experiments: Sequence[Experiment], num_procs: int) -> None:
    """Check, before any experiment starts, that the runs to be resumed have the same arguments.

    Otherwise a difference would only be found when its turn comes, after others have been trained.
    Collective: rank 0 does the work.

    Args:
        experiments: All experiments of a grid.
        num_procs: Number of processes that each of them would have.

    Raises:
        UserError: A run has other arguments, or has already had more epochs than requested.
    """

    def look():
        for each in experiments:
            run_dir = each.output_dir
            there = run_dir is not None and holds_run(run_dir)
            if not (there and each.algorithm and each.kwargs.get("resume")):
                continue
            described = Checkpoints(run_dir).describe() or {}
            if difference := _difference(each, num_procs, described):
                raise UserError(
                    f"the run in {run_dir} cannot go on: {difference}. Resume it as it was, or "
                    "choose another exp_name, seed or data_dir."
                )
            check_epochs_left(epochs_of(each), epochs_done(run_dir, described), run_dir)

    mpi.on_root(look)


def _has_ended_early(experiment, described):
    """Return whether a callback has ended the run, and the experiment has the same callbacks."""
    if not described.get("stopped"):
        return False
    before, now = read_json(Path(experiment.output_dir, "config.json")), _asked(experiment)
    return all(before.get(name) == now[name] for name in _ENDING)


def epochs_of(experiment: Experiment) -> int | None:
    """Return an experiment's number of epochs; None if it runs no algorithm of this package."""
    if experiment.algorithm is None:
        return None
    return (signature_of(experiment.algorithm).defaults | experiment.kwargs)["epochs"]


def epochs_done(run_dir: str, described: Mapping[str, Any]) -> int:
    """Return the number of epochs that a run has completed, by both its rows and its checkpoint.

    It is the smaller of the two, as a crash can come between the last row and its checkpoint.

    Args:
        run_dir: Directory of the run.
        described: Result of `Checkpoints.describe` for it; empty without a checkpoint.
    """
    rows = progress_of(run_dir).epochs
    saved = described.get("epochs_done")
    return min(rows, saved) if type(saved) is int else rows


def _difference(experiment, num_procs, described):
    """Return in words how the run in the directory differs from the experiment; "" if equal."""
    try:
        config = read_json(Path(experiment.output_dir, "config.json"))
    except FileNotFoundError:
        # It was killed before it could write its configuration, and has done nothing.
        return "its config.json is missing" if progress_of(experiment.output_dir).epochs else ""
    except (OSError, UserError) as error:
        return f"its arguments are not known ({error})"
    if not isinstance(config, dict):
        return "its config.json holds no arguments"
    before, now = dict(config), _asked(experiment)
    if before.get("actor_critic") in default_networks(experiment.algorithm):
        now.setdefault("actor_critic", before["actor_critic"])  # the environment has chosen it
    before["algorithm"] = described.get("algorithm", experiment.algorithm)
    # With another number of processes it is the same run if the total of environments is the same.
    now["num_envs"] *= num_procs
    own = before.get("num_envs")
    before["num_envs"] = described.get("num_envs", own * num_procs if type(own) is int else own)
    for name in [*now, *before]:
        # An older version may not have had the option; it behaved as its default does now.
        was = before.get(name, OPTIONS[name].default if name in OPTIONS else None)
        if name not in _NOT_COMPARED and was != now.get(name):
            was, wanted = (shortened(repr(value), 100) for value in (was, now.get(name)))
            return f"its {name} was {was} and would now be {wanted}"
    return ""


def _asked(experiment):
    """Return the arguments of an experiment, as config.json would hold them."""
    defaults = dict(signature_of(experiment.algorithm).defaults)
    del defaults["actor_critic"]
    asked = defaults | dict(env_fn=experiment.env_fn) | experiment.kwargs
    asked = {name: value for name, value in asked.items() if name not in ENVIRONMENT}
    return _as_json(asked) | dict(algorithm=experiment.algorithm)


def _as_json(value: Any) -> Any:
    """Return a value as it would be read back from a JSON file."""
    return json.loads(json.dumps(convert_json(value)))
