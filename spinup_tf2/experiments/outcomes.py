"""Which experiments of a grid are finished already, how each ended, and how the rest is run."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from statistics import mean

from spinup_tf2.arguments.checks import MAY_CHANGE
from spinup_tf2.errors import UserError, shortened
from spinup_tf2.experiments.checks import ENVIRONMENT, default_networks, signature_of
from spinup_tf2.experiments.experiment import Experiment
from spinup_tf2.experiments.presets import hint
from spinup_tf2.files.disk import read_json
from spinup_tf2.files.printing import RULE
from spinup_tf2.files.run_directory import holds_run
from spinup_tf2.files.saves import has_save
from spinup_tf2.files.serialization import convert_json
from spinup_tf2.parallel import mpi
from spinup_tf2.results.datasets import read_rows
from spinup_tf2.training.checkpoints import Checkpoints

FINISHED, FAILED, STOPPED, SKIPPED = "finished", "failed", "stopped", "skipped"
NOT_BEGUN = "not begun"

# These may change without making it another run; config.json holds their values at the last start.
_NOT_COMPARED = (*MAY_CHANGE, "logger_kwargs", "resume", "exp_name", "preset")

# Arguments that can end a training run before its last epoch.
_ENDING = ("callbacks", "stop_at_return", "stop_without_improvement", "stop_after")


def progress_of(run_dir: str | os.PathLike | None) -> tuple[int, list[float]]:
    """Return the number of a run's epochs, and the mean returns of those in which episodes ended.

    There are none without rows that can be read.
    """
    try:
        rows = read_rows(Path(run_dir or "", "progress.txt"))
    except (OSError, UserError):
        return 0, []
    return rows.epochs, [number for number in rows.returns() if not isnan(number)]


def not_improved(experiment: Experiment) -> str:
    """Return a line on a finished run that has not learned, and what may help; else "".

    It has not if the mean return of its last tenth is not above that of its first; less than ten
    epochs do not tell.
    """
    _, returns = progress_of(experiment.output_dir)
    tenth = len(returns) // 10
    if tenth == 0 or mean(returns[-tenth:]) > mean(returns[:tenth]):
        return ""
    env, used = experiment.kwargs.get("env_name"), experiment.logger_kwargs.get("preset")
    known = experiment.algorithm and env and hint(experiment.algorithm, [env], used)
    return (
        f"{experiment.output_dir}: the mean return has not improved ({mean(returns[:tenth]):.5g} "
        f"in the first tenth of the epochs, {mean(returns[-tenth:]):.5g} in the last); "
        f"{known or 'try other settings'}."
    )


# ---------------------------------------------------------------- what is finished already


def finished_runs(experiments: Sequence[Experiment], num_procs: int) -> set[str]:
    """Return the directories of finished experiments: with the same arguments, and complete.

    A run is complete if it has all epochs, or was ended early by a callback, and has saved a
    policy. Collective: rank 0 does the work.

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
    if difference := _difference(experiment, num_procs, described):
        if overwrite:
            return False
        raise UserError(
            f"{run_dir} holds another run, which is neither skipped nor run again: {difference}. "
            "Choose another exp_name, seed or data_dir, or pass --overwrite (overwrite=True) to "
            "replace it."
        )
    # A crash can come between the last row and its checkpoint.
    rows, saved = progress_of(run_dir)[0], described.get("epochs_done")
    done = min(rows, saved) if type(saved) is int else rows
    epochs = (signature_of(experiment.algorithm).defaults | experiment.kwargs)["epochs"]
    if done < epochs and not _has_ended_early(experiment, described):
        state = f"that is not finished ({done} of {epochs} epochs)"
    elif not has_save(run_dir):
        state = "without a trained agent (tf2_save): perhaps the disk was full"
    else:
        return True
    if not (resume or overwrite):
        raise UserError(
            f"{run_dir} holds a run {state}; pass --resume (resume=True) to continue it, or "
            "--overwrite (overwrite=True) to replace it."
        )
    return False


def _has_ended_early(experiment, described):
    """Return whether a callback has ended the run, and the experiment has the same callbacks."""
    if not described.get("stopped"):
        return False
    before, now = read_json(Path(experiment.output_dir, "config.json")), _asked(experiment)
    return all(before.get(name) == now[name] for name in _ENDING)


