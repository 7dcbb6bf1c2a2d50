"""Finds demonstrations of levels of Super Mario Bros, by trial and error from save states:

    python -m spinup_tf2.envs.mario.search --stage 4-1

A plan grows piece by piece. Random continuations are played from its end, and the first half of the
one that gets furthest without dying is added to it; the second half ensures that the plan does not
end in a jump into a pit, and is tried again, in full or in part, as a next continuation. If none
gets any further, other buttons are tried as well, and the plan loses its last pieces.

Mario mostly runs, or runs and jumps, for random times. The game is deterministic, so that a plan
that has reached the flag always does so; it is played once more, on another console, before it is
printed as a line of demonstrations.toml.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from spinup_tf2.envs.mario.demonstrations import (
    BUTTONS_OF,
    at_start,
    demonstration,
    play_step,
    reaches_flag,
    shortened,
)
from spinup_tf2.envs.mario.emulator import NesPy
from spinup_tf2.envs.mario.env import ALL_STAGES, LEVELS
from spinup_tf2.envs.mario.game import Game

HORIZON = 32  # steps of a continuation, a bit more than two seconds
OTHER_HORIZONS = (12, 16, 24, 32, 48, 64)  # after failures: to land in time, or to wait
CONTINUATIONS = 24  # maximum number of continuations from the end of a plan
SPEED = 12  # pixels per step of running
FAST_ENOUGH = 0.85  # share of that speed from which no other continuations are tried
LEAST_WAY = 16  # pixels that a continuation must advance
FURTHEST_BACK = 12  # maximum number of pieces that a plan loses at once
CONSOLES = 4
BUDGET = 60_000  # maximum number of steps that are tried
SHORT_BUDGET = 10_000  # the same, if most of a plan is known

_OTHERS = "nnnnlkud"  # waiting is what helps most often
_LETTERS = "".join(BUTTONS_OF)

Place = tuple[int, int]  # number of areas seen, and x in the current one; larger is further


class Consoles:
    """Consoles saved at the ends of plans, so that continuations can be tried from there.

    A console has only one save state, and after its reset button the start of a level is not
    exactly the same. So for another plan, a console either continues from its saved state, or a new
    one is made.

    Attributes:
        steps: Number of steps that were played to get to the ends of plans.
    """

    def __init__(self, level: tuple[int, int], make_core: Callable[[], NesPy], noops: int = 0):
        self._level, self._make_core, self._noops = level, make_core, noops
        self._games: dict[str, Game] = {}  # by the plan that it has played, the last used last
        self.steps = 0

    def at(self, plan: str) -> Game:
        """Return a game whose save state is the end of a plan."""
        if plan in self._games:
            game = self._games.pop(plan)  # put back in last place below
        else:
            done, game = self._on_the_way_to(plan)
            for letter in plan[len(done) :]:
                play_step(game, letter)
                self.steps += 1
            game.backup()
        self._games[plan] = game
        return game

    def _on_the_way_to(self, plan):
        """Return the part of `plan` that has been played, and a console that can play the rest."""
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


@dataclass
class Piece:
    """The plan up to the end of one of its pieces."""

    plan: str  # all letters up to there
    areas: tuple[int, ...] = ()  # parts of the level that have been seen on the way
    rest: str = ""  # letters that are known to follow without dying
    failures: int = 0  # number of times that no continuation got any further


@dataclass
class Continuation:
    """Letters that were played from the end of a plan, and their results."""

    letters: str
    areas: list[tuple[int, ...]]  # seen after each letter
    places: list[Place]  # after each letter
    over: bool  # whether the game has ended, with or without the flag
    flag: bool  # whether it has ended with the flag


class Search:
    """Searches for a plan that clears a level. `run` returns it.

    Args:
        level: (world, stage).
        seed: Seed of the random continuations.
        budget: Number of steps after which the search gives up.
        make_core: Function that makes an emulator.
        report: Function that is called with lines about the progress of the search.
        noops: Number of frames without a button pressed at the beginning.
        known: A plan for the same level that is tried first, step by step: most of it often works
            if it begins a moment later.
        guide: A plan that clears the level. It is tried as well, from the step at which it gets to
            Mario's place: what works there often works at another time, too.
        letters: Letters that may be used; r and j always may.

    Attributes:
        steps: Number of steps that have been played.
    """

    def __init__(
        self,
        level: tuple[int, int],
        seed: int = 0,
        budget: int = BUDGET,
        make_core: Callable[[], NesPy] = NesPy,
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
        """Return the plan, one letter per step; None if none is found within the budget."""
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
        """Return a continuation of a plan; None if none gets any further.

        It is one that reaches the flag, or else the one that gets furthest without dying. After
        failures it is a random one that gets further, since the fastest way has led nowhere.
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
        """Return letters to try, half of the time beginning with all or a part of the known rest.

        After failures, shorter and longer ones with other buttons are tried as well.
        """
        if number == 1 and (rest := self._guide[self._guided_from(place) :]):
            return rest[:HORIZON]
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
        """Return the number of steps after which the guide gets to a place."""
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
    """Return the areas that have been seen, including the current one, and the place."""
    if game.area not in areas:
        areas = (*areas, game.area)
    return areas, (len(areas), game.x)


@cache  # corrections search many times with the same guide
def _places(level, plan, make_core):
    """Return the place before each step of a plan that clears the level."""
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
    """Return a plan that clears a level after `noops` idle frames; None if none is found.

    It is the level's demonstration if that still clears the level, or else similar to it.

    Args:
        stage: Name of the level, such as "1-1".
        noops: Number of frames without a button pressed at the beginning.
        letters: Letters that may be used.
        seed: Seed of the search.
        begun: Plan that was played without clearing the level. The result then begins in the same
            way, for as long as possible.
    """
    level, guide = LEVELS[stage], demonstration(stage)
    if begun is None and reaches_flag(level, guide, noops=noops):
        return guide
    known = dict(known=guide if begun is None else begun, guide=guide)
    return Search(level, seed, SHORT_BUDGET, noops=noops, letters=letters, **known).run()


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    levels = dict(choices=ALL_STAGES, metavar="S", help="levels, such as 4-1")
    parser.add_argument("--stage", nargs="+", required=True, **levels)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", type=int, default=BUDGET, help=f"steps; default {BUDGET}")
    args = parser.parse_args(argv)
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
    if missing:
        sys.exit(f"Not found: {', '.join(missing)}. Try another --seed, or a larger --budget.")


if __name__ == "__main__":
    main()
