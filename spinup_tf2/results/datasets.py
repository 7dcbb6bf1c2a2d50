"""Reads the results of experiments: the rows of their runs as pandas DataFrames."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Callable, Iterator, Sequence
from io import StringIO
from typing import TYPE_CHECKING

import numpy as np

from spinup_tf2.errors import UserError
from spinup_tf2.files.printing import print_safely
from spinup_tf2.files.run_directory import runs_aside
from spinup_tf2.results.reading import env_name, name_in, read_config, settings, without_env
from spinup_tf2.results.rows import PERFORMANCE, read_rows
from spinup_tf2.results.walking import walk

if TYPE_CHECKING:
    import pandas as pd

# pandas is imported where it is used, so that --help does not have to wait for it.

_RULE_WIDTH = 50

TESTED = PERFORMANCE[0]


class NoDirectory(UserError):
    """Raised if a directory does not exist."""


class NoResults(UserError):
    """Raised if there is nothing to plot (yet)."""


def get_datasets(logdir: str | os.PathLike, condition: str | None = None) -> list[pd.DataFrame]:
    """Read every run at or below `logdir`.

    Args:
        logdir: A directory. Each directory with a progress.txt is a run.
        condition: Name of the runs in the legend, instead of their exp_name.

    Returns:
        A list of DataFrames, one per run, with the columns of progress.txt, and `Unit` (number of
        the run), `Condition1` (its experiment), `Condition2` (experiment and number) and, if there
        are returns, `Performance` (AverageTestEpRet, or else AverageEpRet). `attrs` holds the run's
        directory (`path`), the id of its environment (`env`, "" if unknown), its `settings` as
        text, whether it has test returns (`tested`), and whether its name is a title that was given
        (`titled`). Runs and rows that cannot be read are reported and left out.
    """
    return _read_runs(((run_dir, condition) for run_dir in run_dirs(logdir)), print_safely)


def run_dirs(logdir: str | os.PathLike) -> Iterator[str]:
    """Yield the directories at or below `logdir` that hold a progress.txt, in order, each once."""
    for root, _, files in walk(logdir):
        if "progress.txt" in files:
            yield root


def _read_runs(runs, report):
    """Return a DataFrame for each of the runs, given as (directory, title), that can be read."""
    datasets = []
    for run_dir, title in runs:
        config = _config(run_dir, report)
        condition1 = title or name_in(config, "exp_name") or "exp"
        data = _read_progress(os.path.join(run_dir, "progress.txt"), report)
        if data is None:
            continue
        unit = len(datasets)
        data["Unit"] = unit
        data["Condition1"] = condition1
        data["Condition2"] = f"{condition1}-{unit}"
        own = [column for column in PERFORMANCE if column in data]
        filled = [column for column in own if data[column].notna().any()]
        for column in (filled or own)[:1]:
            data["Performance"] = data[column]
        env = env_name(config, run_dir)
        data.attrs.update(
            path=run_dir,
            env=env,
            settings=settings(config),
            tested=filled[:1] == [TESTED],
            titled=title is not None,
        )
        datasets.append(data)
    return _alike(datasets, report)


def _alike(datasets, report):
    """Remove Performance from runs without test returns if others of their experiment have them.

    Otherwise returns of test episodes and of training would be mixed in one curve.
    """
    tested = {run["Condition1"].iloc[0] for run in datasets if run.attrs["tested"]}
    for run in datasets:
        name = run["Condition1"].iloc[0]
        if TESTED in run and not run.attrs["tested"] and name in tested:
            run["Performance"] = math.nan
            report(
                f"Left out of Performance: {run.attrs['path']} has no test episodes yet, and other "
                f"runs of {name} are shown by theirs."
            )
    return datasets


def _config(run_dir, report):
    """Return the run's config.json; report it and return an empty dict if it cannot be read."""
    try:
        return read_config(run_dir)
    except FileNotFoundError:
        report(f"No file named config.json in {run_dir}")
    except (OSError, ValueError):
        report(f"Could not read from {os.path.join(run_dir, 'config.json')}")
    return {}


def _read_progress(path, report):
    """Return the rows of a progress.txt; report why and return None if there are none."""
    import pandas as pd

    try:
        rows = read_rows(path)
        if not rows.lines:
            report(f"Could not read from {path} (it has no rows yet)")
            return None
        text = "\n".join(["\t".join(rows.columns), *rows.lines])
        data = pd.read_table(StringIO(text), index_col=False, quoting=csv.QUOTE_NONE)
        data, texts = _numbers(data)
    except (OSError, ValueError) as error:  # pandas' ParserError and EmptyDataError are ValueErrors
        report(f"Could not read from {path} ({error})")
        return None
    if texts:
        rows.damage["with text in the place of a number"] = texts
    if rows.damage:
        report(rows.report(path))
    if data.empty:
        report(f"Could not read from {path} (it has no rows yet)")
        return None
    return data


def _numbers(data):
    """Remove rows with text in columns that are mostly numbers; return the rest and their count."""
    import pandas as pd

    damaged = pd.Series(False, index=data.index)
    columns = {}
    for column in data.columns[[dtype.kind not in "iufb" for dtype in data.dtypes]]:
        filled = data[column].notna()
        text = data[column].map(_is_text).astype(bool) & filled
        if text.sum() < (filled & ~text).sum():
            damaged |= text
            columns[column] = numbers(data[column])
    return data.assign(**columns)[~damaged].reset_index(drop=True), int(damaged.sum())


