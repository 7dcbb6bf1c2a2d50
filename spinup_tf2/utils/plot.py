"""Plot learning curves: `python -m spinup_tf2.run plot LOGDIR ...`.

Curves are averaged over the runs of an experiment (the runs with the same exp_name, or under the
same directory if it is given a legend title); the band is one standard deviation wide to each side.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spinup_tf2.envs.modules import forget_current_directory
from spinup_tf2.errors import UserError, printable
from spinup_tf2.persistence.reading import read_json, read_text

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

# pandas, matplotlib and seaborn are imported where they are used: --help does not wait for them.

DIV_LINE_WIDTH = 50
_MOST_COLUMNS = 6
_LONGEST_NAME = 255  # characters, as of a file
ESTIMATORS = ("mean", "median", "min", "max", "sum", "std")


def _say(text):
    """Print a line in which there may be names that strangers have given."""
    print(printable(text))


# ---------------------------------------------------------------- reading runs


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
        for column in ("AverageTestEpRet", "AverageEpRet"):
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
        _say(f"No file named config.json in {run_dir}")
    except (OSError, ValueError, AttributeError):
        _say(f"Could not read from {path}")
    return None


def _read_progress(path):
    """The rows of a progress.txt; None, and a message that says why, if there are none."""
    import pandas as pd

    try:
        text = read_text(path)
        complete, _, unfinished = text.rpartition("\n")
        if unfinished:
            # The run may be writing it just now, and half a number is still a number.
            _say(f"Ignoring the unfinished last line of {path}")
        data = pd.read_table(StringIO(complete), index_col=False)
    except (OSError, ValueError) as error:  # pandas' ParserError and EmptyDataError are ValueErrors
        _say(f"Could not read from {path} ({error})")
        return None
    if data.empty:
        _say(f"Could not read from {path} (it has no rows yet)")
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

    _say("Plotting from...\n" + "=" * DIV_LINE_WIDTH + "\n")
    for logdir in logdirs:
        _say(logdir)
    _say("\n" + "=" * DIV_LINE_WIDTH)

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


# ---------------------------------------------------------------- drawing


def plot_data(
    data: list[pd.DataFrame] | pd.DataFrame,
    xaxis: str = "TotalEnvInteracts",
    value: str = "Performance",
    condition: str = "Condition1",
    smooth: int = 1,
    **kwargs: Any,
) -> Axes:
    """Draw the curves of one figure.

    Args:
        data: A list of DataFrames as from `get_datasets`, or one of them.
        xaxis: Column for the horizontal axis.
        value: Column for the vertical axis.
        condition: Column that tells the curves apart.
        smooth: Width, in rows, of the centred moving average taken of each run.
        **kwargs: More arguments for `seaborn.lineplot`, such as `ax`.

    Returns:
        The matplotlib axes.
    """
    import pandas as pd
    import seaborn as sns

    runs = data if isinstance(data, list) else [data]
    for column in (xaxis, value):
        if not any(column in run for run in runs):
            ours = {"Unit", "Condition1", "Condition2"}
            columns = dict.fromkeys(
                name for run in runs for name in run.columns if name not in ours
            )
            raise UserError(f"No run has a column {column!r}; there is {', '.join(columns)}.")
    curves = [_curve(run, xaxis, value, smooth) for run in runs]
    curves = pd.concat(curves, ignore_index=True)
    if curves.empty:
        raise UserError(f"There are no numbers to plot in column {value!r} against {xaxis!r}.")

    kwargs = {"errorbar": "sd", "linewidth": 2} | kwargs
    ax = sns.lineplot(data=curves, x=xaxis, y=value, hue=condition, **kwargs)
    if curves[xaxis].max() > 5e3:
        ax.ticklabel_format(style="sci", axis="x", scilimits=(0, 0))
    ax.margins(x=0.02)
    for line in ax.lines:
        if len(line.get_xdata()) == 1:  # a line needs two
            line.set_marker("o")
    if ax.get_legend():
        _legend_above(ax)
    return ax


def _legend_above(ax):
    """Put the legend over the axes, where it covers no curve, in as many columns as fit."""
    import seaborn as sns

    figure = ax.get_figure()
    ax.get_legend().set_in_layout(False)
    figure.draw_without_rendering()  # only then the axes have their size
    available = ax.get_window_extent().width
    place = dict(loc="lower center", bbox_to_anchor=(0.5, 1), title=None, frameon=False)
    for columns in range(min(len(ax.get_legend_handles_labels()[1]), _MOST_COLUMNS), 0, -1):
        sns.move_legend(ax, ncols=columns, **place)
        extent = ax.get_legend().get_window_extent()
        if extent.width <= available:
            break
    else:  # a name that is longer than the axes
        size = ax.get_legend().get_texts()[0].get_fontsize() * available / extent.width
        sns.move_legend(ax, fontsize=size, **place)
        extent = ax.get_legend().get_window_extent()
    figure.set_figheight(figure.get_figheight() + extent.height / figure.dpi)


def _curve(run, xaxis, value, smooth):
    """The rows of a run that have both numbers, smoothed; a message if there are none."""
    path = run.attrs.get("path", "a run")
    missing = [column for column in (xaxis, value) if column not in run]
    if missing:
        _say(f"Leaving out {path}: it has no column {' and no column '.join(missing)}")
        return run.iloc[:0]
    numbers = {column: [_number(entry) for entry in run[column]] for column in (xaxis, value)}
    run = run.assign(**numbers)
    # Epochs without data (no episode was finished) are blank: not averaged, and not made up.
    run = run.dropna(subset=[xaxis, value])
    if run.empty:
        _say(f"Leaving out {path}: there are no numbers in {value}")
    return run.assign(**{value: run[value].rolling(smooth, center=True, min_periods=1).mean()})


def _number(entry):
    """An entry of progress.txt as a float; NaN if it is no finite number."""
    try:
        number = float(entry)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def make_plots(
    all_logdirs: Sequence[str],
    legend: Sequence[str] | None = None,
    xaxis: str = "TotalEnvInteracts",
    values: str | Sequence[str] = "Performance",
    count: bool = False,
    font_scale: float = 1.5,
    smooth: int = 1,
    select: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    estimator: str = "mean",
    *,
    savefig: str | os.PathLike | None = None,
) -> None:
    """Make a figure for each of the values, and show or save them.

    Args:
        all_logdirs, legend, select, exclude: See `get_all_datasets`.
        xaxis: Column for the horizontal axis.
        values: Column, or list of columns, for the vertical axis; one figure each.
        count: Draw each run for itself, instead of one curve for each experiment.
        font_scale: Size of the text, relative to seaborn's.
        smooth: Width, in rows, of the centred moving average taken of each run.
        estimator: How the runs of an experiment become one curve: one of `ESTIMATORS`.
        savefig: File to write, in the format of its extension, instead of opening a window. With
            several values each gets a file, with its name before the extension:
            curve_Performance.png, curve_Entropy.png.
    """
    import seaborn as sns

    if estimator not in ESTIMATORS:
        raise UserError(
            f"There is no estimator {estimator!r}; choose from {', '.join(ESTIMATORS)}."
        )
    if smooth < 1:
        raise UserError(f"Cannot smooth over {smooth} rows; give 1 (no smoothing) or more.")
    values = [values] if isinstance(values, str) else list(dict.fromkeys(values))
    data = get_all_datasets(all_logdirs, legend, select, exclude)

    # A name is shown as it is, also with dollar signs in it.
    sns.set_theme(style="darkgrid", font_scale=font_scale, rc={"text.parse_math": False})
    figures = []
    for value in values:
        figures.append(_new_figure(on_screen=savefig is None))
        plot_data(
            data,
            xaxis=xaxis,
            value=value,
            condition="Condition2" if count else "Condition1",
            smooth=smooth,
            estimator=estimator,
            ax=figures[-1].subplots(),
        )
    if savefig is None:
        import matplotlib.pyplot as plt

        plt.show()
    else:
        for value, figure in zip(values, figures, strict=True):
            _save(figure, _with_value(savefig, value) if len(values) > 1 else Path(savefig))


def _new_figure(on_screen):
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    # A figure that pyplot does not know needs no window, and so no display.
    make = plt.figure if on_screen else Figure
    return make(figsize=(9, 5.5), layout="constrained")


def _with_value(path, value):
    path = Path(path)
    return path.with_name(f"{path.stem}_{value}{path.suffix}")


def _save(figure, path):
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:  # ValueError: a format that matplotlib cannot write
        raise UserError(f"Cannot write the plot to {path}: {error}.") from error
    _say(f"Saved {path}")


# ---------------------------------------------------------------- command line


def main(argv: Sequence[str] | None = None) -> None:
    """The command line; `argv` is what follows `plot`."""
    args = _parser().parse_args(argv)
    forget_current_directory()
    if args.savefig is None and not _has_window():
        raise UserError(
            "There is no display (or no window toolkit) to show a plot on; use --savefig FILE."
        )
    make_plots(
        args.logdir,
        legend=args.legend,
        xaxis=args.xaxis,
        values=args.value,
        count=args.count,
        smooth=args.smooth,
        select=args.select,
        exclude=args.exclude,
        estimator=args.est,
        savefig=args.savefig,
    )


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m spinup_tf2.run plot",
        description="Plot learning curves of one or several experiments.",
    )
    parser.add_argument(
        "logdir",
        nargs="+",
        help="where runs are, at any depth: `data/ppo` stands for every directory in `data` whose "
        "name begins with `ppo`, `data/ppo/` for that directory alone",
    )
    parser.add_argument(
        "--legend", "-l", nargs="*", help="a title for each directory, instead of its exp_name"
    )
    parser.add_argument(
        "--xaxis", "-x", default="TotalEnvInteracts", help="column for the x axis (%(default)s)"
    )
    parser.add_argument(
        "--value",
        "-y",
        nargs="+",
        default=["Performance"],
        help="columns for the y axis, a figure for each (%(default)s: the test return if the "
        "algorithm logs one, else the training return)",
    )
    parser.add_argument(
        "--count", action="store_true", help="a curve for each run, not for each experiment"
    )
    parser.add_argument(
        "--smooth", "-s", type=int, default=1, help="rows that a moving average is taken over"
    )
    parser.add_argument(
        "--select", nargs="*", help="only directories whose path contains all of these"
    )
    parser.add_argument(
        "--exclude", nargs="*", help="no directory whose path contains any of these"
    )
    parser.add_argument(
        "--est",
        default="mean",
        help=f"how runs become one curve: {', '.join(ESTIMATORS)} (%(default)s)",
    )
    parser.add_argument(
        "--savefig",
        metavar="FILE",
        help="write FILE (.png, .pdf, .svg) instead of opening a window; with several -y, "
        "FILE_<value> for each",
    )
    return parser


def _has_window():
    import matplotlib.pyplot as plt

    return plt.get_backend().lower() not in ("agg", "cairo", "pdf", "pgf", "ps", "svg", "template")
