"""Callbacks: what a training tells of its start, of each of its epochs, and of its end.

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

import math
import re
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from numbers import Integral, Real
from typing import Any

from spinup_tf2.errors import UserError, kind_and_line

__all__ = ["Callback", "StopAfter", "StopAtReturn", "StopWithoutImprovement"]


class Callback:
    """Something that a training calls; any object with some of these methods will do.

    Under MPI, rank 0 alone calls them. `run` has the attributes

    ===============  ===================================================================
    `epoch`          number of the present epoch, from 0
    `policy`         the actor-critic; `run.policy.act(obs)` gives an action
    `logger`         the EpochLogger; `run.logger.output_dir` is the run's directory
    `settings`       the arguments that all algorithms share, such as `settings.epochs`
    `stop(reason)`   ends the training after this epoch, saved so that it can be resumed
    ===============  ===================================================================

    An exception that a callback raises ends the training, on all ranks.
    """

    def on_start(self, run: Any) -> None:
        """Called before the first epoch, and when a run is resumed."""

    def columns(self, run: Any) -> Mapping[str, float | None]:
        """Columns of one's own for progress.txt, plots and trackers.

        Called at the end of each epoch, before its row is written, and once before training
        begins, as a trial. The columns of a run are those of its first epoch.

        Returns:
            A number for each column, or None where there is none in this epoch.
        """
        return {}

    def on_epoch_end(self, run: Any, row: Mapping[str, Any]) -> None:
        """Called after each epoch, when its row is written.

        Args:
            run: The run.
            row: The row of progress.txt, by column. What there is no number for is "".
        """

    def on_end(self, run: Any) -> None:
        """Called once at the end, also where the training is interrupted or fails."""

    def state_dict(self) -> dict[str, Any]:
        """What must survive a stop, as JSON; checkpoints hold it."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what `state_dict` gave; called before `on_start` where a run is resumed."""


# The methods and what they are called with.
HOOKS = dict(on_start=("run",), columns=("run",), on_epoch_end=("run", "row"), on_end=("run",))


def hook_of(value: Any, hook: str) -> Callable[..., Any] | None:
    """The method of an object, or of a class, that is called back; None if it has none."""
    method = getattr(value, hook, None)
    return method if callable(method) else None


_OF_KERAS = re.compile(r"(tf_)?keras\..*\bcallbacks\b")


def has_hooks(value: Any) -> bool:
    """Whether an object, or the instances of a class, can be called back.

    What it has only from Callback does nothing, and Keras calls those of its own otherwise.
    """
    kind = value if isinstance(value, type) else type(value)
    if any(_OF_KERAS.match(base.__module__) for base in kind.__mro__):
        return False
    methods = {hook: hook_of(value, hook) for hook in HOOKS}
    return any(
        method is not None and getattr(method, "__func__", method) is not getattr(Callback, hook)
        for hook, method in methods.items()
    )


def not_available(name: str, error: Exception) -> UserError:
    """What is raised where the callback `module:Name` cannot be had, because of `error`."""
    return UserError(
        f"the callback {name} cannot be had ({kind_and_line(error)}); give it as module:Name, "
        "where Name is an object in the module, or a class without arguments."
    )


def mean_return(run: Any, row: Mapping[str, Any]) -> float | None:
    """The mean return of an epoch: of its test episodes, if the run has any.

    Returns:
        None if no episode has ended, or no test was due.
    """
    value = row["AverageTestEpRet" if run.settings.num_test_episodes > 0 else "AverageEpRet"]
    return None if value == "" else float(value)


class StopAtReturn(Callback):
    """Ends a training whose mean return in an epoch has reached a value (`--stop_at_return`).

    Args:
        threshold: The value.
    """

    def __init__(self, threshold: float):
        if not (isinstance(threshold, Real) and math.isfinite(threshold)):
            raise UserError(f"threshold is {threshold!r}; it must be a number.")
        self.threshold = threshold

    def on_epoch_end(self, run: Any, row: Mapping[str, Any]) -> None:
        score = mean_return(run, row)
        if score is not None and score >= self.threshold:
            run.stop(f"the mean return, {score:.4g}, has reached {self.threshold:g}")


class StopWithoutImprovement(Callback):
    """Ends a training whose best mean return is some epochs old (`--stop_without_improvement`).

    Args:
        epochs: How many. Those without a finished episode, or without a test, count as well.
        min_delta: By how much a return must exceed the best to be an improvement.
    """

    def __init__(self, epochs: int = 20, min_delta: float = 0.0):
        if not (isinstance(epochs, Integral) and epochs >= 1):
            raise UserError(f"epochs is {epochs!r}; it must be a whole number of at least 1.")
        if not (isinstance(min_delta, Real) and min_delta >= 0):
            raise UserError(f"min_delta is {min_delta!r}; it must be a number of at least 0.")
        self.epochs, self.min_delta = epochs, min_delta
        self.best: float | None = None
        self.waited = 0

    def on_start(self, run: Any) -> None:
        if run.epoch == 0:  # it may have seen another training
            self.best, self.waited = None, 0

    def on_epoch_end(self, run: Any, row: Mapping[str, Any]) -> None:
        score, settings = mean_return(run, row), run.settings
        if score is not None and (self.best is None or score > self.best + self.min_delta):
            self.best, self.waited = score, 0
            return
        self.waited += 1
        if settings.num_test_episodes > 0 and (run.epoch + 1) % settings.test_freq != 0:
            return  # no test was due, which might have shown an improvement
        if self.waited >= self.epochs:
            best = "no episode has ended" if self.best is None else f"the best is {self.best:.4g}"
            run.stop(f"the mean return has not risen for {self.waited} epochs; {best}")
            self.waited = 0  # one that is resumed gets as many again

    def state_dict(self) -> dict[str, Any]:
        return dict(best=self.best, waited=self.waited)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best, self.waited = state["best"], state["waited"]


class StopAfter(Callback):
    """Ends a training after some time, at the end of an epoch (`--stop_after 8h`).

    The time counts from where the training starts, or is resumed.

    Args:
        hours, minutes, seconds: Add up to the time.
    """

    def __init__(self, hours: float = 0, minutes: float = 0, seconds: float = 0):
        self.time = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        if self.time <= timedelta(0):
            raise UserError(f"StopAfter is to wait {self.time}; give it a time above 0.")
        self._began = time.monotonic()

    def on_start(self, run: Any) -> None:
        self._began = time.monotonic()

    def on_epoch_end(self, run: Any, row: Mapping[str, Any]) -> None:
        if time.monotonic() - self._began >= self.time.total_seconds():
            run.stop(f"the time that it was given, {self.time}, is over")


_DURATION = re.compile(
    r"(?:(?P<days>\d+(?:\.\d+)?)d)?(?:(?P<hours>\d+(?:\.\d+)?)h)?"
    r"(?:(?P<minutes>\d+(?:\.\d+)?)(?:m|min))?(?:(?P<seconds>\d+(?:\.\d+)?)s)?"
)


def seconds_of(duration: Any) -> float | None:
    """The seconds of a duration such as '8h', '90m' or '1h30m'; None for anything else."""
    match = _DURATION.fullmatch(duration) if isinstance(duration, str) else None
    parts = match.groupdict(default="0") if match else {}
    try:
        return timedelta(**{unit: float(x) for unit, x in parts.items()}).total_seconds() or None
    except OverflowError:  # three million years
        return None
