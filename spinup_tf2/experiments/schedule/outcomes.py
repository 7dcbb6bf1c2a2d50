"""Outcomes of the experiments of a grid, and how to run those that are not finished."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from spinup_tf2 import user_config
from spinup_tf2.envs.modules import modules_of
from spinup_tf2.errors import ExperimentsFailed, Interrupted, UserError, printable, shortened
from spinup_tf2.experiments.experiment import Experiment
from spinup_tf2.experiments.outcomes import progress_of
from spinup_tf2.files.commands import resume_command
from spinup_tf2.files.printing import RULE
from spinup_tf2.parallel import launched
from spinup_tf2.training.checkpoints import Checkpoints

FINISHED, FAILED, STOPPED, SKIPPED = "finished", "failed", "stopped", "skipped"
RUNNING, NOT_BEGUN = "running", "not begun"


@dataclass
class Outcome:
    """An experiment of a grid, and its state.

    Attributes:
        experiment: The experiment.
        number: Its position in the grid, counted from 1.
        state: NOT_BEGUN, RUNNING, FINISHED, FAILED, STOPPED (by a signal), or SKIPPED (it was
            already finished).
        seconds: Duration in seconds, from the start of its process to its end; None before.
        reason: Why it failed, or how it was stopped.
        signum: Number of the signal that stopped it; 0 if none has.
        status: Exit status of its process, if that failed.
    """

    experiment: Experiment
    number: int
    state: str = NOT_BEGUN
    seconds: float | None = None
    reason: str = ""
    signum: int = 0
    status: int = 1
    _began: float = field(default=0.0, repr=False)

    @property
    def where(self) -> str:
        """Directory of the experiment, or its name if the logger chooses the directory."""
        return self.experiment.output_dir or self.experiment.exp_name

    def begin(self) -> None:
        """Mark the experiment as running, and start the clock."""
        self.state, self._began = RUNNING, time.monotonic()

    def end(self, state: str, reason: str = "", signum: int = 0, status: int = 1) -> None:
        """Stop the clock, and set the final state."""
        self.seconds = time.monotonic() - self._began
        self.state, self.reason, self.signum, self.status = state, reason, signum, status

    def describe(self) -> str:
        """Return a line with state, directory, last return and duration."""
        run_dir = self.experiment.output_dir
        performance = progress_of(run_dir).performance if run_dir else None
        reached = "" if performance is None else f"return {performance:.5g}"
        took = "" if self.seconds is None else duration(self.seconds)
        return f"{self.state:>10}  {self.where}  {reached:16} {took:>9}".rstrip()


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

    def explain(self, missing: Sequence[Outcome]) -> str:
        """Return a text on how to run the experiments that are not finished."""
        if self.datestamp or user_config.FORCE_DATESTAMP:
            return _resume_each(missing)
        experiments = [outcome.experiment for outcome in missing]
        known = all(each.algorithm for each in experiments)
        # Without checkpoints nothing can be resumed: unfinished experiments start over.
        anew = known and all(each.kwargs.get("checkpoint_freq") == 0 for each in experiments)
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
    lines = []
    for outcome in missing:
        experiment = outcome.experiment
        run = Checkpoints(experiment.output_dir).describe() if experiment.output_dir else None
        if run and run.get("command") is not None:  # it is None for some runs of Python programs
            env_name = experiment.kwargs.get("env_name", "")
            modules = [*experiment.modules, *modules_of(experiment.kwargs.get("callbacks"))]
            lines.append(resume_command(experiment.output_dir, env_name, modules))
    new = "The same grid again would make directories of another date."
    if not lines:
        return new
    return "\n".join([f"{new} What has a checkpoint goes on with:\n", *lines])


def summary(outcomes: Sequence[Outcome], seconds: float, again: Again) -> str:
    """Return the table of a grid that has ended, and how to run the unfinished experiments."""
    lines = [f"{RULE}\n\n{counted(outcomes)}, in {duration(seconds)}:\n"]
    for outcome in outcomes:
        lines.append(outcome.describe())
        if outcome.reason:
            lines.append(f"{'':12}{outcome.reason}")
    missing = [outcome for outcome in outcomes if outcome.state not in (FINISHED, SKIPPED)]
    if missing:
        lines += ["", again.explain(missing)]
    return "\n".join([*lines, "", RULE])


def not_started(error: Exception) -> str:
    """Return why an experiment could not be started, such as a full disk."""
    if isinstance(error, UserError):
        return in_one_line(str(error))
    return in_one_line(f"it could not be started ({type(error).__name__}: {error})")


def in_one_line(text: str) -> str:
    """Shorten a reason to one line, as shown in the table."""
    return shortened(printable(" ".join(text.split())))


def counted(outcomes: Sequence[Outcome]) -> str:
    """Return the number of experiments in each state: "3 experiments: 2 finished, 1 failed"."""
    states = [outcome.state for outcome in outcomes]
    known = (FINISHED, FAILED, STOPPED, SKIPPED, RUNNING, NOT_BEGUN)
    counts = ", ".join(f"{states.count(state)} {state}" for state in known if state in states)
    return f"{len(outcomes)} experiments: {counts}"


def duration(seconds: float) -> str:
    """Format a duration: 20 s, 1 min 05 s, 2 h 03 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def raise_if_incomplete(outcomes: Sequence[Outcome], signum: int = 0) -> None:
    """Raise an exception if experiments have failed or were stopped.

    Args:
        outcomes: Outcomes of all experiments.
        signum: Number of the signal that stopped the grid; 0 if none has.

    Raises:
        Interrupted: The grid was stopped; or one of its experiments was, and none has failed.
        ExperimentsFailed: An experiment has failed.
    """
    if signum:
        raise Interrupted(signum)
    failed = [outcome for outcome in outcomes if outcome.state == FAILED]
    if failed:
        named = "; ".join(f"{each.where} ({each.reason})" for each in failed)
        status = failed[0].status if len(outcomes) == 1 else 1
        raise ExperimentsFailed(
            f"{len(failed)} of {len(outcomes)} experiments failed: {named}", status
        )
    for outcome in outcomes:
        if outcome.state == STOPPED:
            raise Interrupted(outcome.signum)
