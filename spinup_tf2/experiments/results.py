"""The results of experiments: the rows of their runs, as pandas has them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING

from spinup_tf2.errors import UserError, printable
from spinup_tf2.runs.files import read_json, read_text
from spinup_tf2.runs.printing import print_safely

if TYPE_CHECKING:
    import pandas as pd

# pandas is imported where it is used: --help does not wait for it.

PERFORMANCE = ("AverageTestEpRet", "AverageEpRet")  # the first of them that a run has

_RULE_WIDTH = 50
_LONGEST_NAME = 255  # characters, as of a file


def get_datasets(logdir: str | os.PathLike, condition: str | None = None) -> list[pd.DataFrame]:
    """Read every run at or below `logdir`.

    Args:
        logdir: A directory; each directory with a progress.txt in it is a run.
        condition: What the runs are called in the legend, instead of their exp_name.

    Returns:
        A list of DataFrames, one for each run: the columns of progress.txt, and `Unit` (the number
        of the run), `Condition1` (its experiment), `Condition2` (experiment and number) and, if
        there is a return, `Performance` (AverageTestEpRet, or else AverageEpRet). What cannot be
        read is reported and left out.
    """
    return _read_runs((run_dir, condition) for run_dir in _run_dirs(logdir))


def _run_dirs(logdir):
    for root, directories, files in os.walk(logdir):
        directories.sort()
        if "progress.txt" in files:
            yield root


def _read_runs(runs):
    """A DataFrame for each of the runs, (directory, title), that can be read."""
    datasets = []
    for run_dir, title in runs:
        condition1 = title or _exp_name(run_dir) or "exp"
        data = _read_progress(os.path.join(run_dir, "progress.txt"))
        if data is None:
            continue
        unit = len(datasets)
        data["Unit"] = unit
        data["Condition1"] = condition1
        data["Condition2"] = f"{condition1}-{unit}"
        for column in PERFORMANCE:
            if column in data:
                data["Performance"] = data[column]
                break
        data.attrs["path"] = run_dir
        datasets.append(data)
    return datasets


def _exp_name(run_dir):
    """The exp_name in the run's config.json; None if it does not say."""
    path = os.path.join(run_dir, "config.json")
    try:
        config = read_json(path)
        return printable(str(config.get("exp_name") or "")[:_LONGEST_NAME])
    except FileNotFoundError:
        print_safely(f"No file named config.json in {run_dir}")
    except (OSError, ValueError, AttributeError):
        print_safely(f"Could not read from {path}")
    return None


def _read_progress(path):
    """The rows of a progress.txt; None, and a message that says why, if there are none."""
    import pandas as pd

    try:
        text = read_text(path)
        complete, _, unfinished = text.rpartition("\n")
        if unfinished:
            # The run may be writing it just now, and half a number is still a number.
            print_safely(f"Ignoring the unfinished last line of {path}")
        data = pd.read_table(StringIO(complete), index_col=False)
    except (OSError, ValueError) as error:  # pandas' ParserError and EmptyDataError are ValueErrors
        print_safely(f"Could not read from {path} ({error})")
        return None
    if data.empty:
        print_safely(f"Could not read from {path} (it has no rows yet)")
        return None
    return data


def get_all_datasets(
    all_logdirs: Sequence[str],
    legend: Sequence[str] | None = None,
    select: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
) -> list[pd.DataFrame]:
    """Read the runs of several experiments.

    Args:
        all_logdirs: Directories, or beginnings of the names of directories: `data/ppo` stands for
            every directory in `data` whose name begins with "ppo". With a slash at its end,
            `data/ppo/` is only that directory. What is found twice counts once.
        legend: A title for each of the directories that these stand for.
        select: Keep only directories whose path contains all of these strings.
        exclude: Leave out directories whose path contains any of these strings.

    Returns:
        A list of DataFrames as from `get_datasets`.
    """
    found = [logdir for given in all_logdirs for logdir in _resolve(given)]
    logdirs = [*{os.path.realpath(logdir): logdir for logdir in found}.values()]
    if select:
        logdirs = [logdir for logdir in logdirs if all(text in logdir for text in select)]
    if exclude:
        logdirs = [logdir for logdir in logdirs if not any(text in logdir for text in exclude)]
    if not logdirs:
        raise UserError("No directory is left to plot after --select and --exclude.")

    print_safely("Plotting from...\n" + "=" * _RULE_WIDTH + "\n")
    for logdir in logdirs:
        print_safely(logdir)
    print_safely("\n" + "=" * _RULE_WIDTH)

    if legend and len(legend) != len(logdirs):
        raise UserError(
            "Must give a legend title for each set of experiments. "
            f"(There are {len(legend)} titles for {len(logdirs)} directories.)"
        )
    titles = legend or [None] * len(logdirs)
    runs = {
        (os.path.realpath(run_dir), title): (run_dir, title)
        for logdir, title in zip(logdirs, titles, strict=True)
        for run_dir in _run_dirs(logdir)
    }
    datasets = _read_runs(runs.values())
    if not datasets:
        raise UserError(f"No run with results (progress.txt) in {', '.join(logdirs)}.")
    return datasets


def _resolve(given):
    """The directories that an argument stands for."""
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
