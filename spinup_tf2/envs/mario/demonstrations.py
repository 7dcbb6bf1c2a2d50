"""Demonstrations: buttons that clear a level of Super Mario Bros, from its start to the flag.

They are stored in `demonstrations.toml`, one line per level, and were found by
`python -m spinup_tf2.envs.mario.search`. Each letter stands for buttons that are held for FRAMES
frames of the console, and a number before it for repetitions: "3r2j" is "rrrjj".
"""

import itertools
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

from spinup_tf2.envs.mario.emulator import NesPy
from spinup_tf2.envs.mario.game import BUTTONS, Game
from spinup_tf2.errors import UserError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

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
HELD = {letter: sum(BUTTONS[name] for name in pressed) for letter, pressed in BUTTONS_OF.items()}


@cache
def demonstrated() -> dict[str, str]:
    """Return the demonstrations by the names of their levels, such as "1-1"; a letter per step."""
    text = Path(__file__).with_name("demonstrations.toml").read_text(encoding="utf-8")
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


# ---------------------------------------------------------------------------- playing


def at_start(level: tuple[int, int], make_core: Callable[[], NesPy], noops: int) -> Game:
    """Return a new game at the start of a level, after `noops` frames without a button pressed."""
    game = Game(make_core(), level)
    game.reset()
    for _ in range(noops):
        game.step(0)
    return game


def play_step(game: Game, letter: str) -> tuple[bool, dict]:
    """Hold the buttons of a letter for FRAMES frames; return whether it is over, and the last info.

    It is also over if Mario gets to another level, through a warp zone.
    """
    for _ in range(FRAMES):
        _, over, info = game.step(HELD[letter])
        if over:
            break
    return over or (info["world"], info["stage"]) != game.level, info


def reaches_flag(
    level: tuple[int, int], plan: str, make_core: Callable[[], NesPy] = NesPy, noops: int = 0
) -> bool:
    """Return whether a plan clears a level with exactly its last step, on a new console."""
    game = at_start(level, make_core, noops)
    try:
        for number, letter in enumerate(plan, 1):
            over, info = play_step(game, letter)
            if over:
                return info["flag_get"] and number == len(plan)
    finally:
        game.close()
    return False
