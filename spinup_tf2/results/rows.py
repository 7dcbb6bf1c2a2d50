"""The lines of a progress.txt, sound and damaged. Nothing here waits for pandas."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field

from spinup_tf2.runs.files import read_text

# What Spinning Up calls Performance: the first of these columns that is there.
PERFORMANCE = ("AverageTestEpRet", "AverageEpRet")

UNFINISHED = "unfinished at the end"


@dataclass
class Rows:
    """What a progress.txt holds.

    Attributes:
        columns: The names in its first line; none if that is not there or not complete.
        lines: The rows, as text, with as many fields as there are columns.
        damage: {what is wrong: number of rows that have been left out for it}
    """

    columns: list[str]
    lines: list[str]
    damage: dict[str, int] = field(default_factory=dict)

    @property
    def epochs(self) -> int:
        """How many epochs are over: a row is complete even if it is damaged."""
        damaged = sum(number for kind, number in self.damage.items() if kind != UNFINISHED)
        return len(self.lines) + damaged

    def returns(self) -> list[float | None]:
        """The return in each of the lines: NaN where it is blank, None where it is no number."""
        own = [self.columns.index(name) for name in PERFORMANCE if name in self.columns]
        fields = [line.split("\t") for line in self.lines]
        filled = [i for i in own if any(line[i] for line in fields)]
        return [_number(line[i]) for i in (filled or own)[:1] for line in fields]

    def report(self, path: str | os.PathLike) -> str:
        """A sentence on the damaged rows of the file at `path`; "" if there are none."""
        number = sum(self.damage.values())
        if not number:
            return ""
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.damage.items())
        return f"Skipped {number} damaged row{'s' if number > 1 else ''} of {path}: {kinds}"


def read_rows(path: str | os.PathLike) -> Rows:
    """Read a progress.txt, also one that a run is writing.

    A line without its end is left out, as half a number is still a number, and so are those with
    more or fewer fields than the first line. Bytes that are no text damage only their own row.

    Raises:
        OSError, UserError: As `read_text`.
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