def _difference(experiment, num_procs, described):
    """Return in words how the run in the directory differs from the experiment; "" if equal.

    `described` is the description in the run's checkpoint; empty without one.
    """
    try:
        before = dict(read_json(Path(experiment.output_dir, "config.json")))
    except (OSError, TypeError, ValueError) as error:
        if isinstance(error, FileNotFoundError) and not progress_of(experiment.output_dir)[0]:
            return ""  # it was killed before it could write its configuration
        return f"its arguments are not known ({error})"
    now = _asked(experiment)
    of_user = ":" in experiment.algorithm
    if of_user or before.get("actor_critic") in default_networks(experiment.algorithm):
        now.setdefault("actor_critic", before.get("actor_critic"))  # the environment has chosen it
    known = described.get("algorithm", experiment.algorithm)
    before["algorithm"] = described.get("function") or known
    # With another number of processes it is the same run if the total of environments is the same.
    now["num_envs"] *= num_procs
    own = before.get("num_envs")
    before["num_envs"] = described.get("num_envs", own * num_procs if type(own) is int else own)
    for name in [*now, *before]:
        was, wanted = before.get(name), now.get(name)
        if name not in _NOT_COMPARED and was != wanted:
            was, wanted = (shortened(repr(value), 100) for value in (was, wanted))
            return f"its {name} was {was} and would now be {wanted}"
    return ""


def _asked(experiment):
    """Return the arguments of an experiment, as they would be read back from config.json."""
    asked = signature_of(experiment.algorithm).defaults | dict(env_fn=experiment.env_fn)
    asked.pop("actor_critic", None)
    asked |= experiment.kwargs | dict(algorithm=experiment.algorithm)
    asked = {name: value for name, value in asked.items() if name not in ENVIRONMENT}
    return json.loads(json.dumps(convert_json(asked)))


# ---------------------------------------------------------------- how each has ended


@dataclass
class Outcome:
    """An experiment of a grid, and what became of it.

    Attributes:
        experiment: The experiment.
        number: Its position in the grid, counted from 1.
        state: NOT_BEGUN, FINISHED, FAILED, STOPPED (by a signal), or SKIPPED (it was already
            finished).
        seconds: Duration in seconds, from the start of its process to its end; None before.
        reason: Why it failed, or how it was stopped.
        status: Exit status of its process; 128 + signal if that has stopped it.
    """

    experiment: Experiment
    number: int
    state: str = NOT_BEGUN
    seconds: float | None = None
    reason: str = ""
    status: int = 1

    @property
    def where(self) -> str:
        """Directory of the experiment, or its name if the logger chooses the directory."""
        return self.experiment.output_dir or self.experiment.exp_name

    def end(self, began: float, state: str, reason: str = "", status: int = 1) -> None:
        """Set the final state; `began` is the reading of `time.monotonic` at the start."""
        self.seconds = time.monotonic() - began
        self.state, self.reason, self.status = state, reason, status

    def describe(self) -> str:
        """Return a line with state, directory, last return and duration."""
        _, returns = progress_of(self.experiment.output_dir)
        reached = f"return {returns[-1]:.5g}" if returns else ""
        took = "" if self.seconds is None else _duration(self.seconds)
        return f"{self.state:>10}  {self.where}  {reached:16} {took:>9}".rstrip()


def summary(outcomes: Sequence[Outcome], seconds: float, command: Sequence[str] | None) -> str:
    """Return the table of a grid that has ended, and how to run the unfinished experiments.

    Args:
        outcomes: The experiments.
        seconds: Duration of the grid.
        command: The words after `python -m spinup_tf2.run`; None for a Python program.
    """
    states = [outcome.state for outcome in outcomes]
    known = (FINISHED, FAILED, STOPPED, SKIPPED, NOT_BEGUN)
    counts = ", ".join(f"{states.count(state)} {state}" for state in known if state in states)
    lines = [f"{RULE}\n\n{len(outcomes)} experiments: {counts}, in {_duration(seconds)}:\n"]
    for outcome in outcomes:
        lines.append(outcome.describe())
        if outcome.reason:
            lines.append(f"{'':12}{outcome.reason}")
    missing = [each.experiment for each in outcomes if each.state not in (FINISHED, SKIPPED)]
    if missing and all(each.algorithm for each in missing):
        lines += ["", _how_to_go_on(command)]
    return "\n".join([*lines, "", RULE])


def _duration(seconds):
    """Format a duration: 20 s, 1 min 05 s, 2 h 03 min."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def _how_to_go_on(command):
    """Return how to run the experiments that are not finished."""
    if command is None:
        how = "grid.add('resume', True) and run(..., skip_finished=True)"
        return f"The same grid with {how} does the rest."
    if {"--dt", "--datestamp"} & {*command}:  # the same command would make other directories
        return "Runs with a checkpoint are continued by: python -m spinup_tf2.run resume RUN_DIR"
    words, dropping = [], False
    for word in command:
        if word.startswith("--"):
            dropping = word in ("--resume", "--overwrite", "--skip_finished")
        if not dropping:
            words.append(word)
    rest = shlex.join([*words, "--resume", "--skip_finished"])
    return f"This does the rest:\n\npython -m spinup_tf2.run {rest}"
