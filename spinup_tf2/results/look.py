"""The look of figures (themes, colors, labels, ticks, legends), and writing them to files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from spinup_tf2.errors import UserError
from spinup_tf2.files.run_directory import atomic_output

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

# matplotlib and seaborn are imported where they are used, so that --help is fast.

Style = Literal["paper", "spinup"]
STYLES: tuple[Style, ...] = get_args(Style)

FORMATS = (".png", ".svg", ".pdf")
_DPI = 200

LABELS = {
    "TotalEnvInteracts": "Environment steps",
    "Performance": "Average return",
    "AverageEpRet": "Average return",
    "AverageTestEpRet": "Average test return",
}

_THEMES = {
    "paper": dict(style="whitegrid", palette="colorblind", font_scale=1.1),
    "spinup": dict(style="darkgrid", palette="deep", font_scale=1.5),
}
_RC = {
    "text.parse_math": False,  # names are shown literally, even with dollar signs
    "pdf.fonttype": 42,  # TrueType, which journals require
    "svg.hashsalt": "spinup_tf2",  # makes the files of equal figures equal
}
_PAPER_RC = {"grid.color": "0.9", "axes.edgecolor": "0.6", "axes.linewidth": 0.8}

_ONE_PANEL = {"paper": (6.4, 4.0), "spinup": (9.0, 5.5)}  # inches
_PANEL = {"paper": (4.2, 3.2), "spinup": (6.0, 4.5)}
_MOST_IN_A_ROW = 4  # panels
_MOST_COLUMNS = 6  # in a legend

# Values from which ticks are written as 10k or 2M (1e4 in Spinning Up's style): on the horizontal
# axis as in Spinning Up; on the vertical axis there is room for more digits.
_LARGE_X, _LARGE_Y = 5e3, 1e5


def set_style(style: Style, font_scale: float | None = None) -> None:
    """Set the style in which matplotlib draws from now on.

    Args:
        style: One of `STYLES`: "paper", or "spinup", the look of Spinning Up.
        font_scale: Size of text relative to seaborn's default; None for that of the style.

    Raises:
        UserError: There is no such style.
    """
    import seaborn as sns

    if style not in STYLES:
        raise UserError(f"There is no style {style!r}; choose from {', '.join(STYLES)}.")
    theme = _THEMES[style] | ({} if font_scale is None else dict(font_scale=font_scale))
    sns.set_theme(rc=_RC | (_PAPER_RC if style == "paper" else {}), **theme)


def colors_for(names: Sequence[str]) -> dict[str, Any]:
    """Return a color for each name: from the style, or evenly spaced hues if those are too few."""
    import seaborn as sns

    palette = sns.color_palette()
    if len(names) > len(palette):
        palette = sns.color_palette("husl", len(names))
    return dict(zip(names, palette, strict=False))


def panels(figure: Figure, number: int, style: Style) -> list[Axes]:
    """Divide a figure into a number of panels, and set its size accordingly."""
    columns = min(number, _MOST_IN_A_ROW)
    if number > _MOST_IN_A_ROW:  # makes rows as equal as possible: six become three and three
        columns = -(-number // -(-number // _MOST_IN_A_ROW))
    rows = -(-number // columns)
    width, height = (_ONE_PANEL if number == 1 else _PANEL)[style]
    figure.set_size_inches(columns * width, rows * height)
    axes = [figure.add_subplot(rows, columns, i + 1) for i in range(number)]
    return axes


def label(ax: Axes, xaxis: str, value: str) -> None:
    """Label the axes for columns of progress.txt."""
    ax.set(xlabel=LABELS.get(xaxis, xaxis), ylabel=LABELS.get(value, value))


def format_ticks(ax: Axes, style: Style) -> None:
    """Format large tick values as 200k and 1M, or as 1e6 in Spinning Up's style."""
    from matplotlib.ticker import EngFormatter

    for axis, large in ((ax.xaxis, _LARGE_X), (ax.yaxis, _LARGE_Y)):
        if max(map(abs, axis.get_data_interval()), default=0) <= large:
            continue
        if style == "paper":
            axis.set_major_formatter(EngFormatter(sep=""))
        else:
            ax.ticklabel_format(style="sci", axis=axis.axis_name, scilimits=(0, 0))


def legend_in(ax: Axes, handles: Mapping[str, Artist]) -> None:
    """Put a legend where it covers least, as in Spinning Up; in a window it can be dragged."""
    ax.legend(handles.values(), handles.keys(), loc="best").set_draggable(True)


def legend_above(ax: Axes, handles: Mapping[str, Artist]) -> None:
    """Put a legend above the axes, where it covers no curve, in as many columns as fit.

    Args:
        ax: The axes.
        handles: A line for each name.
    """

    def place(**kwargs):
        above = dict(loc="lower center", bbox_to_anchor=(0.5, 1))
        legend = ax.legend(handles.values(), handles.keys(), **above, **kwargs)
        legend.set_in_layout(False)  # until its size is known
        return legend

    legend = _fitting(place, len(handles), ax.figure, lambda: ax.get_window_extent().width)
    legend.set_in_layout(True)


def shared_legend(figure: Figure, handles: Mapping[str, Artist]) -> None:
    """Put one legend, with a line for each name in `handles`, above all panels of a figure."""

    def place(**kwargs):
        return figure.legend(handles.values(), handles.keys(), loc="outside upper center", **kwargs)

    _fitting(place, len(handles), figure, lambda: figure.bbox.width)


def _fitting(place: Callable[..., Legend], number, figure, width) -> Legend:
    """Place a legend in as many columns as fit into a width; increase the figure by its height."""

    def extent(**kwargs):
        legend = place(frameon=False, **kwargs)
        figure.draw_without_rendering()  # determines the sizes
        return legend, legend.get_window_extent()

    for columns in range(min(number, _MOST_COLUMNS), 0, -1):
        legend, size = extent(ncols=columns)
        if size.width <= width():
            break
        legend.remove()
    else:  # even one column is too wide
        fontsize = legend.get_texts()[0].get_fontsize() * width() / size.width
        legend, size = extent(fontsize=fontsize)
    figure.set_figheight(figure.get_figheight() + size.height / figure.dpi)
    return legend


def check_figure_path(path: str | os.PathLike) -> None:
    """Raise UserError, before any work is done, if no figure can be written to this file."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise UserError(
            f"Cannot write the plot to {path}: its name must end in one of {', '.join(FORMATS)}, "
            "which says the format."
        )
    check_parent(path)


def check_parent(path: str | os.PathLike) -> None:
    """Raise UserError if the path is a directory, or its parent directory does not exist."""
    path = Path(path)
    if path.is_dir() or not path.absolute().parent.is_dir():
        reason = "it is a directory" if path.is_dir() else f"there is no directory {path.parent}"
        raise UserError(f"Cannot write to {path}: {reason}.")


def save_figure(figure: Figure, path: str | os.PathLike) -> None:
    """Write a figure atomically, in the format of the file's suffix.

    Raises:
        UserError: The file cannot be written.
    """
    kind = Path(path).suffix.lower().removeprefix(".")
    # Without dates, equal figures give equal files.
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    try:
        with atomic_output(path) as temporary:
            figure.savefig(temporary, format=kind, dpi=_DPI, metadata=metadata)
    except OSError as error:
        raise UserError(f"Cannot write the plot to {path}: {error}.") from error
