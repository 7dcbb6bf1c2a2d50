"""Learning curves and tables: `python -m spinup_tf2.run plot LOGDIR ...`.

A curve is an estimate over the runs of an experiment (runs with the same exp_name, or in the same
directory if that is given a legend title), and the band around it is an interval of the same runs.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from spinup_tf2.arguments.checks import MAY_CHANGE
from spinup_tf2.envs.modules import forget_current_directory
from spinup_tf2.errors import UserError
from spinup_tf2.files.printing import print_safely
from spinup_tf2.results import figures
from spinup_tf2.results.datasets import (
    env_of,
    experiment,
    get_all_datasets,
    matching_directories,
    named_by_env,
)
from spinup_tf2.results.statistics import (
    ERRORBARS,
    ESTIMATORS,
    Errorbar,
    Estimator,
    check_columns,
    check_statistics,
    final_performance,
    get_curves,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

# matplotlib is imported where it is used, so that --help is fast.


def plot_data(
    data: Sequence[pd.DataFrame] | pd.DataFrame,
    xaxis: str = "TotalEnvInteracts",
    value: str = "Performance",
    condition: str = "Condition1",
    smooth: int = 1,
    *,
    estimator: Estimator = "mean",
    errorbar: Errorbar | None = None,
    ax: Axes | None = None,
    **kwargs: Any,
) -> Axes:
    """Draw the curves of one figure, with a legend, in matplotlib's current fonts and colors.

    Args:
        data, xaxis, value, condition, smooth, estimator, errorbar: See `get_curves`.
        ax: Axes to draw on; by default matplotlib's current axes.
        **kwargs: Further arguments for the lines, as `matplotlib.axes.Axes.plot` takes them.

    Returns:
        The matplotlib axes.
    """
    import matplotlib.pyplot as plt

    curves = get_curves(data, xaxis, value, condition, smooth, estimator, errorbar)
    ax = ax or plt.gca()
    lines = _draw(ax, curves, figures.colors_for([*curves]), **kwargs)
    figures.dress(ax, xaxis, value)
    figures.legend_above(ax, lines)
    return ax


def _draw(ax, curves, colors, **kwargs):
    """Draw curves, with the bands below all lines; return the lines by name."""
    lines = {}
    for name, curve in curves.items():
        style = dict(color=colors[name], label=name, linewidth=2) | kwargs
        if len(curve.x) == 1:  # a line needs two points
            style.setdefault("marker", "o")
        [line] = ax.plot(curve.x, curve.estimate, **style)
        if not all(map(math.isnan, curve.low)):
            band = dict(color=line.get_color(), alpha=0.2, zorder=line.get_zorder() - 0.5)
            ax.fill_between(curve.x, curve.low, curve.high, linewidth=0, **band)
        lines[name] = line
    ax.margins(x=0.02)
    return lines


def make_plots(
    all_logdirs: Sequence[str],
    legend: Sequence[str] | None = None,
    xaxis: str = "TotalEnvInteracts",
    values: str | Sequence[str] = "Performance",
    count: bool = False,
    font_scale: float = 1.1,
    smooth: int = 1,
    select: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    estimator: Estimator = "mean",
    *,
    errorbar: Errorbar | None = None,
    by: Literal["env"] | None = None,
    savefig: str | os.PathLike | None = None,
    table: str | os.PathLike | bool = False,
) -> None:
    """Draw a figure for each of the values, and show or save them.

    Args:
        all_logdirs, legend, select, exclude: See `get_all_datasets`.
        xaxis: Column for the horizontal axis.
        values: Column, or list of columns, for the vertical axis; one figure each.
        count: Whether to draw one curve for each run instead of one for each experiment.
        font_scale: Size of the text, relative to seaborn's.
        smooth: Width, in rows, of the centered moving average with which each run is smoothed.
        estimator: Statistic that combines the runs of an experiment, one of `ESTIMATORS`.
        errorbar: The band around it, one of `ERRORBARS`; see `summarize`.
        by: "env" for a panel for each environment, with one legend.
        savefig: File to write (.png, .svg, .pdf) instead of opening a window. With several values,
            there is one file for each, with its name before the extension: curve_Performance.png,
            curve_Entropy.png.
        table: File to which `final_performance` is written (.md, .csv), or True to print it.
            Without `savefig`, no figure is drawn then.

    Raises:
        UserError: An argument cannot be used; nothing has been drawn or written yet.
    """
    errorbar = check_statistics(estimator, errorbar)
    values = [values] if isinstance(values, str) else list(dict.fromkeys(values))
    if savefig is not None:
        figures.check_path(savefig)
    if not isinstance(table, bool):
        figures.check_path(table, figures.TABLE_FORMATS)
    data = get_all_datasets(all_logdirs, legend, select, exclude)
    check_columns(data, (xaxis, *values))
    if by == "env":
        data = named_by_env(data)
    drawn = values if savefig is not None or not table else []
    if table or not count:
        _warn_of_mixtures(data, apart=by == "env" or count or not drawn)
    condition = "Condition2" if count else "Condition1"
    panels = {
        value: _panels(data, by, xaxis, value, condition, smooth, estimator, errorbar)
        for value in drawn
    }
    rows = final_performance(data, values, estimator, errorbar) if table else None

    figures.set_theme(font_scale)
    for value in drawn:
        figure = _figure(panels[value], xaxis, value, on_screen=savefig is None)
        if savefig is not None:
            path = Path(savefig)
            if len(values) > 1:
                name = f"{path.stem}_{value.replace(os.sep, '_')}{path.suffix}"
                path = path.with_name(name)
            figures.save_figure(figure, path)
            print_safely(f"Saved {path}")
    if table is True:
        print_safely(figures.markdown(rows, estimator, errorbar))
    elif table:
        figures.write_table(rows, table, estimator, errorbar)
        print_safely(f"Saved {table}")
    elif savefig is None:
        import matplotlib.pyplot as plt

        plt.show()


def _warn_of_mixtures(data, apart):
    """Warn of runs that are combined although they differ in more than their seeds.

    Args:
        data: The runs.
        apart: Whether runs in different environments are kept apart.
    """
    together: dict[tuple, list] = {}
    for run in data:
        env = {"env_name": env_of(run)} if env_of(run) else {}
        key = (experiment(run), *(env.values() if apart else ()))
        together.setdefault(key, []).append(run.attrs.get("settings", {}) | env)
    for (name, *env), settings in together.items():
        common = set.intersection(*map(set, settings)) - {*MAY_CHANGE}
        different = sorted(key for key in common if len({each[key] for each in settings}) > 1)
        if different:
            where = f" in {env[0]}" if env else ""
            print_safely(
                f"Warning: the runs of {name}{where} differ in {', '.join(different)}, and count "
                "as one experiment; --legend gives each directory a name of its own, and --by env "
                "each environment a panel."
            )


def _panels(data, by, *statistics):
    """Return {title of the panel: its curves}; without `by`, a single panel without a title."""
    if by is None:
        return {"": get_curves(data, *statistics)}
    panels = {}
    for env in sorted({env_of(run) for run in data}, key=lambda env: (env == "", env)):
        with suppress(UserError):  # other environments may have the column
            runs = [run for run in data if env_of(run) == env]
            panels[env or "unknown environment"] = get_curves(runs, *statistics)
    return panels or {"": get_curves(data, *statistics)}


def _figure(panels, xaxis, value, on_screen):
    """Draw panels, {title: curves}, with one legend."""
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    # A figure that pyplot does not know needs no window, and so no display.
    figure = (plt.figure if on_screen else Figure)(layout="constrained")
    figure.get_layout_engine().set(w_pad=0.08)  # inches, between panels and around them
    names = dict.fromkeys(name for curves in panels.values() for name in curves)
    colors = figures.colors_for([*names])
    axes = figures.panels(figure, len(panels))
    for ax, (title, curves) in zip(axes, panels.items(), strict=True):
        names |= _draw(ax, curves, colors)
        figures.dress(ax, xaxis, value)
        ax.set_title(title)
        if not ax.get_subplotspec().is_first_col():
            ax.set_ylabel("")  # the same as on its left
    figures.legend_above(figure, names)
    return figure


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; `argv` holds the arguments after `plot`."""
    args = vars(_parser().parse_args(argv))
    forget_current_directory()
    logdirs = args.pop("logdir")
    for logdir in logdirs:
        matching_directories(logdir)  # what does not exist is said before what cannot be shown
    if args["savefig"] is None and not args["table"] and not _has_window():
        raise UserError(
            "There is no display (or no window toolkit) to show a plot on; use --savefig FILE."
        )
    make_plots(logdirs, values=args.pop("value"), estimator=args.pop("est"), **args)


