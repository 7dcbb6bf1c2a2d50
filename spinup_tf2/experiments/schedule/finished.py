"""Which experiments of a grid are finished already: what is in the directories of their runs."""

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
from spinup_tf2.experiments.schedule.progress import progress_of
from spinup_tf2.parallel import mpi
from spinup_tf2.persistence.checkpoints import Checkpoints
from spinup_tf2.persistence.saves import has_save
from spinup_tf2.runs.files import holds_run, read_json
from spinup_tf2.utils.serialization_utils import convert_json

# What does not make it another run: of these config.json holds what the last start was given.
_NOT_COMPARED = (*MAY_CHANGE, "logger_kwargs", "resume", "exp_name", "preset")

# What can end a training before its last epoch.
_ENDING = ("callbacks", "stop_at_return", "stop_without_improvement", "stop_after")


def finished_runs(experiments: Sequence[Experiment], num_procs: int) -> set[str]:
    """The directories of those experiments that are finished: same arguments, and all epochs.

    Collective: rank 0 looks.

    Args:
        experiments: All of a grid.
        num_procs: How many processes each of them would have.

    Raises:
        UserError: A directory holds a run that is not finished, or has other arguments, and
            neither resume nor overwrite says what to do with it.
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
    """Check that the runs with which experiments go on are the same, before any of them starts.

    Else it would be found when its turn comes, and others would have been trained meanwhile.
    Collective: rank 0 looks.

    Args:
        experiments: All of a grid.
        num_procs: How many processes each of them would have.

    Raises:
        UserError: A run has other arguments, or more epochs behind it than it is to have.
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
    """Whether a callback has ended the run, and the same ones are asked for."""
    if not described.get("stopped"):
        return False
    before, now = read_json(Path(experiment.output_dir, "config.json")), _asked(experiment)
    return all(before.get(name) == now[name] for name in _ENDING)


def epochs_of(experiment: Experiment) -> int | None:
    """How many epochs an experiment is to have; None if it runs no algorithm of this package."""
    if experiment.algorithm is None:
        return None
    return (signature_of(experiment.algorithm).defaults | experiment.kwargs)["epochs"]


def epochs_done(run_dir: str, described: Mapping[str, Any]) -> int:
    """How many epochs of the run in a directory are over: in its rows, and in its checkpoint.

    A crash can come between the last row and the checkpoint after it.

    Args:
        run_dir: The directory.
        described: What `Checkpoints.describe` says of it; empty without a checkpoint.
    """
    rows = progress_of(run_dir).epochs
    saved = described.get("epochs_done")
    return min(rows, saved) if type(saved) is int else rows


def _difference(experiment, num_procs, described):
    """In words, how the run in the experiment's directory differs from the experiment; or ""."""
    try:
        config = read_json(Path(experiment.output_dir, "config.json"))
    except FileNotFoundError:
        # It was killed before it could say what it is, and has done nothing.
        return "its config.json is missing" if progress_of(experiment.output_dir).epochs else ""
    except (OSError, UserError) as error:
        return f"its arguments are not known ({error})"
    if not isinstance(config, dict):
        return "its config.json holds no arguments"
    before, now = dict(config), _asked(experiment)
    if before.get("actor_critic") in default_networks(experiment.algorithm):
        now.setdefault("actor_critic", before["actor_critic"])  # the environment has chosen it
    before["algorithm"] = described.get("algorithm", experiment.algorithm)
    # With another number of processes it is the same run if there are as many environments.
    now["num_envs"] *= num_procs
    own = before.get("num_envs")
    before["num_envs"] = described.get("num_envs", own * num_procs if type(own) is int else own)
    for name in [*now, *before]:
        # An older version may not have known an option, and did what is its default now.
        was = before.get(name, OPTIONS[name].default if name in OPTIONS else None)
        if name not in _NOT_COMPARED and was != now.get(name):
            was, wanted = (shortened(repr(value), 100) for value in (was, now.get(name)))
            return f"its {name} was {was} and would now be {wanted}"
    return ""


def _asked(experiment):
    """The arguments of an experiment, as config.json would hold them."""
    defaults = dict(signature_of(experiment.algorithm).defaults)
    del defaults["actor_critic"]
    asked = defaults | dict(env_fn=experiment.env_fn) | experiment.kwargs
    asked = {name: value for name, value in asked.items() if name not in ENVIRONMENT}
    return _as_json(asked) | dict(algorithm=experiment.algorithm)


def _as_json(value: Any) -> Any:
    """A value as it comes back from a file."""
    return json.loads(json.dumps(convert_json(value)))
