"""Finds demonstrations of levels of Super Mario Bros, by trial and error from save states:

    python -m spinup_tf2.envs.mario.search --stage 4-1

A plan grows piece by piece. Random continuations are played from its end, and the first half of the
one that has come furthest, and is still alive, is added to it: so the second half shows that the
plan does not end in a jump into a pit. It stays one of the next continuations, as it is or in part.
Where none gets any further, other buttons are tried as well, and the plan loses its last pieces.

Mario mostly runs, and runs and jumps, for random times. The game is deterministic, so that a plan
that has reached the flag does so always; it is played once more, on another console, before it is
kept in demonstrations.toml.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from spinup_tf2.envs.mario.demonstrations import (
    BUTTONS_OF,
    FILE,
    FRAMES,
    demonstration,
    read,
    shortened,
)
from spinup_tf2.envs.mario.emulator import Core, NesPy
from spinup_tf2.envs.mario.env import ALL_STAGES, LEVELS
from spinup_tf2.envs.mario.game import BUTTONS, Game
from spinup_tf2.runs.files import atomic_output

HORIZON = 32  # steps of a continuation, a bit more than two seconds
OTHER_HORIZONS = (12, 16, 24, 32, 48, 64)  # after failures: to land in time, and to wait
CONTINUATIONS = 24  # that are tried from the end of a plan, at most
SPEED = 12  # pixels in a step of running
FAST_ENOUGH = 0.85  # of that speed: there is no need to try others
LEAST_WAY = 16  # pixels that a continuation must come ahead
FURTHEST_BACK = 12  # pieces that a plan loses at once, at most
CONSOLES = 4
BUDGET = 60_000  # steps of the agent that are tried
SHORT_BUDGET = 10_000  # the same, where most of a plan is known

_HELD = {letter: sum(BUTTONS[name] for name in pressed) for letter, pressed in BUTTONS_OF.items()}
_OTHERS = "nnnnlkud"  # waiting is what helps most often
_LETTERS = "".join(BUTTONS_OF)

Place = tuple[int, int]  # how many areas Mario has seen, and x in this one: the larger, the further


class Consoles:
    """Consoles that stand at the end of plans, so that what follows can be tried there.

    A console has one save state, and the start of a level is not the same again after its reset
    button: for another plan it goes on from where it stands, or a new one begins.

    Attributes:
        steps: How many steps have been played to get to the ends of plans.
    """

    def __init__(self, level: tuple[int, int], make_core: Callable[[], Core], noops: int = 0):
        self._level, self._make_core, self._noops = level, make_core, noops
        self._games: dict[str, Game] = {}  # by the plan at whose end it is; the latest use last
        self.steps = 0

    def at(self, plan: str) -> Game:
        """The game at the end of a plan, which is its save state."""
        if plan in self._games:
            game = self._games.pop(plan)  # to put it last
        else:
            done, game = self._on_the_way_to(plan)
            for letter in plan[len(done) :]:
                play_step(game, letter)
                self.steps += 1
            game.backup()
        self._games[plan] = game
        return game

    def _on_the_way_to(self, plan):
        """A console that can go on to the end of `plan`, and what it has done of it."""
        if len(self._games) == CONSOLES:
            done = next((each for each in self._games if plan.startswith(each)), None)
            if done is not None:
                game = self._games.pop(done)
                game.restore()
                return done, game
            self._games.pop(next(iter(self._games))).close()
        return "", at_start(self._level, self._make_core, self._noops)

    def close(self) -> None:
        for game in self._games.values():
            game.close()
        self._games = {}


def at_start(level: tuple[int, int], make_core: Callable[[], Core], noops: int) -> Game:
    """A new game at the start of a level, after so many frames of doing nothing."""
    game = Game(make_core(), level)
    game.reset()
    for _ in range(noops):
        game.step(0)
    return game


def play_step(game: Game, letter: str) -> tuple[bool, dict]:
    """Hold the buttons of a letter for FRAMES frames: whether that was the end, and the last info.

    It is the end, too, where Mario comes to another level: through a warp zone.
    """
    for _ in range(FRAMES):
        _, over, info = game.step(_HELD[letter])
        if over:
            break
    return over or (info["world"], info["stage"]) != game.level, info


def reaches_flag(
    level: tuple[int, int], plan: str, make_core: Callable[[], Core] = NesPy, noops: int = 0
) -> bool:
    """Whether a plan clears a level, with its last step, on a console of its own."""
    game = at_start(level, make_core, noops)
    try:
        for number, letter in enumerate(plan, 1):
            over, info = play_step(game, letter)
            if over:
                return info["flag_get"] and number == len(plan)
    finally:
        game.close()
    return False


@dataclass
class Piece:
    """The plan up to the end of one of its pieces.

    Attributes:
        plan: All letters up to there.
        areas: The parts of the level that have been seen on the way.
        rest: What can follow without dying.
        failures: How often nothing that followed came further.
    """

    plan: str
    areas: tuple[int, ...] = ()
    rest: str = ""
    failures: int = 0


@dataclass
class Continuation:
    """What has been played from the end of a plan: letters, and areas and place after each.

    over: whether it has ended, with the flag or without.
    """

    letters: str
    areas: list[tuple[int, ...]]
    places: list[Place]
    over: bool
    flag: bool


class Search:
    """The search for a plan that clears a level. `run` returns it.

    Args:
        level: (world, stage).
        seed: Of what is tried.
        budget: How many steps are tried before the search gives up.
        make_core: Makes an emulator.
        report: Is told how far the search is, a line at a time.
        noops: How many frames pass at first, without a button.
        known: A plan of the same level, which is tried first, step by step: most of it is often
            right if it begins a moment later.
        guide: A plan that clears the level. It is tried as well, from where it comes to the place
            at which Mario is: what is right there is often right at another time, too.
        letters: What may be pressed; r and j always may.

    Attributes:
        steps: How many steps have been played.
    """

    def __init__(
        self,
        level: tuple[int, int],
        seed: int = 0,
        budget: int = BUDGET,
        make_core: Callable[[], Core] = NesPy,
        report: Callable[[str], None] = lambda line: None,
        noops: int = 0,
        known: str = "",
        guide: str = "",
        letters: str = _LETTERS,
    ):
        self._rng = np.random.default_rng(seed)
        self._consoles = Consoles(level, make_core, noops)
        self._known, self._guide = known, guide
        self._guide_places = _places(level, guide, make_core) if guide else []
        self._others = [letter for letter in _OTHERS if letter in letters]
        self._budget, self._report = budget, report
        self._tried = 0

    @property
    def steps(self) -> int:
        return self._tried + self._consoles.steps

    def run(self) -> str | None:
        """The plan, a letter for each step; None if there is none within the budget."""
        try:
            return self._run()
        finally:
            self._consoles.close()

    def _run(self):
        pieces, back, furthest = [Piece("")], 1, (0, 0)
        while self.steps < self._budget:
            piece = pieces[-1]
            best = self._continuation_of(piece)
            if best is not None and best.flag:
                return piece.plan + best.letters
            if best is None:
                piece.failures += 1
                if piece.failures > 1:
                    del pieces[max(len(pieces) - back, 1) :]
                    back = min(back + 1, FURTHEST_BACK)
                    pieces[-1].failures += 1
                    pieces[-1].rest = ""
                continue
            half = len(best.letters) // 2
            letters, rest = best.letters[:half], best.letters[half:]
            pieces.append(Piece(piece.plan + letters, best.areas[half - 1], rest))
            if best.places[-1] > furthest:
                furthest, back = best.places[-1], max(1, back - 1)
                self._report(f"part {furthest[0]}, x {furthest[1]:,}; {self.steps:,} steps")
        return None

    def _continuation_of(self, piece: Piece) -> Continuation | None:
        """What a plan goes on with; None if nothing comes ahead.

        That is a continuation with the flag, or the one that comes furthest and is alive. After
        failures it is any that comes ahead, since the fastest way has led nowhere.
        """
        game = self._consoles.at(piece.plan)
        game.restore()
        areas, (part, x) = _place(game, piece.areas)
        ahead = []
        for number in range(CONTINUATIONS):
            game.restore()
            played = self._play(game, self._letters(piece, number, (part, x)), areas)
            if played.flag:
                return played
            if not played.over and played.places[-1] > (part, x + LEAST_WAY):
                ahead.append(played)
                fast = played.places[-1] > (part, x + FAST_ENOUGH * HORIZON * SPEED)
                known = (number == 0 and self._known) or (number == 1 and self._guide)
                if (fast or known) and not piece.failures:
                    break
        if not ahead:
            return None
        if piece.failures:
            return ahead[self._rng.integers(len(ahead))]
        return max(ahead, key=lambda played: played.places[-1])

    def _letters(self, piece: Piece, number: int, place: Place = (1, 0)) -> str:
        """What is tried: every second time with what is known to survive, or a part of it.

        After failures, also shorter and longer ones with other buttons.
        """
        if number == 1 and self._guide:
            return self._guide[self._guided_from(place) :][:HORIZON]
        rng, keep = self._rng, piece.rest if number % 4 < 2 else ""
        if number and keep:
            keep = keep[: rng.integers(len(keep) + 1)]
        length, others = HORIZON, 0.0
        if piece.failures and number % 2:
            length = OTHER_HORIZONS[rng.integers(len(OTHER_HORIZONS))]
            others = 0.15 * min(piece.failures, 3)
        letters = keep
        if number == 0:
            letters += self._known[len(piece.plan) + len(keep) :]
        while len(letters) < length:
            if self._others and rng.random() < others:
                other = self._others[rng.integers(len(self._others))]
                letters += other * int(rng.integers(1, 16))
            else:
                letters += "r" * int(rng.integers(1, 12) if rng.random() < 0.8 else 1)
                letters += "j" * int(rng.integers(1, 10))
        return letters[:length]

    def _guided_from(self, place):
        """The number of steps after which the guide has come to a place."""
        there = (n for n, other in enumerate(self._guide_places) if other >= place)
        return next(there, len(self._guide))

    def _play(self, game, letters, areas):
        played = Continuation("", [], [], over=False, flag=False)
        for letter in letters:
            played.over, info = play_step(game, letter)
            self._tried += 1
            played.letters += letter
            played.flag = played.over and info["flag_get"]
            if played.over:
                break
            areas, place = _place(game, areas)
            played.areas.append(areas)
            played.places.append(place)
        return played


def _place(game, areas):
    """The areas that have been seen, with the present one, and the place."""
    if game.area not in areas:
        areas = (*areas, game.area)
    return areas, (len(areas), game.x)


@cache  # corrections search many times with the same guide
def _places(level, plan, make_core):
    """The place before each step of a plan that clears the level."""
    game = at_start(level, make_core, 0)
    try:
        areas, places = (), []
        for letter in plan:
            areas, place = _place(game, areas)
            places.append(place)
            play_step(game, letter)
        return places
    finally:
        game.close()


def plan_after(
    stage: str, noops: int, letters: str = _LETTERS, seed: int = 0, begun: str | None = None
) -> str | None:
    """A plan that clears a level after frames of doing nothing; None if none is found.

    It is the level's demonstration if that still clears it, and else similar to it.

    Args:
        stage: The level, such as "1-1".
        noops: Number of these frames.
        letters: What may be pressed.
        seed: Of the search.
        begun: What has been played without clearing the level. The plan then begins in the same
            way, for as long as there is one that does.
    """
    level, guide = LEVELS[stage], demonstration(stage)
    if begun is None and reaches_flag(level, guide, noops=noops):
        return guide
    known = dict(known=guide if begun is None else begun, guide=guide)
    return Search(level, seed, SHORT_BUDGET, noops=noops, letters=letters, **known).run()


def keep(stage: str, plan: str, path: Path = FILE) -> None:
    """Write a demonstration into a file, in the place of the level's former one."""
    table = read(path) | {stage: plan}
    lines = [f'"{name}" = "{shortened(table[name])}"\n' for name in sorted(table)]
    with atomic_output(path) as unfinished:
        Path(unfinished).write_text(_HEAD + "".join(lines), encoding="utf-8")


