"""Reads the results of experiments: the rows of their runs as pandas DataFrames."""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING

import numpy as np

from spinup_tf2.errors import UserError
from spinup_tf2.files.printing import print_safely
from spinup_tf2.results.reading import (
    NO_NUMBER,
    PERFORMANCE,
    env_name,
    name_in,
    read_config,
    read_rows,
    settings,
    walk,
)

if TYPE_CHECKING:
    import pandas as pd

# pandas is imported where it is used, so that --help does not have to wait for it.

TESTED = PERFORMANCE[0]


def numbers(column: pd.Series) -> np.ndarray:
    """Return a column of progress.txt as floats [rows]; NaN for anything but finite numbers."""
    values = _to_numeric(column).to_numpy(float, na_value=math.nan)
    return np.where(np.isfinite(values), values, math.nan)


def _to_numeric(column):
    import pandas as pd

    if column.dtype == object:  # it may hold integers that are too large for a float
        column = column.astype(str)
    return pd.to_numeric(column, errors="coerce")


def _read_progress(path):
    """Return the rows of a progress.txt; report why and return None if there are none."""
    import pandas as pd

    try:
        rows = read_rows(path)
        text = "\n".join(["\t".join(rows.columns), *rows.lines])
        data = pd.read_table(StringIO(text), index_col=False, quoting=csv.QUOTE_NONE)
    except pd.errors.EmptyDataError:
        data = pd.DataFrame()
    except (OSError, ValueError) as error:  # pandas' ParserError is a ValueError
        print_safely(f"Could not read from {path} ({error})")
        return None
    sound = _without_texts(data)
    if len(sound) < len(data):
        rows.damage[NO_NUMBER] = len(data) - len(sound)
    if rows.damage and rows.lines:
        print_safely(rows.report(path))
    if sound.empty:
        print_safely(f"Could not read from {path} (it has no rows yet)")
        return None
    return sound


def _without_texts(data):
    """Return the rows that have no text in columns that are mostly numbers."""
    import pandas as pd

    damaged = pd.Series(False, index=data.index)
    for column in data.select_dtypes(exclude=["number", "bool"]):
        filled = data[column].notna()
        text = filled & _to_numeric(data[column]).isna()
        if text.sum() < (filled & ~text).sum():
            data[column] = numbers(data[column])
            damaged |= text
    return data[~damaged].reset_index(drop=True)


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
    return _read_runs((run_dir, condition) for run_dir in _run_dirs(logdir))


def _run_dirs(logdir):
    return [root for root, _, files in walk(logdir) if "progress.txt" in files]


def _read_runs(runs):
    """Return a DataFrame for each of the runs, given as (directory, title), that can be read."""
    datasets = []
    for run_dir, title in runs:
        config = {}
        try:
            config = read_config(run_dir)
        except FileNotFoundError:
            print_safely(f"No file named config.json in {run_dir}")
        except (OSError, ValueError):
            print_safely(f"Could not read from {os.path.join(run_dir, 'config.json')}")
        data = _read_progress(os.path.join(run_dir, "progress.txt"))
        if data is None:
            continue
        unit, name = len(datasets), title or name_in(config, "exp_name") or "exp"
        data = data.assign(Unit=unit, Condition1=name, Condition2=f"{name}-{unit}")
        own = [column for column in PERFORMANCE if column in data]
        filled = [column for column in own if data[column].notna().any()]
        for column in (filled or own)[:1]:
            data["Performance"] = data[column]
        data.attrs.update(
            path=run_dir,
            env=env_name(config, run_dir),
            settings=settings(config),
            tested=filled[:1] == [TESTED],
            titled=title is not None,
        )
        datasets.append(data)
    # Returns of test episodes and of training must not be mixed in one curve.
    tested = {experiment(run) for run in datasets if run.attrs["tested"]}
    for run in datasets:
        if TESTED in run and not run.attrs["tested"] and experiment(run) in tested:
            run["Performance"] = math.nan
            print_safely(
                f"Left out of Performance: {run.attrs['path']} has no test episodes yet, and other "
                f"runs of {experiment(run)} are shown by theirs."
            )
    return datasets


