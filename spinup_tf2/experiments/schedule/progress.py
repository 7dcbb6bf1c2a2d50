"""Reads the progress of a run from the rows of its progress.txt."""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import isnan
from pathlib import Path

from spinup_tf2.errors import UserError
from spinup_tf2.results.reading import read_rows


@dataclass(frozen=True)
class Progress:
    """Progress of a run.

    Attributes:
        epochs: Number of completed epochs.
        performance: The last average return that was logged; None if there is none yet.
    """

    epochs: int = 0
    performance: float | None = None


def progress_of(run_dir: str | os.PathLike) -> Progress:
    """Return the progress of the run in a directory; no epochs if its file cannot be read."""
    try:
        rows = read_rows(Path(run_dir, "progress.txt"))
    except (OSError, UserError):
        return Progress()
    returns = [number for number in rows.returns() if number is not None and not isnan(number)]
    return Progress(rows.epochs, returns[-1] if returns else None)
