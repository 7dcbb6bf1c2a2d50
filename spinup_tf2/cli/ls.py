"""Lists the runs in a directory: `python -m spinup_tf2.run ls [DIR]`."""

import argparse
import math
import shutil
import sys
import time
from collections.abc import Sequence

from spinup_tf2 import user_config
from spinup_tf2.errors import printable
from spinup_tf2.files.printing import colored, print_safely
from spinup_tf2.files.run_directory import runs_aside
from spinup_tf2.results.listing import RunInfo, as_json, find_runs

# Keys by which runs can be sorted, such that the most interesting ones come first.
SORT = {
    "age": lambda run: -run.modified,
    "name": lambda run: run.path,
    "state": lambda run: ["running", "stopped", "damaged", "finished"].index(run.state),
    "epochs": lambda run: -run.epochs_done,
    "last": lambda run: -run.last if run.last is not None else math.inf,
    "best": lambda run: -run.best if run.best is not None else math.inf,
    "env": lambda run: (run.env == "", run.env.lower()),
    "algorithm": lambda run: (run.algorithm == "", run.algorithm),
    "seed": lambda run: run.seed if run.seed is not None else math.inf,
}

_HEADER = ("Run", "State", "Epochs", "Last", "Best", "Age", "Env", "Algo", "Seed")
_STATE = _HEADER.index("State")
_RIGHT = ("Epochs", "Last", "Best", "Age", "Seed")  # columns that are aligned to the right
_LEAST = {"Env": 10, "Run": 20}  # characters to which these columns may be shortened
_MAY_GO = ("Seed", "Algo", "Best", "Env", "Age")  # columns that may be left out, in this order
_COLORS = {"running": "green", "damaged": "red", "stopped": "yellow"}
_GAP = "  "


def main(argv: Sequence[str]) -> None:
    """Run the command line; `argv` holds the arguments after `ls`."""
    args = _parser().parse_args(argv)
    directory = args.directory or user_config.DEFAULT_DATA_DIR
    runs = sorted(find_runs(directory), key=SORT["name"])
    runs.sort(key=SORT[args.sort], reverse=args.reverse)
    if args.json:
        print(as_json(runs))
    elif not runs:
        print_safely(f"No runs in {directory}.{runs_aside(directory)}")
    else:
        # Output to a file or another program is not shortened.
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        show(runs, directory, width, args.commands)


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m spinup_tf2.run ls", description="List runs and how far they are."
    )
    parser.add_argument(
        "directory",
        nargs="?",
        metavar="DIR",
        help="where the runs are, at any depth; by default where experiments are written",
    )
    parser.add_argument(
        "--sort", choices=[*SORT], default="age", help="by default the newest first (%(default)s)"
    )
    parser.add_argument("--reverse", "-r", action="store_true", help="the other way round")
    parser.add_argument(
        "--commands", action="store_true", help="the commands that resume, plot and watch each run"
    )
    parser.add_argument("--json", action="store_true", help="everything as JSON, for programs")
    return parser


def show(
    runs: Sequence[RunInfo], directory: str, width: int | None = None, commands: bool = False
) -> None:
    """Print a table of runs.

    Args:
        runs: The runs, one per line.
        directory: Directory to which paths are relative.
        width: Number of characters in a line. If necessary, names are shortened and columns are
            left out. None for no limit.
        commands: Whether to print the commands for each run below it.
    """
    now = time.time()
    names, rows = fitting([_row(run, directory, now) for run in runs], width)
    print(_GAP.join(names).rstrip())
    for run, cells in zip(runs, rows, strict=True):
        if run.state in _COLORS:
            cells[_STATE] = colored(cells[_STATE], _COLORS[run.state])
        print(_GAP.join(cells).rstrip())
        if commands:
            for name, command in run.commands.items():
                print_safely(f"    {name + ':':8} {command}")
    for run in runs:
        if run.state == "damaged":
            print_safely(f"{run.path}: {run.problem}")


def _row(run, directory, now):
    """Return the cells of a run as {title: text}."""
    prefix = directory.rstrip("/") + "/"
    values = (
        run.path.removeprefix(prefix),
        run.state,
        f"{run.epochs_done}/{'?' if run.epochs is None else run.epochs}",
        _short(run.last),
        _short(run.best),
        human_age(now - run.modified),
        run.env,
        run.algorithm,
        "" if run.seed is None else str(run.seed),
    )
    return dict(zip(_HEADER, values, strict=True))


def _short(number):
    return "" if number is None else f"{number:.4g}"


def human_age(seconds: float) -> str:
    """Format a duration as `45 s`, `3 min`, `2 h` or `5 d`."""
    for unit, length, limit in (("s", 1, 60), ("min", 60, 60), ("h", 3600, 48)):
        if seconds < limit * length:
            return f"{max(0, seconds) // length:.0f} {unit}"
    return f"{seconds // 86400:.0f} d"


def fitting(rows: Sequence[dict[str, str]], width: int | None) -> tuple[list[str], list[list[str]]]:
    """Return titles and cells, padded to the widths of their columns, to fit into `width`."""
    rows = [{title: _one_line(text) for title, text in row.items()} for row in rows]
    widths = _natural(rows)
    if width is not None and _total(widths) > width:
        # For exp/exp_s0, the last part of the path is enough, unless it is ambiguous.
        last = [row["Run"].rpartition("/")[2] for row in rows]
        if len({*last}) == len(last):
            rows = [row | dict(Run=name) for row, name in zip(rows, last, strict=True)]
        widths = _natural(rows)
        _narrow(widths, width)
    lines = [
        [_cell(row[title], title, size) for title, size in widths.items()]
        for row in [dict(zip(_HEADER, _HEADER, strict=True)), *rows]
    ]
    return lines[0], lines[1:]


def _one_line(text):
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def _natural(rows):
    """Return the full widths of the columns as {title: width}."""
    return {title: max(len(title), *(len(row[title]) for row in rows)) for title in _HEADER}


def _total(widths):
    return sum(widths.values()) + len(_GAP) * (len(widths) - 1)


def _narrow(widths, width):
    """Reduce the widths of the columns, in place, until they fit."""

    def excess():
        return max(0, _total(widths) - width)

    for gone in (None, *_MAY_GO):
        widths.pop(gone, None)
        spare = {t: max(0, widths[t] - least) for t, least in _LEAST.items() if t in widths}
        if excess() <= sum(spare.values()):
            break
    for title, characters in spare.items():
        widths[title] -= min(excess(), characters)
    widths["Run"] = max(1, widths["Run"] - excess())


def _cell(text, title, size):
    if len(text) > size:
        # Keeps both ends, which distinguish names: the experiment in front, the seed at the end.
        before = (size - 1) // 2
        text = f"{text[:before]}…{text[len(text) - (size - 1 - before) :]}"
    return text.rjust(size) if title in _RIGHT else text.ljust(size)
