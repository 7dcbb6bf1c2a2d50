"""Ways to the flag that Mario is shown: the demonstrations, and how they are kept and played."""

import pytest

from spinup_tf2.envs.mario.demonstrations import demonstration
from spinup_tf2.examples import mario_ways
from spinup_tf2.examples.mario_ways import Start, Way, Ways
from spinup_tf2.experiments.presets import load
from spinup_tf2.utils.run_utils import EnvFn
from tests.envs.mario.consoles import needs_emulator

PRESET = load("ppo", "mario-demo")
STAGES = ["1-4", "1-1"]
ENV_FN = EnvFn(PRESET.env, {**PRESET.env_kwargs, "stages": STAGES})


# ---------------------------------------------------------------------------- demonstrations


@needs_emulator
def test_it_is_shown_what_clears_a_level():
    way = mario_ways.first_way("rj", [], Start("1-4", 0))
    [(obs, act)] = mario_ways.frames_of(ENV_FN, [way])
    plan = demonstration("1-4")
    assert act.tolist() == ["rj".index(letter) for letter in plan]
    assert obs.shape == (len(plan), 84, 84, 4)
    assert (obs[0] == obs[0, ..., :1]).all()  # the first frame four times, and others then
    assert (obs[9] != obs[9, ..., :1]).any()


def test_nothing_is_searched_for_where_a_plan_for_another_start_will_do(monkeypatch):
    asked = []
    plans = {9: "jjr", 12: None}
    monkeypatch.setattr(mario_ways, "plan_after", lambda *of: asked.append(of) or plans[of[1]])
    reached = lambda level, plan, noops: (level, plan, noops) == ((1, 4), "jjr", 15)  # noqa: E731
    monkeypatch.setattr(mario_ways, "reaches_flag", reached)
    for start, plan in ((Start("1-4", 9), "jjr"), (Start("1-4", 15), "jjr")):
        way = mario_ways.first_way("rj", ["rr", "jjr"], start)
        assert way == Way(start, False, plan, plan)
    assert mario_ways.first_way("rj", ["rr"], Start("1-4", 12)) == Way(Start("1-4", 12), False)
    assert asked == [("1-4", 9, "rj"), ("1-4", 12, "rj")]


@pytest.mark.parametrize("cpu", [1, 2])
def test_what_was_found_for_one_start_is_tried_for_the_next(cpu, tmp_path, monkeypatch):
    """In the same level. And the way that was found last clears the level from all starts."""
    asked, last = [], {"1-4": "n", "2-1": "k"}

    def plan_after(stage, noops, letters):
        asked.append((stage, noops))
        return {0: "rj", 6: "jj"}[noops] + last[stage]

    def reaches_flag(level, plan, noops):
        assert plan[2] == last["{}-{}".format(*level)]
        return plan[:2] == "jj" or noops < 6

    monkeypatch.setattr(mario_ways, "plan_after", plan_after)
    monkeypatch.setattr(mario_ways, "reaches_flag", reaches_flag)
    starts = [Start(stage, noops) for stage in ("1-4", "2-1") for noops in (0, 3, 6, 9)]
    path = tmp_path / "ways.jsonl"
    found = mario_ways.first_ways(Ways(path), starts, "rj", cpu)
    plans = ["jj" + last[start.stage] for start in starts]
    assert found == [
        Way(start, False, plan, plan) for start, plan in zip(starts, plans, strict=True)
    ]
    assert sorted(asked) == [("1-4", 0), ("1-4", 6), ("2-1", 0), ("2-1", 6)]
    asked.clear()
    assert mario_ways.first_ways(Ways(path), starts, "rj", cpu) == found
    assert asked == []


# ---------------------------------------------------------------------------- the file


STARTS = [Start("1-4", 0), Start("1-4", 3), Start("1-1", 0, 7)]


def way_of(start):
    if start.seed is not None:
        return Way(start, success=True)
    return Way(start, False, "rrrj" * (start.noops + 1), "rrjj" * (start.noops + 1))


def test_ways_are_found_once(tmp_path):
    asked = []
    find = lambda start: asked.append(start) or way_of(start)  # noqa: E731
    path = tmp_path / "ways.jsonl"
    first = Ways(path).of_round(1, STARTS[:2], find, cpu=2)
    assert sorted(asked) == STARTS[:2]
    again = Ways(path)
    assert again.of_round(1, STARTS, find, cpu=2) == [*map(way_of, STARTS)]
    assert asked[2:] == STARTS[2:]
    assert first == [*map(way_of, STARTS[:2])]
    assert again.of_round(2, STARTS[:1], find, cpu=1) == [way_of(STARTS[0])]
    assert asked[3:] == STARTS[:1]  # another round is another network
    assert Ways(path).of_round(1, STARTS[::-1], None, cpu=1) == [*map(way_of, STARTS[::-1])]


def test_what_was_found_before_a_crash_is_kept(tmp_path):
    path = tmp_path / "ways.jsonl"

    def find(start):
        if start == STARTS[2]:
            raise KeyboardInterrupt
        return way_of(start)

    with pytest.raises(KeyboardInterrupt):
        Ways(path).of_round(0, STARTS, find, cpu=1)
    whole = path.read_text()
    assert len(whole.splitlines()) == 2
    path.write_text(whole + '[0, ["1-1", 0, 7], tr')  # half a line
    ways = Ways(path)
    assert path.read_text() == whole
    asked = []
    found = ways.of_round(0, STARTS, lambda start: asked.append(start) or way_of(start), cpu=1)
    assert asked == STARTS[2:]
    assert found == [*map(way_of, STARTS)]
