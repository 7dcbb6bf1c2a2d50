"""Display of experiments that run at the same time: a progress bar for each, or lines."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from spinup_tf2.experiments.outcomes import FAILED, Outcome, counted, epochs_of, progress_of
from spinup_tf2.files.printing import colored, say

_WIDEST_NAME = 40  # characters
_REFRESH = 0.5  # seconds
_BAR = "{desc} |{bar}| {n_fmt}/{total_fmt} epochs [{elapsed}<{remaining}{postfix}]"
_NO_BAR = "{desc} [{elapsed}{postfix}]"  # for a user's own function, whose progress is unknown
_TOTAL = "{desc} |{bar}| {n_fmt}/{total_fmt} [{elapsed}]"


# Moves the cursor to the beginning of its line, and erases everything from there on.
_ERASE = "\r\x1b[J"


class Display:
    """Shows the progress of the experiments of a grid.

    In a terminal there is a bar for each running experiment, and one for the whole grid; otherwise
    a line when an experiment begins and when it ends.

    Args:
        outcomes: All experiments of the grid.
        at_a_time: Maximum number of experiments that run at a time.
        quiet: Whether to show only experiments that fail, on stderr.
    """

    def __init__(self, outcomes: Sequence[Outcome], at_a_time: int, quiet: bool):
        self._outcomes, self._quiet = outcomes, quiet
        self._in_terminal = not quiet and sys.stderr.isatty()
        self._bars = [None] * at_a_time
        self._watched = [None] * at_a_time
        self._shown = 0.0
        self._total = tqdm(
            total=len(outcomes),
            desc="grid",
            position=at_a_time,
            bar_format=_TOTAL,
            leave=False,
            dynamic_ncols=True,
            disable=not self._in_terminal,
        )
        self._show_total()

    @property
    def before_a_message(self) -> str:
        """Text to be written to stderr before any other message."""
        return _ERASE if self._in_terminal else "\n"

    def begin(self, slot: int, outcome: Outcome) -> None:
        """Show that an experiment has started."""
        if not self._in_terminal:
            self._say(outcome, f"started   {outcome.where}")
            return
        epochs = epochs_of(outcome.experiment)
        name = Path(outcome.where).name
        short = name if len(name) <= _WIDEST_NAME else f"...{name[3 - _WIDEST_NAME :]}"
        self._watched[slot] = _Watched(outcome)
        self._bars[slot] = tqdm(
            total=epochs,
            initial=self._watched[slot].progress.epochs,
            desc=f"{short:{_WIDEST_NAME}}",
            position=slot,
            bar_format=_BAR if epochs else _NO_BAR,
            leave=False,
            dynamic_ncols=True,
        )

    def refresh(self) -> None:
        """Update the bars, at most every half second."""
        if not self._in_terminal or time.monotonic() - self._shown < _REFRESH:
            return
        self._shown = time.monotonic()
        for bar, watched in zip(self._bars, self._watched, strict=True):
            if bar is not None:
                progress = watched.look()
                bar.n = progress.epochs
                bar.set_postfix_str(_postfix(progress), refresh=False)
                bar.refresh()
        self._show_total()

    def end(self, slot: int, outcome: Outcome) -> None:
        """Show that an experiment has ended."""
        if self._bars[slot] is not None:
            self._bars[slot].close()
            self._bars[slot] = None
        failed = outcome.state == FAILED
        line = f"{outcome.describe()}  {outcome.reason}".strip()
        if self._quiet and failed:
            say(f"spinup_tf2: {line}", file=sys.stderr)
        self._say(outcome, colored(line, "red") if failed else line)
        self._show_total()

    def close(self) -> None:
        """Remove the bars."""
        for bar in [*self._bars, self._total]:
            if bar is not None:
                bar.close()

    def _say(self, outcome, line):
        if not self._quiet:
            say(f"{outcome.number:>4}/{len(self._outcomes)}  {line}")

    def _show_total(self):
        ended = [outcome for outcome in self._outcomes if outcome.seconds is not None]
        self._total.n = len(ended)
        self._total.set_description_str(counted(self._outcomes), refresh=self._in_terminal)


def _postfix(progress):
    if progress.performance is not None:
        return f"return {progress.performance:.4g}"
    return "" if progress.epochs else "starting"


class _Watched:
    """Progress of an experiment, read again whenever its file has changed."""

    def __init__(self, outcome):
        self._run_dir = outcome.experiment.output_dir
        self._seen = None
        self.progress = progress_of(self._run_dir)

    def look(self):
        stamp = self._stamp()
        if stamp != self._seen:
            self._seen, self.progress = stamp, progress_of(self._run_dir)
        return self.progress

    def _stamp(self):
        try:
            status = os.stat(Path(self._run_dir, "progress.txt"))
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns
