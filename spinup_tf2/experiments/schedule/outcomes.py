"""What has become of the experiments of a grid, and how what is missing is done."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from spinup_tf2 import user_config
from spinup_tf2.envs.modules import modules_of
from spinup_tf2.errors import ExperimentsFailed, Interrupted, UserError, printable, shortened
from spinup_tf2.experiments.experiment import Experiment
from spinup_tf2.experiments.schedule.progress import progress_of
from spinup_tf2.parallel import launched
from spinup_tf2.persistence.checkpoints import Checkpoints
from spinup_tf2.runs.commands import resume_command
from spinup_tf2.runs.files import REPLACED, forget_replaced
from spinup_tf2.runs.printing import RULE

FINISHED, FAILED, STOPPED, SKIPPED = "finished", "failed", "stopped", "skipped"
RUNNING, NOT_BEGUN = "running", "not begun"


@dataclass
class Outcome:
    """An experiment of a grid, and what has become of it.

    Attributes:
        experiment: What it is.
        number: Its place in the grid, from 1.
        state: NOT_BEGUN, RUNNING, FINISHED, FAILED, STOPPED (by a signal), or SKIPPED (it was
            finished before).
        seconds: How long it has taken, from the start of its process to the end.
        reason: Why it has failed.
        signum: The signal that has stopped it.
        status: The exit status of its process, if that has failed.
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
        """Its directory, or its name where the logger chooses the directory."""
        return self.experiment.output_dir or self.experiment.exp_name

    def begin(self) -> None:
        """Start the clock."""
        self.state, self._began = RUNNING, time.monotonic()

    def end(self, state: str, reason: str = "", signum: int = 0, status: int = 1) -> None:
        """Stop the clock, and say what has become of it."""
        self.seconds = time.monotonic() - self._began
        self.state, self.reason, self.signum, self.status = state, reason, signum, status
        run_dir = self.experiment and self.experiment.output_dir
        if state == FINISHED and run_dir and launched.rank() == 0:
            with suppress(OSError):
                forget_replaced(run_dir)  # a function that is no algorithm has not done so

    def describe(self) -> str:
        """A line: state, directory, last return, time."""
        run_dir = self.experiment.output_dir
        performance = progress_of(run_dir).performance if run_dir else None
        reached = "" if performance is None else f"return {performance:.5g}"
        took = "" if self.seconds is None else duration(self.seconds)
        return f"{self.state:>10}  {self.where}  {reached:16} {took:>9}".rstrip()


@dataclass(frozen=True)
class Again:
    """How a grid was started, to say how the rest of it is done.

    Attributes:
        command: The words behind `python -m spinup_tf2.run`; None for a Python program.
        overwrite: Whether runs were to be replaced.
        datestamp: Whether directories have dates in their names, and so are new ones each time.
    """

    command: Sequence[str] | None = None
    overwrite: bool = False
    datestamp: bool = False

    def explain(self, missing: Sequence[Outcome]) -> str:
        """How those experiments that are not finished are done."""
        if self.datestamp or user_config.FORCE_DATESTAMP:
            return _resume_each(missing)
        experiments = [outcome.experiment for outcome in missing]
        known = all(each.algorithm for each in experiments)
        # Without checkpoints there is nothing to go on from: what is missing begins anew.
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
    """A command line without some of its flags and their values."""
    kept, dropping = [], False
    for word in words:
        if word.startswith("--"):
            dropping = word in flags
        if not dropping:
            kept.append(word)
    return kept


def _resume_each(missing):
    """One command for each run that has begun, where the command of the grid finds none of them."""
    lines = []
    for outcome in missing:
        experiment = outcome.experiment
        run = Checkpoints(experiment.output_dir).describe() if experiment.output_dir else None
        if run and run.get("command") is not None:  # not of a Python program
            env_name = experiment.kwargs.get("env_name", "")
            modules = [*experiment.modules, *modules_of(experiment.kwargs.get("callbacks"))]
            lines.append(resume_command(experiment.output_dir, env_name, modules))
    new = "The same grid again would make directories of another date."
    if not lines:
        return new
    return "\n".join([f"{new} What has a checkpoint goes on with:\n", *lines])


def summary(outcomes: Sequence[Outcome], seconds: float, again: Again) -> str:
    """The table of a grid that is over, and how what is missing is done."""
    lines = [f"{RULE}\n\n{counted(outcomes)}, in {duration(seconds)}:\n"]
    for outcome in outcomes:
        lines.append(outcome.describe())
        if outcome.reason:
            lines.append(f"{'':12}{outcome.reason}")
        aside = os.path.join(outcome.experiment.output_dir or os.devnull, REPLACED)
        if outcome.state != FINISHED and os.path.isdir(aside):
            lines.append(f"{'':12}The run that it was to replace is in {aside}.")
    missing = [outcome for outcome in outcomes if outcome.state not in (FINISHED, SKIPPED)]
    if missing:
        lines += ["", again.explain(missing)]
    return "\n".join([*lines, "", RULE])


def not_started(error: Exception) -> str:
    """Why an experiment has failed that could not be started: no room for it, for instance."""
    if isinstance(error, UserError):
        return in_one_line(str(error))
    return in_one_line(f"it could not be started ({type(error).__name__}: {error})")


def in_one_line(text: str) -> str:
    """A reason as the table shows it."""
    return shortened(printable(" ".join(text.split())))


def counted(outcomes: Sequence[Outcome]) -> str:
    """How many there are of each state: "3 experiments: 2 finished, 1 failed"."""
    states = [outcome.state for outcome in outcomes]
    known = (FINISHED, FAILED, STOPPED, SKIPPED, RUNNING, NOT_BEGUN)
    counts = ", ".join(f"{states.count(state)} {state}" for state in known if state in states)
    return f"{len(outcomes)} experiments: {counts}"


def duration(seconds: float) -> str:
    """A time in words: 20 s, 1 min 05 s, 2 h 03 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def raise_if_incomplete(outcomes: Sequence[Outcome], signum: int = 0) -> None:
    """Raise what tells the caller that not all experiments are finished.

    Args:
        outcomes: Those of all experiments.
        signum: The signal that has stopped the grid; 0 if none has.

    Raises:
        Interrupted: The grid was stopped; or one of its experiments, and none has failed.
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
