"""Callbacks: code that runs at the start of a training run, after each epoch, and at its end.

    from spinup_tf2 import ppo
    from spinup_tf2.callbacks import Callback, StopAtReturn

    class PrintBest(Callback):
        best = float("-inf")

        def on_epoch_end(self, run, row):
            self.best = max(self.best, row["AverageEpRet"])
            print(f"The best epoch so far returned {self.best:.1f} on average.")

    ppo("CartPole-v1", callbacks=[PrintBest(), StopAtReturn(475)])

Imports no TensorFlow.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

__all__ = ["Callback", "Prune", "StopAfter", "StopAtReturn", "StopWithoutImprovement"]


class Callback:
    """Base class of callbacks; any object with some of these methods can be a callback.

    Under MPI, they are called on rank 0 only. `run` has the attributes

    ===============  ===================================================================
    `epoch`          number of the current epoch, from 0
    `policy`         the actor-critic; `run.policy.act(obs)` gives an action
    `logger`         the EpochLogger; `run.logger.output_dir` is the run's directory
    `settings`       the arguments that all algorithms share, such as `settings.epochs`
    `stop(reason)`   ends the training after this epoch; it is saved and can be resumed
    ===============  ===================================================================

    An exception that a callback raises ends the training, on all ranks.
    """

    def on_start(self, run: Any) -> None:
        """Called before the first epoch, also when a run is resumed."""

    def columns(self, run: Any) -> Mapping[str, float | None]:
        """Return additional columns for progress.txt, plots and trackers.

        Called at the end of each epoch, before its row is written. The first epoch determines which
        columns a run has.

        Returns:
            A number for each column, or None if there is no value in this epoch.
        """
        return {}

    def on_epoch_end(self, run: Any, row: Mapping[str, Any]) -> None:
        """Called after each epoch, once its row is written.

        Args:
            run: The run.
            row: The row of progress.txt, by column. Columns without a value hold "".
        """

    def on_end(self, run: Any) -> None:
        """Called once at the end, even if the training is interrupted or fails."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state to store in checkpoints, as data that JSON can represent."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned; called before `on_start` when a run is resumed."""


HOOKS = ("on_start", "columns", "on_epoch_end", "on_end")


def has_hooks(value: Any) -> bool:
    """Return whether an object, or the instances of a class, can serve as a callback."""
    return any(callable(getattr(value, hook, None)) for hook in HOOKS)


def mean_return(run: Any, row: Mapping[str, Any]) -> float | None:
    """Return the mean return of an epoch: that of its test episodes, if the run has any.

    Returns:
        The mean return; None if no episode has ended, or no test was due.
    """
    value = row["AverageTestEpRet" if run.settings.num_test_episodes > 0 else "AverageEpRet"]
    return None if value == "" else float(value)


class StopAtReturn(Callback):
    """Ends the training once the mean return of an epoch reaches a value (`--stop_at_return`).

    Args:
        threshold: The mean return at which to stop.
    """

    def __init__(self, threshold: float):
        self.threshold = threshold

    def on_epoch_end(self, run: Any, row: Mapping[str, Any]) -> None:
        score = mean_return(run, row)
        if score is not None and score >= self.threshold:
            run.stop(f"the mean return, {score:.4g}, has reached {self.threshold:g}")


class StopWithoutImprovement(Callback):
    """Ends the training if the mean return stops improving (`--stop_without_improvement`).

    Args:
        epochs: Number of epochs without improvement after which to stop. Epochs without a finished
            episode, or without a test, count as well.
        min_delta: How much a mean return must exceed the best so far to count as an improvement.
    """

    def __init__(self, epochs: int = 20, min_delta: float = 0.0):
        self.epochs, self.min_delta = epochs, min_delta
        self.best: float | None = None
        self.waited = 0

    def on_start(self, run: Any) -> None:
        if run.epoch == 0:  # the callback may have been used in another training
            self.best, self.waited = None, 0

    def on_epoch_end(self, run: Any, row: Mapping[str, Any]) -> None:
        score, settings = mean_return(run, row), run.settings
        if score is not None and (self.best is None or score > self.best + self.min_delta):
            self.best, self.waited = score, 0
            return
        self.waited += 1
        if settings.num_test_episodes > 0 and (run.epoch + 1) % settings.test_freq != 0:
            return  # no test was due; the next one may show an improvement
        if self.waited >= self.epochs:
            best = "no episode has ended" if self.best is None else f"the best is {self.best:.4g}"
            run.stop(f"the mean return has not risen for {self.waited} epochs; {best}")
            self.waited = 0  # a run that is resumed gets as many epochs again

    def state_dict(self) -> dict[str, Any]:
        return dict(best=self.best, waited=self.waited)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best, self.waited = state["best"], state["waited"]


class StopAfter(Callback):
    """Ends the training at the end of the epoch in which time runs out (`--stop_after 8h`).

    The time counts from the start of the training, or from its resumption.

    Args:
        hours, minutes, seconds: The time to train; they are added up.
    """

    def __init__(self, hours: float = 0, minutes: float = 0, seconds: float = 0):
        self.time = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        self._began = time.monotonic()

    def on_start(self, run: Any) -> None:
        self._began = time.monotonic()

    def on_epoch_end(self, run: Any, row: Mapping[str, Any]) -> None:
        if time.monotonic() - self._began >= self.time.total_seconds():
            run.stop(f"the time that it was given, {self.time}, is over")


class Prune(Callback):
    """Reports each epoch's mean return to an Optuna trial, and ends the training if it is pruned.

    Args:
        trial: The `optuna.Trial`.

    Attributes:
        score: The latest mean return; None if no episode has ended.
        pruned: Whether the trial's pruner has ended the training. The objective then raises
            `optuna.TrialPruned`.
    """

    def __init__(self, trial: Any):
        self.trial = trial
        self.score: float | None = None
        self.pruned = False

    def on_epoch_end(self, run: Any, row: Mapping[str, Any]) -> None:
        score = mean_return(run, row)
        if score is None:
            return
        self.score = score
        self.trial.report(score, run.epoch)
        if self.trial.should_prune():
            self.pruned = True
            run.stop("Optuna's pruner has given the trial up")


_DURATION = re.compile(
    r"(?:(?P<days>\d+(?:\.\d+)?)d)?(?:(?P<hours>\d+(?:\.\d+)?)h)?"
    r"(?:(?P<minutes>\d+(?:\.\d+)?)(?:m|min))?(?:(?P<seconds>\d+(?:\.\d+)?)s)?"
)


def seconds_of(duration: Any) -> float | None:
    """Return the seconds of a duration such as '8h', '90m' or '1h30m'; None for anything else."""
    match = _DURATION.fullmatch(duration) if isinstance(duration, str) else None
    parts = match.groupdict(default="0") if match else {}
    try:
        return timedelta(**{unit: float(x) for unit, x in parts.items()}).total_seconds() or None
    except OverflowError:  # three million years
        return None
