"""How far a run has come, as the rows of its progress.txt tell."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

from spinup_tf2.errors import UserError
from spinup_tf2.results.rows import PERFORMANCE
from spinup_tf2.runs.files import read_text


@dataclass(frozen=True)
class Progress:
    """How far a run has come.

    Attributes:
        epochs: How many are over.
        performance: The last average return that was logged; None before.
    """

    epochs: int = 0
    performance: float | None = None


def progress_of(run_dir: str | os.PathLike) -> Progress:
    """How far the run in a directory has come; not begun if its file cannot be read."""
    try:
        text = read_text(Path(run_dir, "progress.txt"))
    except (OSError, UserError):
        return Progress()
    complete, _, _ = text.rpartition("\n")  # half a row may be on its way
    columns, *rows = (line.split("\t") for line in complete.split("\n"))
    own = [columns.index(name) for name in PERFORMANCE if name in columns][:1]
    returns = (_number(row[at]) for at in own for row in reversed(rows) if at < len(row))
    return Progress(len(rows), next((each for each in returns if not math.isnan(each)), None))


def _number(text):
    """The number in a cell; NaN for an empty one, as of an epoch in which no episode ended."""
    try:
        return float(text)
    except ValueError:
        return math.nan