def experiment(run: pd.DataFrame) -> str:
    """Return the name of a run's experiment."""
    return run["Condition1"].iloc[0]


def env_of(run: pd.DataFrame) -> str:
    """Return the id of a run's environment; "" if it is unknown."""
    return run.attrs.get("env", "")


def get_all_datasets(
    all_logdirs: Sequence[str],
    legend: Sequence[str] | None = None,
    select: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
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

    Returns:
        A list of DataFrames as from `get_datasets`.

    Raises:
        UserError: There is no such directory or no run with rows, or the number of titles is wrong.
    """
    select, exclude, legend = map(_several, (select, exclude, legend))

    def wanted(path):
        return all(text in path for text in select) and not any(text in path for text in exclude)

    found = [logdir for given in _several(all_logdirs) for logdir in matching_directories(given)]
    logdirs = {}
    for logdir in {os.path.realpath(logdir): logdir for logdir in found}.values():
        runs = _run_dirs(logdir)
        left = [run_dir for run_dir in runs if wanted(run_dir)]
        if left or (not runs and wanted(logdir)):
            logdirs[logdir] = left
    if not logdirs:
        raise UserError("No directory is left to plot after --select and --exclude.")
    rule = "=" * 50
    print_safely("\n".join(["Plotting from...", rule, "", *logdirs, "", rule]))

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
    datasets = _read_runs(runs.values())
    if not datasets:
        raise UserError(f"No run with results (progress.txt) in {', '.join(logdirs)}.")
    return datasets


def _several(texts):
    """Return a list of strings; a single string becomes a list of one, and None an empty list."""
    if isinstance(texts, str | os.PathLike):
        texts = [texts]
    return [os.fspath(text) for text in texts or ()]


def matching_directories(given: str) -> list[str]:
    """Return the directories that an argument stands for; UserError if there are none."""
    parent, prefix = os.path.split(given)
    if prefix in ("", ".", ".."):
        if not os.path.isdir(given):
            raise UserError(f"There is no directory {given}.")
        return [given]
    if not os.path.isdir(parent or "."):
        raise UserError(f"There is no directory {parent}, so nothing to plot for {given}.")
    names = sorted(entry.name for entry in os.scandir(parent or ".") if entry.is_dir())
    matches = [os.path.join(parent, name) for name in names if name.startswith(prefix)]
    if not matches:
        raise UserError(
            f"No directory in {parent or 'the current directory'} begins with {prefix!r}; there is "
            f"{', '.join(names) or 'none at all'}."
        )
    return matches


def named_by_env(data: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Return the runs with the environments removed from the names of their experiments.

    A grid names its experiments ppo_envcartpole-v1 and ppo_envacrobot-v1; if each environment has a
    panel or row of its own, both are `ppo`. Names are kept if two experiments in one environment
    would get the same name, and if they are titles that were given.
    """
    long = [(env_of(run), experiment(run)) for run in data]
    short = [
        (env, name if run.attrs.get("titled") else without_env(name, env))
        for run, (env, name) in zip(data, long, strict=True)
    ]
    if len({*short}) < len({*long}):
        return list(data)
    return [
        run.assign(Condition1=name, Condition2=f"{name}-{run['Unit'].iloc[0]}")
        for run, (_, name) in zip(data, short, strict=True)
    ]


def without_env(exp_name: str, env: str) -> str:
    """Remove the part that a grid over environments has added to the name of an experiment.

    `ppo_envcartpole-v1` becomes `ppo` if the environment is CartPole-v1.
    """
    slug = re.escape(re.sub(r"[^-_a-z0-9]", "-", env.lower()))
    shorter = re.sub(rf"_(env-?)?{slug}(?=_|$)", "", exp_name, flags=re.IGNORECASE)
    return shorter or exp_name
