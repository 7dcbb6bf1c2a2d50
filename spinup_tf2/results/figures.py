"""The look of figures and tables (colors, panels, ticks, legends), and writing them to files.

matplotlib and seaborn are imported where they are used, so that --help is fast.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spinup_tf2.errors import UserError
from spinup_tf2.files.disk import atomic_output
from spinup_tf2.results.statistics import Errorbar, Estimator, check_statistics

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
TABLE_FORMATS = (".md", ".csv")

LABELS = {
    "TotalEnvInteracts": "Environment steps",
    "Performance": "Average return",
    "AverageEpRet": "Average return",
    "AverageTestEpRet": "Average test return",
}

_RC = {
    "text.parse_math": False,  # names are shown literally, even with dollar signs
    "pdf.fonttype": 42,  # TrueType, which journals require
    "svg.hashsalt": "spinup_tf2",  # makes the files of equal figures equal
    "grid.color": "0.9",
    "axes.edgecolor": "0.6",
    "axes.linewidth": 0.8,
}

_HEADINGS = {"sd": ["SD"], "se": ["SE"], "ci": ["95 % CI"], "none": []}

_ONE_PANEL, _PANEL = (6.4, 4.0), (4.2, 3.2)  # inches
_MOST_IN_A_ROW = 4  # panels
_LETTER, _LINE = 0.1, 0.25  # inches, of a legend

# Values from which ticks are written as 10k or 2M: on the horizontal axis as in Spinning Up; on the
# vertical axis there is room for more digits.
_LARGE_X, _LARGE_Y = 5e3, 1e5


def set_theme(font_scale: float = 1.1) -> None:
    """Make matplotlib draw in our fonts and colors from now on; sizes are relative to seaborn's."""
    import seaborn as sns

    sns.set_theme(style="whitegrid", palette="colorblind", font_scale=font_scale, rc=_RC)


def colors_for(names: Sequence[str]) -> dict[str, Any]:
    """Return a color for each name: from the theme, or evenly spaced hues if those are too few."""
    import seaborn as sns

    enough = len(names) <= len(sns.color_palette())
    return dict(zip(names, sns.color_palette(None if enough else "husl", len(names)), strict=True))


def panels(figure: Figure, number: int) -> list[Axes]:
    """Divide a figure into a number of panels, and set its size accordingly."""
    rows = math.ceil(number / _MOST_IN_A_ROW)
    columns = math.ceil(number / rows)  # makes rows as equal as possible: six are three and three
    width, height = _ONE_PANEL if number == 1 else _PANEL
    figure.set_size_inches(columns * width, rows * height)
    return [figure.add_subplot(rows, columns, i + 1) for i in range(number)]


def dress(ax: Axes, xaxis: str, value: str) -> None:
    """Label the axes for columns of progress.txt, with large ticks as 200k and 1M."""
    from matplotlib.ticker import EngFormatter

    ax.set(xlabel=LABELS.get(xaxis, xaxis), ylabel=LABELS.get(value, value))
    for axis, large in ((ax.xaxis, _LARGE_X), (ax.yaxis, _LARGE_Y)):
        if max(map(abs, axis.get_data_interval()), default=0) > large:
            axis.set_major_formatter(EngFormatter(sep=""))


def legend_above(where: Axes | Figure, lines: Mapping[str, Artist]) -> None:
    """Put a legend above axes, or above all panels of a figure, in as many columns as fit.

    The figure grows by the height of the legend. `lines` has a line for each name.
    """
    figure = where.figure
    position = dict(loc="lower center", bbox_to_anchor=(0.5, 1))
    if where is figure:
        position = dict(loc="outside upper center")
    entry = _LETTER * (6 + max(map(len, lines)))  # a line, a gap and a name
    columns = max(1, min(len(lines), int(figure.get_figwidth() / entry)))
    where.legend(lines.values(), lines.keys(), ncols=columns, frameon=False, **position)
    figure.set_figheight(figure.get_figheight() + _LINE * math.ceil(len(lines) / columns))


def check_path(path: str | os.PathLike, formats: Sequence[str] = FORMATS) -> None:
    """Raise UserError, before any work is done, if the user's file cannot be written."""
    path = Path(path)
    possible = path.absolute().parent.is_dir() and not path.is_dir()
    if not possible or path.suffix.lower() not in formats:
        raise UserError(
            f"Cannot write to {path}: it must be a file in a directory that exists, and its name "
            f"ends in {' or '.join(formats)}."
        )


def save_figure(figure: Figure, path: str | os.PathLike) -> None:
    """Write a figure atomically, in the format of the file's suffix; UserError if that fails."""
    kind = Path(path).suffix.lower().removeprefix(".")
    # Without dates, equal figures give equal files.
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with atomic_output(path) as temporary:
        figure.savefig(temporary, format=kind, dpi=200, metadata=metadata)


def markdown(
    table: pd.DataFrame, estimator: Estimator = "mean", errorbar: Errorbar | None = None
) -> str:
    """Format the result of `final_performance` in Markdown, with a table for each value."""
    errorbar = check_statistics(estimator, errorbar)
    name = "IQM" if estimator == "iqm" else estimator
    tables = []
    for value, rows in table.groupby("value", sort=False):
        label = f"{LABELS.get(value, value)} ({name})"
        lines = [["Environment", "Experiment", label, *_HEADINGS[errorbar], "Seeds"]]
        for row in rows.itertuples():
            interval = [] if errorbar == "none" else [_interval(row, errorbar)]
            cells = [row.environment or "unknown", row.experiment, _short(row.estimate)]
            lines.append([*cells, *interval, str(row.seeds)])
        lines = [[cell.replace("|", "\\|") for cell in cells] for cells in lines]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        rule = [":" + "-" * (n - 1) for n in widths[:2]] + ["-" * (n - 1) + ":" for n in widths[2:]]
        lines.insert(1, rule)
        for cells in lines:
            aligned = [
                cell.ljust(n) if i < 2 else cell.rjust(n)
                for i, (cell, n) in enumerate(zip(cells, widths, strict=True))
            ]
            tables.append(f"| {' | '.join(aligned)} |\n")
        tables.append("\n")
    return "".join(tables[:-1])


def _interval(row, errorbar):
    if not math.isfinite(row.low):
        return "-"
    if errorbar == "ci":
        return f"[{_short(row.low)}, {_short(row.high)}]"
    return _short(row.high - row.estimate)


def _short(number):
    """Format a number with four digits, or all digits before the point if there are more."""
    return f"{number:.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def write_table(
    table: pd.DataFrame, path: str | os.PathLike, estimator: Estimator, errorbar: Errorbar
) -> None:
    """Write the result of `final_performance`: .md as Markdown, .csv with all digits."""
    with atomic_output(path) as temporary:
        if Path(path).suffix.lower() == ".md":
            text = markdown(table, estimator, errorbar)
            Path(temporary).write_text(text, encoding="utf-8")
        else:
            table = table.assign(estimator=estimator, errorbar=errorbar)
            table.to_csv(temporary, index=False, lineterminator="\n")