def _has_window():
    import matplotlib.pyplot as plt

    return plt.get_backend().lower() not in ("agg", "cairo", "pdf", "pgf", "ps", "svg", "template")


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m spinup_tf2.run plot",
        description="Plot learning curves of one or several experiments.",
    )
    add = parser.add_argument
    add(
        "logdir",
        nargs="+",
        help="where runs are, at any depth: `data/ppo` stands for every directory in `data` whose "
        "name begins with `ppo`, `data/ppo/` for that directory alone",
    )
    add("--legend", "-l", nargs="*", help="a title for each directory, instead of its exp_name")
    add("--xaxis", "-x", default="TotalEnvInteracts", help="column for the x axis (%(default)s)")
    add(
        "--value",
        "-y",
        nargs="+",
        default=["Performance"],
        help="columns for the y axis, a figure for each (%(default)s: the test return if the "
        "algorithm logs one, else the training return)",
    )
    add("--count", action="store_true", help="a curve for each run, not for each experiment")
    add("--smooth", "-s", type=int, default=1, help="rows that a moving average is taken over")
    add("--select", nargs="*", help="only runs whose path contains all of these")
    add("--exclude", nargs="*", help="no run whose path contains any of these")
    add(
        "--est",
        choices=ESTIMATORS,
        default="mean",
        help="how runs become one curve (%(default)s); iqm is the mean of the middle half",
    )
    add(
        "--errorbar",
        choices=ERRORBARS,
        help="the band around it (sd): standard deviation of the runs, standard error or 95 %% "
        "confidence interval of the estimate",
    )
    add("--by", choices=["env"], help="a panel for each environment")
    add(
        "--savefig",
        metavar="FILE",
        help="write FILE (.png, .svg, .pdf) instead of opening a window; with several -y, "
        "FILE_<value> for each",
    )
    add(
        "--table",
        metavar="FILE",
        nargs="?",
        const=True,
        default=False,
        help="the final performance of each experiment, that is the mean over the last tenth of "
        "each run's rows: print it, or write it to FILE (.md, .csv); no figure without --savefig",
    )
    return parser
