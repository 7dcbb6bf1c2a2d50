"""The search for demonstrations: on courses without an emulator, and what it has found."""

import re
from types import SimpleNamespace

import pytest

from spinup_tf2.envs.mario import search
from spinup_tf2.envs.mario.demonstrations import reaches_flag, written_out
from spinup_tf2.envs.mario.search import Search
from tests.envs.mario.consoles import AT_THE_FLAG, FALLS, LEFT, WORLD, A, FakeConsole, at

LEVEL = (1, 1)
FLAG = 900


class Course(FakeConsole):
    """A way to the right of 2 pixels a frame, with a flag at its end.

    pits: (from, to), through which Mario falls where A is not held.
    walls: (from, to, wall): without A at any moment between the first two, there is a wall later.
    warps: x that lead to another world.
    """

    def __init__(self, pits=(), walls=(), warps=()):
        super().__init__()
        self.pits, self.walls, self.warps = pits, walls, warps
        self.low = set()  # the walls for which A was not held

    def frame(self, buttons):
        before = self.x
        super().frame(buttons & ~LEFT if before == 0 else buttons)
        if self.t <= 0:
            return
        for number, (start, end, wall) in enumerate(self.walls):
            if start <= self.x < end and not buttons & A:
                self.low.add(number)
            if number in self.low and self.x > wall:
                self.write(at(before))
        if any(start <= self.x < end for start, end in self.pits) and not buttons & A:
            self.write(FALLS)
        if any(x <= self.x < x + 8 for x in self.warps) and not buttons & A:
            self.write({WORLD: 3})
        if self.x >= FLAG:
            self.write(AT_THE_FLAG)

    @property
    def x(self):
        return self.ram[0x6D] * 256 + self.ram[0x86]

    def reset(self):
        super().reset()
        self.low = set()

    def backup(self):
        super().backup()
        self.saved_low = {*self.low}

    def restore(self):
        super().restore()
        self.low = {*self.saved_low}


class Courses:
    """Makes consoles, and knows them all."""

    def __init__(self, **course):
        self.course, self.made, self.open = course, [], 0

    def __call__(self):
        self.made.append(Course(**self.course))
        open_now = sum(not each.closed for each in self.made)
        self.open = max(self.open, open_now)
        return self.made[-1]


@pytest.fixture(autouse=True)
def slow_mario(monkeypatch):
    """On these courses Mario makes 8 pixels in a step."""
    monkeypatch.setattr(search, "SPEED", 8)


PITS = [(200, 220), (420, 430), (600, 630)]


def test_a_plan_clears_the_course_on_another_console():
    courses = Courses(pits=PITS)
    plan = Search(LEVEL, make_core=courses).run()
    assert {*plan} == {"r", "j"}
    assert len(plan) == (FLAG - 40) / 8 + 0.5  # there is no faster way
    assert reaches_flag(LEVEL, plan, Courses(pits=PITS))
    assert not reaches_flag(LEVEL, plan[:-1], Courses(pits=PITS))
    assert not reaches_flag(LEVEL, plan + "r", Courses(pits=PITS))
    assert not reaches_flag(LEVEL, "r" * len(plan), Courses(pits=PITS))


def test_a_dead_end_is_left_again():
    """What shuts the way is behind several pieces of the plan."""
    walls = [(100, 124, 500)]
    lines = []
    found = Search(LEVEL, seed=7, make_core=Courses(walls=walls), report=lines.append)
    plan = found.run()
    assert found.steps > 10_000  # without the wall it takes 412
    assert reaches_flag(LEVEL, plan, Courses(walls=walls))
    assert "jjj" in plan[7:11]  # from 100 to 124
    assert re.fullmatch(r"part 1, x [\d,]+; [\d,]+ steps", lines[0])


# ---------------------------------------------------------------------- with something in advance


def test_a_known_plan_is_mended_where_it_does_not_hold():
    known = Search(LEVEL, make_core=Courses(pits=PITS[:1])).run()
    assert not reaches_flag(LEVEL, known, Courses(pits=PITS))
    plan = Search(LEVEL, make_core=Courses(pits=PITS), known=known).run()
    assert reaches_flag(LEVEL, plan, Courses(pits=PITS))
    same = next(i for i, (a, b) in enumerate(zip(plan, known, strict=False)) if a != b)
    assert same > 10  # and it is the known one until the second pit comes in sight


def test_a_guide_is_taken_from_the_place_that_mario_has_come_to():
    """He is late by three steps, so that what follows step by step falls into the second pit."""
    guide = Search(LEVEL, make_core=Courses(pits=PITS)).run()
    begun = "nnn" + guide[:40] + 30 * "r"
    assert not reaches_flag(LEVEL, begun, Courses(pits=PITS))
    guided = Search(LEVEL, make_core=Courses(pits=PITS), known=begun, guide=guide)
    plan = guided.run()
    assert reaches_flag(LEVEL, plan, Courses(pits=PITS))
    # 32 steps are what has been played; the next ones are the guide's at the same x.
    assert plan[:48] == "nnn" + guide[:45]
    assert guided.steps < 10 * len(plan)


@pytest.mark.parametrize("holds", [True, False])
def test_a_plan_after_frames_of_doing_nothing(holds, monkeypatch):
    """The demonstration, if it still reaches the flag, and else what a search finds with it."""
    monkeypatch.setattr(search, "demonstration", {"1-2": "rrr"}.get)
    asked = []

    def reaches(level, plan, noops):
        asked.append((level, plan, noops))
        return holds

    def found(*args, **kwargs):
        asked.append((*args, kwargs))
        return SimpleNamespace(run=lambda: "jjj")

    monkeypatch.setattr(search, "reaches_flag", reaches)
    monkeypatch.setattr(search, "Search", found)
    plan = search.plan_after("1-2", 7, letters="rj", seed=3)
    assert plan == ("rrr" if holds else "jjj")
    assert asked[0] == ((1, 2), "rrr", 7)
    options = dict(noops=7, known="rrr", guide="rrr", letters="rj")
    searched = ((1, 2), 3, search.SHORT_BUDGET, options)
    assert asked[1:] == ([] if holds else [searched])
    # What has been played already has failed.
    asked.clear()
    assert search.plan_after("1-2", 7, letters="rj", seed=3, begun="rj") == "jjj"
    assert asked == [((1, 2), 3, search.SHORT_BUDGET, options | dict(known="rj"))]


# ------------------------------------------------------------------------------------- the file


def test_the_command_searches_and_prints(monkeypatch, capsys):
    found = {(1, 1): "rrjr", (1, 2): None}
    monkeypatch.setattr(Search, "run", lambda self: found[self._consoles._level])
    monkeypatch.setattr(search, "reaches_flag", lambda level, plan: True)
    with pytest.raises(SystemExit, match=r"Not found: 1-2. Try another --seed, or a larger"):
        search.main(["--stage", "1-1", "1-2"])
    printed = capsys.readouterr().out
    assert "1-1: cleared in 4 steps; 0 steps tried in 0 s" in printed
    assert '"1-1" = "2rjr"\n' in printed
    assert written_out("2rjr") == "rrjr"
    assert "1-2: not cleared in 0 steps" in printed
