"""Learning curves, as `python -m spinup_tf2.run plot LOGDIR ...` draws them.

Curves are averaged over the runs of an experiment (the runs with the same exp_name, or under the
same directory if it is given a legend title); the band is one standard deviation wide to each side.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spinup_tf2.errors import UserError
from spinup_tf2.experiments.results import get_all_datasets, get_datasets
from spinup_tf2.runs.printing import print_safely

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

# pandas, matplotlib and seaborn are imported where they are used: --help does not wait for them.

__all__ = ["ESTIMATORS", "get_all_datasets", "get_datasets", "make_plots", "plot_data"]

ESTIMATORS = ("mean", "median", "min", "max", "sum", "std")

_MOST_COLUMNS = 6  # of a legend


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
        print_safely(f"Leaving out {path}: it has no column {' and no column '.join(missing)}")
        return run.iloc[:0]
    numbers = {column: [_number(entry) for entry in run[column]] for column in (xaxis, value)}
    run = run.assign(**numbers)
    # Epochs without data (no episode was finished) are blank: not averaged, and not made up.
    run = run.dropna(subset=[xaxis, value])
    if run.empty:
        print_safely(f"Leaving out {path}: there are no numbers in {value}")
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
    print_safely(f"Saved {path}")
