"""Prints text on the terminal: in color, above progress bars, and without control characters."""

import io
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TextIO

from spinup_tf2.errors import printable

_NAMES = ("gray", "red", "green", "yellow", "blue", "magenta", "cyan", "white", "crimson")
_COLORS = {name: 30 + number for number, name in enumerate(_NAMES)}

RULE_WIDTH = 80
RULE = "=" * RULE_WIDTH


def colorize(string: str, color: str, bold: bool = False, highlight: bool = False) -> str:
    """Surround `string` with the escape codes for a color."""
    code = str(_COLORS[color] + (10 if highlight else 0))
    if bold:
        code += ";1"
    return f"\x1b[{code}m{string}\x1b[0m"


def colored(string: str, color: str, bold: bool = False, highlight: bool = False) -> str:
    """Return `colorize(...)` if stdout is a terminal, else `string`, for files and pipes."""
    return colorize(string, color, bold, highlight) if is_terminal(sys.stdout) else string


def is_terminal(stream: Any) -> bool:
    """Return whether a stream is a terminal, and not a program's replacement, closed, or None."""
    with suppress(Exception):  # a replacement may lack the method, or raise anything
        return bool(stream.isatty())
    return False


def say(text: str, file: TextIO | None = None) -> None:
    """Print a line at once, above the progress bar if there is one.

    A line that cannot be written is lost, as training is more important.

    Args:
        text: The line.
        file: `sys.stderr`, or another stream; None for stdout.
    """
    from tqdm import tqdm  # would be a tenth of the startup time of every command

    stream = file or sys.stdout
    if stream is None:
        return
    try:
        try:
            tqdm.write(text, file=stream)
        except UnicodeEncodeError:
            replace_unencodable()
            encoding = getattr(stream, "encoding", None) or "ascii"
            tqdm.write(text.encode(encoding, "replace").decode(encoding), file=stream)
        stream.flush()
    except OSError:  # the disk is full, or the pipe is closed
        lose_lines()
    except (ValueError, AttributeError):  # it is closed, or a replacement that can only write
        pass


def warn(text: str) -> None:
    """Print a warning in red. As with `say`, it is lost if it cannot be written."""
    say(colored(printable(f"Warning: {text}"), "red", bold=True))


def replace_unencodable() -> None:
    """Make stdout and stderr write a question mark for what their encoding lacks, not raise."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            with suppress(OSError):  # the disk is full, which is reported when a line is written
                stream.reconfigure(errors="replace")


def lose_lines(errors: type[OSError] = OSError) -> None:
    """Make stdout and stderr silently drop anything that they cannot write, from now on.

    So no other print fails, nor does the exit of the process. When a full disk has room again,
    lines are written again; characters that the encoding lacks become question marks. Streams with
    which a program or a notebook has replaced Python's own are not changed.

    Args:
        errors: Class of errors that are ignored: BrokenPipeError for closed pipes only, OSError for
            full disks as well.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        ours = stream is getattr(sys, f"__{name}__") or isinstance(stream, _LossyStream)
        if isinstance(stream, io.TextIOWrapper) and ours:
            setattr(sys, name, _lossy(stream, errors))


class _LossyStream(io.TextIOWrapper):
    """A text stream on top of a `_LossyFile`."""


class _LossyFile(io.FileIO):
    """A file that silently drops data if writing fails with one of `errors`."""

    def __init__(self, fd, errors):
        super().__init__(fd, "wb", closefd=False)
        self._errors = errors

    def write(self, data):
        try:
            return super().write(data)
        except self._errors:
            return len(data)


def _lossy(stream, errors):
    """Return a lossy stream to the same file as `stream`, which must not be used any more."""
    _drop_unwritten(stream)
    file = _LossyFile(stream.fileno(), errors)
    return _LossyStream(
        file if stream.write_through else io.BufferedWriter(file),  # as in Python with -u
        stream.encoding,
        "replace" if stream.errors == "strict" else stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _drop_unwritten(stream):
    """Empty a stream's buffer, even if it cannot be written, so that the exit raises no error."""
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
    """Print a text that may contain names from untrusted files."""
    replace_unencodable()
    print(printable(text))


def format_table(row: Mapping[str, Any]) -> str:
    """Format a dict as a table, with three digits for numbers and anything else as it is."""
    width = max(15, *map(len, row))
    rule = "-" * (22 + width)
    lines = [rule]
    for name, value in row.items():
        text = f"{float(value):8.3g}" if hasattr(value, "__float__") else value
        lines.append(f"| {name:>{width}} | {text!s:>15} |")
    return printable("\n".join([*lines, rule]))
