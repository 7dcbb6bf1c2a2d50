"""Tables of the final performance of experiments, as in papers."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spinup_tf2.errors import UserError
from spinup_tf2.files.printing import print_safely
from spinup_tf2.files.run_directory import atomic_output
from spinup_tf2.results.datasets import NoResults, named_by_env, numbers
from spinup_tf2.results.look import LABELS, check_parent
from spinup_tf2.results.statistics import (
    Errorbar,
    Estimator,
    check_statistics,
    summarize,
    tail_mean,
)

if TYPE_CHECKING:
    import pandas as pd

FORMATS = (".md", ".csv")

_STEPS = "TotalEnvInteracts"

_HEADINGS = {"sd": "SD", "se": "SE", "ci": "95 % CI"}


def final_performance(
    data: Sequence[pd.DataFrame],
    values: str | Sequence[str] = "Performance",
    estimator: Estimator = "mean",
    errorbar: Errorbar | None = None,
    *,
    report: Callable[[str], None] = print_safely,
) -> pd.DataFrame:
    """Compute the final performance of experiments.

    The final performance of a run is the mean over the last tenth of its rows (only rows with a
    number count, and at least one).

    Args:
        data: Runs, as returned by `get_datasets`.
        values: Column, or columns, of the runs.
        estimator: Estimator that combines the runs of an experiment in an environment.
        errorbar: Interval around the estimate; see `summarize`. Unlike the bands of a figure, it is
            not clipped to the range of the runs.
        report: Function that is called with a line for each run without numbers, which is left out,
            and for experiments whose runs end at different numbers of steps; prints by default.

    Returns:
        A DataFrame with a row for each value, environment and experiment, and the columns `value`,
        `environment`, `experiment`, `estimate`, `low` and `high` (NaN for one seed), `seeds`.

    Raises:
        UserError: No run has numbers in these columns.
    """
    import pandas as pd

    errorbar = check_statistics(estimator, errorbar)
    values = [values] if isinstance(values, str) else list(dict.fromkeys(values))
    data = named_by_env(data)
    _warn_of_ends(data, report)
    rows = []
    for value in values:
        groups: dict[tuple[str, str], list[float]] = {}
        left_out = []
        for run in data:
            final = tail_mean(numbers(run[value])) if value in run else math.nan
            if math.isfinite(final):
                key = run.attrs.get("env", ""), run["Condition1"].iloc[0]
                groups.setdefault(key, []).append(final)
            else:
                left_out.append(run.attrs.get("path") or run["Condition2"].iloc[0])
        if not groups:
            raise NoResults(f"There are no numbers in column {value!r} to make a table of.")
        for path in left_out:
            report(f"Left out of the table: {path} has no numbers in column {value!r}.")
        for (env, name), finals in sorted(groups.items()):
            summary = summarize(np.array(finals)[:, None], estimator, errorbar)
            estimate, low, high = (float(array[0]) for array in summary)
            rows.append((value, env, name, estimate, low, high, len(finals)))
    columns = ["value", "environment", "experiment", "estimate", "low", "high", "seeds"]
    return pd.DataFrame(rows, columns=columns)


def _warn_of_ends(data, report):
    """Report experiments whose runs end at different numbers of steps."""
    ends: dict[tuple[str, str], set[float]] = {}
    for run in data:
        steps = numbers(run[_STEPS]) if _STEPS in run else np.array([])
        key = run["Condition1"].iloc[0], run.attrs.get("env", "")
        ends.setdefault(key, set()).update(steps[np.isfinite(steps)][-1:])
    for (name, env), steps in ends.items():
        if len(steps) > 1:
            report(
                f"Warning: runs of {name} in {env or 'an unknown environment'} end at "
                f"{min(steps):,.0f} to {max(steps):,.0f} steps; each counts with its own end."
            )


def markdown(
    table: pd.DataFrame, estimator: Estimator = "mean", errorbar: Errorbar | None = None
) -> str:
    """Format the result of `final_performance` in Markdown, with a table for each value."""
    errorbar = check_statistics(estimator, errorbar)
    name = "IQM" if estimator == "iqm" else estimator
    tables = []
    for value, rows in table.groupby("value", sort=False):
        head = ["Environment", "Experiment", f"{LABELS.get(value, value)} ({name})"]
        head += [*([] if errorbar == "none" else [_HEADINGS[errorbar]]), "Seeds"]
        lines = [head]
        for row in rows.itertuples():
            cells = [row.environment or "unknown", row.experiment, _short(row.estimate)]
            if errorbar != "none":
                cells.append(_interval(row, errorbar))
            lines.append([str(cell).replace("|", "\\|") for cell in [*cells, row.seeds]])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        texts = [
            "| "
            + " | ".join(
                cell.ljust(width) if i < 2 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
            )
            + " |"
            for cells in lines
        ]
        rule = [f":{'-' * (n - 1)}" if i < 2 else f"{'-' * (n - 1)}:" for i, n in enumerate(widths)]
        tables.append("\n".join([texts[0], f"| {' | '.join(rule)} |", *texts[1:]]) + "\n")
    return "\n".join(tables)


def _interval(row, errorbar):
    if not math.isfinite(row.low):
        return "-"
    if errorbar == "ci":
        return f"[{_short(row.low)}, {_short(row.high)}]"
    return _short(row.high - row.estimate)


def _short(number):
    """Format a number with four digits, or all digits before the point if there are more."""
    return f"{number:.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def check_table_path(path: str | os.PathLike) -> None:
    """Raise UserError, before any work is done, if no table can be written to this file."""
    if Path(path).suffix.lower() not in FORMATS:
        raise UserError(
            f"Cannot write a table to {path}: its name must end in .md (Markdown) or .csv. "
            "(Directories with runs come before --table.)"
        )
    check_parent(path)


def write_table(
    table: pd.DataFrame, path: str | os.PathLike, estimator: Estimator, errorbar: Errorbar
) -> None:
    """Write the result of `final_performance`: .md as Markdown, .csv with all digits."""
    if Path(path).suffix.lower() == ".md":
        text = markdown(table, estimator, errorbar)
    else:
        table = table.assign(estimator=estimator, errorbar=errorbar)
        text = table.to_csv(index=False, lineterminator="\n")
    try:
        with atomic_output(path) as temporary:
            Path(temporary).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"Cannot write the table to {path}: {error}.") from error