def _is_text(entry):
    try:
        float(entry)
    except OverflowError:  # a large integer
        return False
    except (TypeError, ValueError):
        return True
    return False


def get_all_datasets(
    all_logdirs: Sequence[str],
    legend: Sequence[str] | None = None,
    select: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    *,
    report: Callable[[str], None] = print_safely,
) -> list[pd.DataFrame]:
    """Read the runs of several experiments.

    Args:
        all_logdirs: Directories, or prefixes of directories: `data/ppo` stands for every directory
            in `data` whose name begins with "ppo". With a trailing slash, `data/ppo/` is only that
            directory. A directory that is found twice counts once. (Here and below, a single string
            may be given instead of a list.)
        legend: A title for each of the directories found.
        select: Strings that the path of a run's directory must all contain.
        exclude: Strings of which the path of a run's directory must contain none.
        report: Function that is called with lines about what is read and what cannot be read;
            prints by default.

    Returns:
        A list of DataFrames as from `get_datasets`.

    Raises:
        NoResults: None of the directories holds a run with rows, or none remains after selection.
        UserError: There is no such directory, or the number of titles is wrong.
    """
    logdirs = find_logdirs(all_logdirs, select, exclude)
    legend = _several(legend)
    report("Plotting from...\n" + "=" * _RULE_WIDTH + "\n")
    for logdir in logdirs:
        report(logdir)
    report("\n" + "=" * _RULE_WIDTH)

    if legend and len(legend) != len(logdirs):  # directories without a run need no title
        logdirs = {logdir: found for logdir, found in logdirs.items() if found}
    if legend and len(legend) != len(logdirs):
        raise UserError(
            "Must give a legend title for each set of experiments. "
            f"(There are {len(legend)} titles for {len(logdirs)} directories.)"
        )
    titles = legend or [None] * len(logdirs)
    runs = {
        (os.path.realpath(run_dir), title): (run_dir, title)
        for found, title in zip(logdirs.values(), titles, strict=True)
        for run_dir in found
    }
    datasets = _read_runs(runs.values(), report)
    if not datasets:
        aside = "".join(map(runs_aside, logdirs))
        raise NoResults(f"No run with results (progress.txt) in {', '.join(logdirs)}.{aside}")
    return datasets


def find_logdirs(
    all_logdirs: Sequence[str],
    select: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
) -> dict[str, list[str]]:
    """Return the directories for the arguments of `get_all_datasets`, with their runs.

    Each directory is listed once. Those whose runs are all excluded are left out.
    """

    def wanted(path):
        selected = all(text in path for text in _several(select))
        return selected and not any(text in path for text in _several(exclude))

    found = [logdir for given in _several(all_logdirs) for logdir in _resolve(given)]
    logdirs = {}
    for logdir in {os.path.realpath(logdir): logdir for logdir in found}.values():
        runs = [*run_dirs(logdir)]
        left = [run_dir for run_dir in runs if wanted(run_dir)]
        if left or (not runs and wanted(logdir)):
            logdirs[logdir] = left
    if not logdirs:
        raise NoResults("No directory is left to plot after --select and --exclude.")
    return logdirs


def _several(texts):
    """Return a list of strings; a single string becomes a list of one, and None an empty list."""
    if isinstance(texts, str | os.PathLike):
        texts = [texts]
    return [os.fspath(text) for text in texts or ()]


def _resolve(given):
    """Return the directories that an argument stands for."""
    parent, prefix = os.path.split(given)
    if prefix in ("", ".", ".."):
        if not os.path.isdir(given):
            raise NoDirectory(f"There is no directory {given}.")
        return [given]
    if not os.path.isdir(parent or "."):
        raise NoDirectory(f"There is no directory {parent}, so nothing to plot for {given}.")
    names = sorted(entry.name for entry in os.scandir(parent or ".") if entry.is_dir())
    matches = [os.path.join(parent, name) for name in names if name.startswith(prefix)]
    if not matches:
        raise NoDirectory(
            f"No directory in {parent or 'the current directory'} begins with {prefix!r}; there is "
            f"{', '.join(names) or 'none at all'}."
        )
    return matches


def numbers(column: pd.Series) -> np.ndarray:
    """Return a column of progress.txt as floats [rows]; NaN for anything but finite numbers."""
    if column.dtype.kind in "iufb":
        values = column.to_numpy(float, na_value=math.nan)
        return np.where(np.isfinite(values), values, np.nan)
    return np.array([_number(entry) for entry in column], float)


def _number(entry):
    try:
        number = float(entry)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def named_by_env(data: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Return the runs with the environments removed from the names of their experiments.

    A grid names its experiments ppo_envcartpole-v1 and ppo_envacrobot-v1; if each environment has a
    panel or row of its own, both are `ppo`. Names are kept if two experiments in one environment
    would get the same name, and if they are titles that were given.
    """

    def short_name(run):
        name = run["Condition1"].iloc[0]
        return name if run.attrs.get("titled") else without_env(name, run.attrs.get("env", ""))

    long = {(run.attrs.get("env", ""), run["Condition1"].iloc[0]) for run in data}
    if len({(run.attrs.get("env", ""), short_name(run)) for run in data}) < len(long):
        return list(data)
    renamed = []
    for run in data:
        name, unit = short_name(run), run["Unit"].iloc[0]
        renamed.append(run.assign(Condition1=name, Condition2=f"{name}-{unit}"))
    return renamed