_HEAD = """\
# Found by: python -m spinup_tf2.envs.mario.search --stage S --output FILE
# What the letters mean is said in demonstrations.py.
"""


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--stage", nargs="+", required=True, help="levels, such as 4-1", metavar="S"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", type=int, default=BUDGET, help=f"steps; default {BUDGET}")
    parser.add_argument(
        "--output", type=Path, help="a TOML file that keeps what is found, with what it has already"
    )
    args = parser.parse_args(argv)
    unknown = [stage for stage in args.stage if stage not in ALL_STAGES]
    if unknown:
        parser.error(f"{unknown[0]} is not a level; they are {ALL_STAGES[0]} to {ALL_STAGES[-1]}")
    missing = []
    for stage in args.stage:
        began = time.process_time()
        level = LEVELS[stage]
        report = lambda line, stage=stage: print(f"{stage}: {line}", flush=True)  # noqa: E731
        search = Search(level, args.seed, args.budget, report=report)
        plan = search.run()
        seconds = time.process_time() - began
        if plan is None or not reaches_flag(level, plan):
            missing.append(stage)
            report(f"not cleared in {search.steps:,} steps, {seconds:.0f} s")
            continue
        report(f"cleared in {len(plan)} steps; {search.steps:,} steps tried in {seconds:.0f} s")
        print(f'"{stage}" = "{shortened(plan)}"', flush=True)
        if args.output:
            keep(stage, plan, args.output)
    if missing:
        sys.exit(f"Not found: {', '.join(missing)}. Try another --seed, or a larger --budget.")


if __name__ == "__main__":
    main()
