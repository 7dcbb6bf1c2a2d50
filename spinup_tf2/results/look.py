"""How figures look: themes, colours, labels, ticks, legends, and how they are written."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from spinup_tf2.errors import UserError
from spinup_tf2.runs.files import atomic_output

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

# matplotlib and seaborn are imported where they are used: --help does not wait for them.

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
    "text.parse_math": False,  # a name is shown as it is, also with dollar signs in it
    "pdf.fonttype": 42,  # TrueType, which journals ask for
    "svg.hashsalt": "spinup_tf2",  # the same figure is the same file
}
_PAPER_RC = {"grid.color": "0.9", "axes.edgecolor": "0.6", "axes.linewidth": 0.8}

_ONE_PANEL = {"paper": (6.4, 4.0), "spinup": (9.0, 5.5)}  # inches
_PANEL = {"paper": (4.2, 3.2), "spinup": (6.0, 4.5)}
_MOST_IN_A_ROW = 4  # panels
_MOST_COLUMNS = 6  # of a legend

# From here on ticks are 10k or 2M (1e4 in Spinning Up's style). On the horizontal axis as in
# Spinning Up; on the vertical one four digits fit.
_LARGE_X, _LARGE_Y = 5e3, 1e5


def set_style(style: Style, font_scale: float | None = None) -> None:
    """Let matplotlib draw in a style from now on.

    Args:
        style: One of `STYLES`: "paper", or "spinup", the look of Spinning Up.
        font_scale: Size of the text, relative to seaborn's; None for that of the style.

    Raises:
        UserError: There is no such style.
    """
    import seaborn as sns

    if style not in STYLES:
        raise UserError(f"There is no style {style!r}; choose from {', '.join(STYLES)}.")
    theme = _THEMES[style] | ({} if font_scale is None else dict(font_scale=font_scale))
    sns.set_theme(rc=_RC | (_PAPER_RC if style == "paper" else {}), **theme)


def colors_for(names: Sequence[str]) -> dict[str, Any]:
    """A colour for each name: those of the style, or, if these are too few, evenly spaced hues."""
    import seaborn as sns

    palette = sns.color_palette()
    if len(names) > len(palette):
        palette = sns.color_palette("husl", len(names))
    return dict(zip(names, palette, strict=False))


def panels(figure: Figure, number: int, style: Style) -> list[Axes]:
    """Divide a figure, of the size that this takes, into a number of panels."""
    columns = min(number, _MOST_IN_A_ROW)
    if number > _MOST_IN_A_ROW:  # rows as equal as possible: six are three and three
        columns = -(-number // -(-number // _MOST_IN_A_ROW))
    rows = -(-number // columns)
    width, height = (_ONE_PANEL if number == 1 else _PANEL)[style]
    figure.set_size_inches(columns * width, rows * height)
    axes = [figure.add_subplot(rows, columns, i + 1) for i in range(number)]
    return axes


def label(ax: Axes, xaxis: str, value: str) -> None:
    """Name the axes after columns of progress.txt."""
    ax.set(xlabel=LABELS.get(xaxis, xaxis), ylabel=LABELS.get(value, value))


def format_ticks(ax: Axes, style: Style) -> None:
    """Write large numbers at the ticks as 200k and 1M, in Spinning Up's style as 1e6."""
    from matplotlib.ticker import EngFormatter

    for axis, large in ((ax.xaxis, _LARGE_X), (ax.yaxis, _LARGE_Y)):
        if max(map(abs, axis.get_data_interval()), default=0) <= large:
            continue
        if style == "paper":
            axis.set_major_formatter(EngFormatter(sep=""))
        else:
            ax.ticklabel_format(style="sci", axis=axis.axis_name, scilimits=(0, 0))


def legend_in(ax: Axes, handles: Mapping[str, Artist]) -> None:
    """Put a legend where it covers least, as Spinning Up does; in a window it can be moved."""
    ax.legend(handles.values(), handles.keys(), loc="best").set_draggable(True)


def legend_above(ax: Axes, handles: Mapping[str, Artist]) -> None:
    """Put a legend over the axes, where it covers no curve, in as many columns as fit.

    handles: of each name, a line.
    """

    def place(**kwargs):
        above = dict(loc="lower center", bbox_to_anchor=(0.5, 1))
        legend = ax.legend(handles.values(), handles.keys(), **above, **kwargs)
        legend.set_in_layout(False)  # while its size is not known
        return legend

    legend = _fitting(place, len(handles), ax.figure, lambda: ax.get_window_extent().width)
    legend.set_in_layout(True)


def shared_legend(figure: Figure, handles: Mapping[str, Artist]) -> None:
    """Put one legend over all panels of a figure. handles: of each name, a line."""

    def place(**kwargs):
        return figure.legend(handles.values(), handles.keys(), loc="outside upper center", **kwargs)

    _fitting(place, len(handles), figure, lambda: figure.bbox.width)


def _fitting(place: Callable[..., Legend], number, figure, width) -> Legend:
    """A legend in as many columns as fit into a width; the figure grows by its height."""

    def extent(**kwargs):
        legend = place(frameon=False, **kwargs)
        figure.draw_without_rendering()  # only then things have their sizes
        return legend, legend.get_window_extent()

    for columns in range(min(number, _MOST_COLUMNS), 0, -1):
        legend, size = extent(ncols=columns)
        if size.width <= width():
            break
        legend.remove()
    else:  # a name that is longer than this
        fontsize = legend.get_texts()[0].get_fontsize() * width() / size.width
        legend, size = extent(fontsize=fontsize)
    figure.set_figheight(figure.get_figheight() + size.height / figure.dpi)
    return legend


def check_figure_path(path: str | os.PathLike) -> None:
    """Raise UserError if no figure can be written to this file, before any work is done."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise UserError(
            f"Cannot write the plot to {path}: its name must end in one of {', '.join(FORMATS)}, "
            "which says the format."
        )
    check_parent(path)


def check_parent(path: str | os.PathLike) -> None:
    """Raise UserError if a file cannot be there."""
    path = Path(path)
    if path.is_dir() or not path.absolute().parent.is_dir():
        reason = "it is a directory" if path.is_dir() else f"there is no directory {path.parent}"
        raise UserError(f"Cannot write to {path}: {reason}.")


def save_figure(figure: Figure, path: str | os.PathLike) -> None:
    """Write a figure in the format of the file's suffix: a complete file, or the old one stays.

    Raises:
        UserError: The file cannot be written.
    """
    kind = Path(path).suffix.lower().removeprefix(".")
    # Without dates the same curves give the same file.
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    try:
        with atomic_output(path) as temporary:
            figure.savefig(temporary, format=kind, dpi=_DPI, metadata=metadata)
    except OSError as error:
        raise UserError(f"Cannot write the plot to {path}: {error}.") from error
