"""How far a run has come, as the rows of its progress.txt tell."""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import isnan
from pathlib import Path

from spinup_tf2.errors import UserError
from spinup_tf2.results.rows import read_rows


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
        rows = read_rows(Path(run_dir, "progress.txt"))
    except (OSError, UserError):
        return Progress()
    returns = [number for number in rows.returns() if number is not None and not isnan(number)]
    return Progress(rows.epochs, returns[-1] if returns else None)
