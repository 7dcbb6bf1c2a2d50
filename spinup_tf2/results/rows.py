"""Reads the rows of a progress.txt, even if some are damaged, without pandas."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field

from spinup_tf2.files.run_directory import read_text

# Spinning Up's Performance is the first of these columns that exists.
PERFORMANCE = ("AverageTestEpRet", "AverageEpRet")

UNFINISHED = "unfinished at the end"


@dataclass
class Rows:
    """The contents of a progress.txt.

    Attributes:
        columns: Names of the columns, from the first line; empty if that is missing or incomplete.
        lines: The rows as text, with as many fields as there are columns.
        damage: The number of rows that were left out, for each kind of damage.
    """

    columns: list[str]
    lines: list[str]
    damage: dict[str, int] = field(default_factory=dict)

    @property
    def epochs(self) -> int:
        """Number of completed epochs. A damaged row counts, unless it is unfinished."""
        damaged = sum(number for kind, number in self.damage.items() if kind != UNFINISHED)
        return len(self.lines) + damaged

    def returns(self) -> list[float | None]:
        """Return the mean return in each line: NaN if it is blank, None if it is not a number."""
        own = [self.columns.index(name) for name in PERFORMANCE if name in self.columns]
        fields = [line.split("\t") for line in self.lines]
        filled = [i for i in own if any(line[i] for line in fields)]
        return [_number(line[i]) for i in (filled or own)[:1] for line in fields]

    def report(self, path: str | os.PathLike) -> str:
        """Return a sentence on the damaged rows of the file at `path`; "" if there are none."""
        number = sum(self.damage.values())
        if not number:
            return ""
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.damage.items())
        return f"Skipped {number} damaged row{'s' if number > 1 else ''} of {path}: {kinds}"


def read_rows(path: str | os.PathLike) -> Rows:
    """Read a progress.txt, even while a run is writing it.

    A line without a line break is left out, as half a number is still a number, and so are lines
    with more or fewer fields than the first line. Bytes that are not text damage only their row.

    Raises:
        OSError, UserError: As in `read_text`.
    """
    lines = read_text(path, errors="replace").removeprefix("\ufeff").split("\n")
    unfinished = lines.pop()
    lines = [line.removesuffix("\r") for line in lines]
    lines = [line for line in lines if line.strip(" ")]
    if not lines:
        return Rows([], [])
    header, *body = lines
    tabs = header.count("\t")
    sound = [line for line in body if line.count("\t") == tabs and "\r" not in line]
    rows = Rows(header.split("\t"), sound)
    if len(sound) < len(body):
        rows.damage["with a wrong number of fields"] = len(body) - len(sound)
    if unfinished:
        rows.damage[UNFINISHED] = 1
    return rows


def _number(text):
    try:
        return float(text or math.nan)
    except ValueError:
        return None
