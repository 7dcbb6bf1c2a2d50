"""Text on the terminal: in colour, above the progress bar, and without control characters."""

import sys
from collections.abc import Mapping
from typing import Any

from tqdm import tqdm

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


def say(text: str) -> None:
    """Print a line at once, above the progress bar if there is one."""
    tqdm.write(text)
    sys.stdout.flush()


def warn(text: str) -> None:
    """Print a warning, in red."""
    say(colored(printable(f"Warning: {text}"), "red", bold=True))


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
