"""Demonstrations: buttons that clear a level of Super Mario Bros, from its start to the flag.

They are stored in `demonstrations.toml`, one line per level, and were found by
`python -m spinup_tf2.envs.mario.search`. Each letter stands for buttons that are held for FRAMES
frames of the console, and a number before it for repetitions: "3r2j" is "rrrjj".
"""

import itertools
import re
import sys
from functools import cache
from pathlib import Path

from spinup_tf2.errors import UserError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = Path(__file__).with_name("demonstrations.toml")
FRAMES = 4

# Buttons that are held for each letter; r and j are the actions of "run".
BUTTONS_OF = {
    "r": ("right", "B"),
    "j": ("right", "A", "B"),
    "n": (),
    "l": ("left", "B"),
    "k": ("left", "A", "B"),
    "u": ("A",),
    "d": ("down",),
}


@cache
def demonstrated() -> dict[str, str]:
    """Return the demonstrations by the names of their levels, such as "1-1"; a letter per step."""
    return read(FILE)


def read(path: Path) -> dict[str, str]:
    """Read the demonstrations in a file; an empty dict if there is no such file."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return {stage: written_out(plan) for stage, plan in tomllib.loads(text).items()}


def demonstration(stage: str) -> str:
    """Return the demonstration of a level, one letter for each step of FRAMES frames."""
    if stage not in demonstrated():
        known = ", ".join(demonstrated())
        raise UserError(
            f"There is no demonstration of {stage}; there are some of {known}. "
            f"Search for one with: python -m spinup_tf2.envs.mario.search --stage {stage}"
        )
    return demonstrated()[stage]


def written_out(text: str) -> str:
    """Expand "3r2j" to "rrrjj"."""
    return "".join(int(number or 1) * letter for number, letter in re.findall(r"(\d*)(\D)", text))


def shortened(plan: str) -> str:
    """Shorten "rrrjj" to "3r2j"."""
    runs = ((letter, len([*group])) for letter, group in itertools.groupby(plan))
    return "".join(f"{number if number > 1 else ''}{letter}" for letter, number in runs)
