"""Text on the terminal: in colour, above the progress bar, and without control characters."""

import io
import os
import sys
from collections.abc import Mapping
from typing import Any, TextIO

from spinup_tf2.errors import printable

_COLORS = {
    "gray": 30,
    "red": 31,
    "green": 32,
    "yellow": 33,
    "blue": 34,
    "magenta": 35,
    "cyan": 36,
    "white": 37,
    "crimson": 38,
}


RULE_WIDTH = 80
RULE = "=" * RULE_WIDTH


def colorize(string: str, color: str, bold: bool = False, highlight: bool = False) -> str:
    """Surround `string` with the escape codes of a colour."""
    code = str(_COLORS[color] + (10 if highlight else 0))
    if bold:
        code += ";1"
    return f"\x1b[{code}m{string}\x1b[0m"


def colored(string: str, color: str, bold: bool = False, highlight: bool = False) -> str:
    """`colorize` if stdout is a terminal, else `string` as it is: files and pipes get no codes."""
    return colorize(string, color, bold, highlight) if sys.stdout.isatty() else string


def say(text: str, file: TextIO | None = None) -> None:
    """Print a line at once, above the progress bar if there is one.

    A line that cannot be written is lost: the training is worth more.

    Args:
        text: The line.
        file: `sys.stderr`, or another stream; None for stdout.
    """
    from tqdm import tqdm  # a tenth of what every command would wait for at its start

    try:
        tqdm.write(text, file=file)
        (file or sys.stdout).flush()
    except OSError:  # the disk is full, or nobody reads the pipe any more
        lose_lines()


def warn(text: str) -> None:
    """Print a warning, in red. One that cannot be written is lost, as with `say`."""
    say(colored(printable(f"Warning: {text}"), "red", bold=True))


def lose_lines(errors: type[OSError] = OSError) -> None:
    """Let stdout and stderr drop what they cannot write, from now on and without an error.

    So nothing else that is printed fails either, nor does the end of the process. As soon as a disk
    has room again, lines are written again. What a program or a notebook has put in the place of
    Python's own streams stays as it is.

    Args:
        errors: Those that lose lines: BrokenPipeError stands for pipes that nobody reads any more,
            OSError for full disks, too.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        ours = stream is getattr(sys, f"__{name}__") or isinstance(stream, _LossyStream)
        if isinstance(stream, io.TextIOWrapper) and ours:
            setattr(sys, name, _lossy(stream, errors))


class _LossyStream(io.TextIOWrapper):
    """A stream to a `_LossyFile`."""


class _LossyFile(io.FileIO):
    """A file that drops what it cannot write because of `errors`."""

    def __init__(self, fd, errors):
        super().__init__(fd, "wb", closefd=False)
        self._errors = errors

    def write(self, data):
        try:
            return super().write(data)
        except self._errors:
            return len(data)


def _lossy(stream, errors):
    """A stream that writes to the same file as `stream`, from which nothing else is written."""
    _drop_unwritten(stream)
    file = _LossyFile(stream.fileno(), errors)
    return _LossyStream(
        file if stream.write_through else io.BufferedWriter(file),  # as Python's own, with -u
        stream.encoding,
        stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _drop_unwritten(stream):
    """Leave nothing in a stream's buffer, of which the end of the process would complain."""
    try:
        stream.flush()
    except OSError:
        fd = stream.fileno()
        with open(os.devnull, "wb") as nowhere:
            file = os.dup(fd)
            os.dup2(nowhere.fileno(), fd)
            stream.flush()
            os.dup2(file, fd)
            os.close(file)


def print_safely(text: str) -> None:
    """Print a text in which there may be names that strangers have given."""
    print(printable(text))


def format_table(row: Mapping[str, Any]) -> str:
    """The table of a dict of names and values: numbers with three digits, anything else as is."""
    width = max(15, *map(len, row))
    rule = "-" * (22 + width)
    lines = [rule]
    for name, value in row.items():
        text = f"{float(value):8.3g}" if hasattr(value, "__float__") else value
        lines.append(f"| {name:>{width}} | {text!s:>15} |")
    return printable("\n".join([*lines, rule]))
