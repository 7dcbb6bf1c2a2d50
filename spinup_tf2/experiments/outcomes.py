"""Outcomes of the experiments of a grid, and how to run those that are not finished."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass

from spinup_tf2 import user_config
from spinup_tf2.envs.modules import modules_of
from spinup_tf2.experiments.experiment import Experiment
from spinup_tf2.experiments.finished import progress_of
from spinup_tf2.parallel import launched
from spinup_tf2.persistence.checkpoints import Checkpoints
from spinup_tf2.runs.commands import resume_command
from spinup_tf2.runs.printing import RULE

FINISHED, FAILED, STOPPED, SKIPPED = "finished", "failed", "stopped", "skipped"
NOT_BEGUN = "not begun"


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
        run_dir = self.experiment.output_dir
        performance = progress_of(run_dir)[1] if run_dir else None
        reached = "" if performance is None else f"return {performance:.5g}"
        took = "" if self.seconds is None else _duration(self.seconds)
        return f"{self.state:>10}  {self.where}  {reached:16} {took:>9}".rstrip()


def summary(outcomes: Sequence[Outcome], seconds: float, again: Again) -> str:
    """Return the table of a grid that has ended, and how to run the unfinished experiments."""
    states = [outcome.state for outcome in outcomes]
    known = (FINISHED, FAILED, STOPPED, SKIPPED, NOT_BEGUN)
    counts = ", ".join(f"{states.count(state)} {state}" for state in known if state in states)
    lines = [f"{RULE}\n\n{len(outcomes)} experiments: {counts}, in {_duration(seconds)}:\n"]
    for outcome in outcomes:
        lines.append(outcome.describe())
        if outcome.reason:
            lines.append(f"{'':12}{outcome.reason}")
    missing = [outcome for outcome in outcomes if outcome.state not in (FINISHED, SKIPPED)]
    if missing:
        lines += ["", again.explain([outcome.experiment for outcome in missing])]
    return "\n".join([*lines, "", RULE])


def _duration(seconds):
    """Format a duration: 20 s, 1 min 05 s, 2 h 03 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


@dataclass(frozen=True)
class Again:
    """How a grid was started; explains how to run the experiments that are not finished.

    Attributes:
        command: The words after `python -m spinup_tf2.run`; None for a Python program.
        overwrite: Whether existing runs were to be replaced.
        datestamp: Whether the names of directories contain dates, and so differ at each start.
    """

    command: Sequence[str] | None = None
    overwrite: bool = False
    datestamp: bool = False

    def explain(self, missing: Sequence[Experiment]) -> str:
        """Return a text on how to run the experiments that are not finished."""
        if self.datestamp or user_config.FORCE_DATESTAMP:
            return _resume_each(missing)
        known = all(each.algorithm for each in missing)
        # Without checkpoints nothing can be resumed: unfinished experiments start over.
        anew = known and all(each.kwargs.get("checkpoint_freq") == 0 for each in missing)
        if self.command is not None:
            words = _without(self.command, ("--resume", "--overwrite", "--skip_finished"))
            words += ["--overwrite" if anew else "--resume", "--skip_finished"]
            if launched.by_mpi() and not {"--cpu", "--num_cpu"} & {*words}:
                words += ["--num_cpu", str(launched.size())]
            return f"This does the rest:\n\npython -m spinup_tf2.run {shlex.join(words)}"
        if anew:
            return "The same grid with run(..., overwrite=True, skip_finished=True) does the rest."
        how = "grid.add('resume', True)"
        if known:
            how += " and run(..., skip_finished=True)"
        if self.overwrite:
            how += ", and without overwrite,"
        return f"The same grid with {how} does the rest."


def _without(words, flags):
    """Return a command line without some flags and their values."""
    kept, dropping = [], False
    for word in words:
        if word.startswith("--"):
            dropping = word in flags
        if not dropping:
            kept.append(word)
    return kept


def _resume_each(missing):
    """Return a command for each run with a checkpoint; the grid's command would not find them."""
    lines = ["The same grid again would make directories of another date."]
    for each in missing:
        run = Checkpoints(each.output_dir).describe() if each.output_dir else None
        if run and run.get("command") is not None:  # it is None for some runs of Python programs
            env_name = each.kwargs.get("env_name", "")
            modules = [*each.modules, *modules_of(each.kwargs.get("callbacks"))]
            lines.append(resume_command(each.output_dir, env_name, modules))
    if len(lines) > 1:
        lines[0] += " What has a checkpoint goes on with:\n"
    return "\n".join(lines)
