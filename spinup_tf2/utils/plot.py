"""Learning curves, as `python -m spinup_tf2.run plot LOGDIR ...` draws them.

A curve is an estimate over the runs of an experiment (runs with the same exp_name, or in the same
directory if that is given a legend title), and the band around it is an interval of the same runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from spinup_tf2.arguments.checks import MAY_CHANGE
from spinup_tf2.errors import UserError
from spinup_tf2.files.printing import print_safely
from spinup_tf2.results import look
from spinup_tf2.results.datasets import (
    NoResults,
    get_all_datasets,
    get_datasets,
    named_by_env,
    numbers,
)
from spinup_tf2.results.final import check_table_path, final_performance, markdown, write_table
from spinup_tf2.results.look import STYLES, Style
from spinup_tf2.results.statistics import (
    ERRORBARS,
    ESTIMATORS,
    Curve,
    Errorbar,
    Estimator,
    check_statistics,
    curve_of,
)
from spinup_tf2.results.watching import watch_runs

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

# pandas, matplotlib and seaborn are imported where they are used, so that --help is fast.

__all__ = [
    "ERRORBARS",
    "ESTIMATORS",
    "STYLES",
    "final_performance",
    "get_all_datasets",
    "get_curves",
    "get_datasets",
    "make_plots",
    "plot_data",
]

_BAND = dict(alpha=0.2, linewidth=0)
_DAY = 86_400  # seconds


def get_curves(
    data: Sequence[pd.DataFrame] | pd.DataFrame,
    xaxis: str = "TotalEnvInteracts",
    value: str = "Performance",
    condition: str = "Condition1",
    smooth: int = 1,
    estimator: Estimator = "mean",
    errorbar: Errorbar | None = None,
    *,
    report: Callable[[str], None] = print_safely,
) -> dict[str, Curve]:
    """Compute the curves of a figure, each with its interval.

    Args:
        data: Runs, as from `get_datasets`.
        xaxis: Column for the horizontal axis.
        value: Column for the vertical axis.
        condition: Column that tells the curves apart.
        smooth: Width, in rows, of the centered moving average with which each run is smoothed
            first.
        estimator: Statistic that combines the runs of a curve; see `summarize`.
        errorbar: The interval around it; by default `sd`, or `none` for `sum` and `std`.
        report: Function that is called with a line for each run that is left out; prints by
            default.

    Returns:
        {name of the curve: (x, estimate, low, high), arrays [points]}

    Raises:
        UserError: A column, estimator or interval does not exist.
        NoResults: No run has numbers in both columns.
    """
    errorbar = check_statistics(estimator, errorbar)
    _check_smooth(smooth)
    runs = [data] if hasattr(data, "columns") else list(data)
    _check_columns(runs, (xaxis, value))
    groups: dict[str, list] = {}
    for run in runs:
        xy = _xy(run, xaxis, value, smooth, report)
        if xy:
            groups.setdefault(str(run[condition].iloc[0]), []).append(xy)
    if not groups:
        raise NoResults(f"There are no numbers to plot in column {value!r} against {xaxis!r}.")
    return {name: curve_of(group, estimator, errorbar) for name, group in groups.items()}


def _check_smooth(smooth):
    if smooth < 1:
        raise UserError(f"Cannot smooth over {smooth} rows; give 1 (no smoothing) or more.")


def _check_columns(runs, columns):
    for column in columns:
        if not any(column in run for run in runs):
            ours = {"Unit", "Condition1", "Condition2"}
            there = dict.fromkeys(name for run in runs for name in run.columns if name not in ours)
            raise UserError(f"No run has a column {column!r}; there is {', '.join(there)}.")


def _xy(run, xaxis, value, smooth, report):
    """Return two columns of a run, with the second one smoothed.

    If a column is missing, or no row has numbers in both, report it and return None.
    """
    import pandas as pd

    path = run.attrs.get("path", "a run")
    missing = [column for column in (xaxis, value) if column not in run]
    if missing:
        report(f"Leaving out {path}: it has no column {' and no column '.join(missing)}")
        return None
    x, y = numbers(run[xaxis]), numbers(run[value])
    # Epochs without data (no finished episode) stay blank: they are neither averaged nor filled in.
    known = pd.notna(x) & pd.notna(y)
    if not known.any():
        report(f"Leaving out {path}: there are no numbers in {value}")
        return None
    if smooth > 1:
        y[known] = pd.Series(y[known]).rolling(smooth, center=True, min_periods=1).mean()
    return x, y


def plot_data(
    data: Sequence[pd.DataFrame] | pd.DataFrame,
    xaxis: str = "TotalEnvInteracts",
    value: str = "Performance",
    condition: str = "Condition1",
    smooth: int = 1,
    *,
    estimator: Estimator = "mean",
    errorbar: Errorbar | None = None,
    style: Style = "paper",
    ax: Axes | None = None,
    **kwargs: Any,
) -> Axes:
    """Draw the curves of one figure, with a legend.

    Args:
        data, xaxis, value, condition, smooth, estimator, errorbar: See `get_curves`.
        style: Style of ticks and legend, "paper" or "spinup". (Fonts and colors are matplotlib's
            current ones; `make_plots` sets them.)
        ax: Axes to draw on; by default matplotlib's current axes.
        **kwargs: Further arguments for the lines, as `matplotlib.axes.Axes.plot` takes them.

    Returns:
        The matplotlib axes.
    """
    import matplotlib.pyplot as plt

    curves = get_curves(data, xaxis, value, condition, smooth, estimator, errorbar)
    ax = ax or plt.gca()
    lines = _draw(ax, curves, look.colors_for([*curves]), **kwargs)
    _dress(ax, xaxis, value, style)
    (look.legend_above if style == "paper" else look.legend_in)(ax, lines)
    return ax


def _draw(ax, curves, colors, **kwargs) -> dict[str, Line2D]:
    """Draw curves, with the bands below all lines; return the lines by name."""
    lines = {}
    for name, curve in curves.items():
        style = dict(color=colors[name], label=name, linewidth=2) | kwargs
        if len(curve.x) == 1:  # a line needs two points
            style.setdefault("marker", "o")
        [lines[name]] = ax.plot(curve.x, curve.estimate, **style)
        if (curve.low == curve.low).any():  # not only NaN
            band = dict(color=lines[name].get_color(), zorder=lines[name].get_zorder() - 0.5)
            ax.fill_between(curve.x, curve.low, curve.high, **band, **_BAND)
    return lines


def _dress(ax, xaxis, value, style):
    look.label(ax, xaxis, value)
    look.format_ticks(ax, style)
    ax.margins(x=0.02)


def make_plots(
    all_logdirs: Sequence[str],
    legend: Sequence[str] | None = None,
    xaxis: str = "TotalEnvInteracts",
    values: str | Sequence[str] = "Performance",
    count: bool = False,
    font_scale: float | None = None,
    smooth: int = 1,
    select: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    estimator: Estimator = "mean",
    *,
    errorbar: Errorbar | None = None,
    by: Literal["env"] | None = None,
    style: Style = "paper",
    savefig: str | os.PathLike | None = None,
    table: str | os.PathLike | bool = False,
    watch: float | None = None,
) -> None:
    """Draw a figure for each of the values, and show or save them.

    Args:
        all_logdirs, legend, select, exclude: See `get_all_datasets`.
        xaxis: Column for the horizontal axis.
        values: Column, or list of columns, for the vertical axis; one figure each.
        count: Whether to draw one curve for each run instead of one for each experiment.
        font_scale: Size of the text, relative to seaborn's; None for that of the style.
        smooth: Width, in rows, of the centered moving average with which each run is smoothed.
        estimator: Statistic that combines the runs of an experiment, one of `ESTIMATORS`.
        errorbar: The band around it, one of `ERRORBARS`; see `summarize`.
        by: "env" for a panel for each environment, with one legend.
        style: "paper", or "spinup" for the look of Spinning Up.
        savefig: File to write (.png, .svg, .pdf) instead of opening a window. With several values,
            there is one file for each, with its name before the extension: curve_Performance.png,
            curve_Entropy.png.
        table: File to which `final_performance` is written (.md, .csv), or True to print it.
            Without `savefig`, no figure is drawn then.
        watch: Interval, in seconds, at which to check the runs for new data; then everything is
            updated, until Ctrl-C or until the windows are closed.

    Raises:
        UserError: An argument cannot be used; nothing has been drawn or written yet.
    """
    errorbar = check_statistics(estimator, errorbar)
    _check_smooth(smooth)
    values = [values] if isinstance(values, str) else list(dict.fromkeys(values))
    if by not in (None, "env"):
        raise UserError(f"Cannot make a panel by {by!r}; there is 'env', one per environment.")
    if watch is not None and not 0 < watch <= _DAY:
        raise UserError(
            f"Cannot look at the runs every {watch} seconds; give more than 0, and at most {_DAY}."
        )
    paths = _figure_paths(savefig, values)
    if not isinstance(table, bool):
        check_table_path(table)
    look.set_style(style, font_scale)
    on_screen = savefig is None and not table
    figures = {value: _new_figure(on_screen) for value in values if on_screen or paths}
    for name, given in dict(count=count, smooth=smooth > 1).items():
        if given and not figures:
            print_safely(f"Warning: {name} is of figures, and has no effect on the table.")

    def make(report):
        data = get_all_datasets(all_logdirs, legend, select, exclude, report=report)
        _check_columns(data, (xaxis, *values))
        if by == "env":
            data = named_by_env(data)
        if table or not count:
            _warn_of_mixtures(data, by == "env" or count or not figures, report)
        condition = "Condition2" if count else "Condition1"
        statistics = dict(smooth=smooth, estimator=estimator, errorbar=errorbar, report=report)
        panels = {
            value: _panels(data, by, xaxis=xaxis, value=value, condition=condition, **statistics)
            for value in figures
        }
        rows = (
            final_performance(data, values, estimator, errorbar, report=report) if table else None
        )
        for value, figure in figures.items():
            _draw_panels(figure, panels[value], xaxis, value, style)
        for value, path in paths.items():
            look.save_figure(figures[value], path)
            report(f"Saved {path}")
        if table is True:
            print_safely(markdown(rows, estimator, errorbar))
        elif table:
            write_table(rows, table, estimator, errorbar)
            report(f"Saved {table}")

    if watch is not None:
        watch_runs(make, (all_logdirs, select, exclude), watch, show=on_screen)
    else:
        make(print_safely)
        if on_screen:
            import matplotlib.pyplot as plt

            plt.show()


def _figure_paths(savefig, values):
    """Return {value: file of its figure}, after checking that files can be written."""
    if savefig is None:
        return {}
    look.check_figure_path(savefig)
    path = Path(savefig)
    if len(values) == 1:
        return {values[0]: path}
    names = {value: f"{path.stem}_{value.replace(os.sep, '_')}{path.suffix}" for value in values}
    return {value: path.with_name(name) for value, name in names.items()}


def _new_figure(on_screen) -> Figure:
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    # A figure that pyplot does not know needs no window, and so no display.
    figure = (plt.figure if on_screen else Figure)(layout="constrained")
    figure.get_layout_engine().set(w_pad=0.08)  # inches, between panels and around them
    return figure


def _warn_of_mixtures(data, by_env, report):
    """Warn of runs that are combined although they differ in more than their seeds.

    Args:
        data: The runs.
        by_env: Whether runs in different environments are kept apart.
        report: Function that is called with each warning.
    """
    together: dict[tuple, list] = {}
    for run in data:
        env = run.attrs.get("env", "") if by_env else ""
        together.setdefault((run["Condition1"].iloc[0], env), []).append(run)
    for (name, env), runs in together.items():
        envs = {run.attrs.get("env", "") for run in runs} - {""}
        if len(envs) > 1:
            report(
                f"Warning: {name} has runs of {', '.join(sorted(envs))} in one curve; "
                "--by env (by='env') makes a panel for each."
            )
        different = _different_settings([run.attrs.get("settings", {}) for run in runs])
        if different:
            where = f" in {env}" if env else ""
            report(
                f"Warning: the runs of {name}{where} differ in {', '.join(different)}, and count "
                "as one experiment; --legend gives each directory a name of its own."
            )


def _different_settings(settings):
    """Return the names of settings that all runs have but that differ between them."""
    common = set.intersection(*map(set, settings)) - {*MAY_CHANGE}
    return sorted(name for name in common if len({each[name] for each in settings}) > 1)


def _panels(data, by, **kwargs):
    """Return {title of the panel: its curves}; without `by`, a single panel with title None."""
    if by is None:
        return {None: get_curves(data, **kwargs)}
    envs = sorted({run.attrs.get("env", "") for run in data}, key=lambda env: (env == "", env))
    panels = {}
    nothing = None
    for env in envs:
        runs = [run for run in data if run.attrs.get("env", "") == env]
        try:
            panels[env or "unknown environment"] = get_curves(runs, **kwargs)
        except UserError as error:  # other environments may have the column
            nothing = error
    if not panels:
        raise nothing
    return panels


def _draw_panels(figure, panels, xaxis, value, style):
    """Clear a figure and draw its panels, with one legend."""
    figure.clear()
    colors = look.colors_for(
        [*dict.fromkeys(name for curves in panels.values() for name in curves)]
    )
    axes = look.panels(figure, len(panels), style)
    lines: dict[str, Line2D] = {}
    for ax, (title, curves) in zip(axes, panels.items(), strict=True):
        lines |= _draw(ax, curves, colors)
        _dress(ax, xaxis, value, style)
        ax.set_title(title or "")
        if not ax.get_subplotspec().is_first_col():
            ax.set_ylabel("")  # the same as on its left
    if style == "spinup" and len(axes) == 1:
        look.legend_in(axes[0], lines)
    else:
        look.shared_legend(figure, {name: lines[name] for name in colors})
