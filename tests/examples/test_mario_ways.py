"""Ways to the flag that Mario is shown: how they are found, kept, and played."""

from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from spinup_tf2.envs.mario.demonstrations import demonstration
from spinup_tf2.errors import UserError
from spinup_tf2.examples import mario_ways
from spinup_tf2.examples.mario_ways import Start, Way, Ways
from spinup_tf2.presets import load
from spinup_tf2.utils.run_utils import EnvFn
from tests.envs.mario.consoles import needs_emulator

PRESET = load("ppo", "mario-demo")
STAGES = ["1-4", "1-1"]
ENV_FN = EnvFn(PRESET.env, {**PRESET.env_kwargs, "stages": STAGES})


# ---------------------------------------------------------------------------- demonstrations


@needs_emulator
def test_it_is_shown_what_clears_each_level():
    ways = [mario_ways.demonstrated("rj", Start(stage, 0)) for stage in STAGES]
    obs, act = map(np.concatenate, zip(*mario_ways.frames_of(ENV_FN, ways, cpu=2), strict=True))
    plan = "".join(demonstration(stage) for stage in STAGES)
    assert act.tolist() == ["rj".index(letter) for letter in plan]
    assert obs.shape == (len(plan), 84, 84, 4)
    for start in (0, len(demonstration("1-4"))):  # the first frame four times, and others then
        assert (obs[start] == obs[start, ..., :1]).all()
        assert (obs[start + 9] != obs[start + 9, ..., :1]).any()


def test_where_no_way_is_found_it_says_so(monkeypatch, capsys):
    asked = []
    plans = {9: "jjr", 12: None}
    monkeypatch.setattr(mario_ways, "plan_after", lambda *of: asked.append(of) or plans[of[1]])
    assert mario_ways.demonstrated("rj", Start("1-4", 9)) == Way(
        Start("1-4", 9), False, "jjr", "jjr"
    )
    assert capsys.readouterr().out == ""
    assert mario_ways.demonstrated("rj", Start("1-4", 12)) == Way(Start("1-4", 12), False)
    said = "No way through 1-4 was found after 12 frames of doing nothing.\n"
    assert capsys.readouterr().out == said
    assert asked == [("1-4", 9, "rj"), ("1-4", 12, "rj")]


@needs_emulator
def test_a_way_that_does_not_reach_the_flag_is_told():
    with pytest.raises(UserError, match="way through 1-1 that is to be learned does not reach"):
        mario_ways.frames_of(ENV_FN, [Way(Start("1-1", 0), False, "rrj", "rrj")])


def test_in_the_same_observation_the_first_action_is_learned():
    first = np.array([[3, 3], [1, 2], [3, 3]], np.uint8), np.array([0, 1, 0])
    then = np.array([[1, 2], [2, 1], [3, 3]], np.uint8), np.array([0, 0, 1])
    obs, act = mario_ways.together([first, then])
    assert obs.dtype == np.uint8
    assert obs.tolist() == [[3, 3], [1, 2], [2, 1]]
    assert act.tolist() == [0, 1, 0]


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


# ---------------------------------------------------------------------------- corrections


class Lights:
    """An environment that shows how many steps there have been, up to the flag or a death."""

    letters = "rj"

    def __init__(self, plan):
        self.plan, self.resets = plan, []

    @property
    def unwrapped(self):
        return self

    def reset(self, *, options):
        self.resets.append(options)
        self.played = ""
        return np.array([0]), {}

    def step(self, act):
        self.played += "rj"[act]
        dead = not self.plan.startswith(self.played)
        success = self.played == self.plan
        obs = np.array([len(self.played)])
        return obs, 0.0, dead or success, False, dict(is_success=success)

    def actions_of(self, plan):
        return ["rj".index(letter) for letter in plan]

    def plan_of(self, actions):
        return "".join("rj"[act] for act in actions)

    def close(self):
        self.closed = True


def test_an_episode_is_played_with_the_most_likely_actions_or_with_samples():
    logits = tf.constant([[0.2, 0.0], [0.0, 1.0], [0.3, 0.0]])
    uncertain = lambda obs: tf.gather(logits, obs[:, 0])  # noqa: E731
    best = mario_ways.play(Lights("rjr"), uncertain, Start("1-4", 7))
    assert best == ([0, 1, 0], [0, 1, 0], True)
    env = Lights("rjr")
    starts = [Start("1-4", 7, seed) for seed in range(400)]
    episodes = [mario_ways.play(env, uncertain, start) for start in starts]
    assert env.resets == [dict(stages=["1-4"], noops=7)] * 400
    assert mario_ways.play(env, uncertain, starts[3]) == episodes[3]
    probability = np.prod(1 / (1 + np.exp([-0.2, -1.0, -0.3])))  # of r, j and r
    assert np.mean([success for _, _, success in episodes]) == pytest.approx(probability, abs=0.08)
    for played, best, success in episodes:
        assert best == [0, 1, 0][: len(played)]
        assert success == (played == [0, 1, 0])


def test_an_episode_that_is_stuck_comes_to_an_end(monkeypatch):
    monkeypatch.setattr(mario_ways, "LONGEST", 3)
    always_r = lambda obs: tf.constant([[1.0, 0.0]])  # noqa: E731
    played, _, success = mario_ways.play(Lights("rrrrr"), always_r, Start("1-4", 0))
    assert (played, success) == ([0, 0, 0], False)


def test_where_it_fails_it_is_shown_what_leads_on(monkeypatch):
    """It presses r in the fifth step, where only j does not kill; up to there it is right."""
    made, asked = [], []
    ways = {"1-1": "rjrr", "1-2": "rjrrjj", "1-3": "rrr"}

    def env_of(stage):
        made.append(Lights(ways[stage]))
        return made[-1]

    def plan_after(stage, noops, letters, begun):
        asked.append((stage, noops, letters, begun))
        return ways[stage] if stage == "1-2" else None

    monkeypatch.setattr(mario_ways, "plan_after", plan_after)
    best = tf.constant([[9.0, 0], [0, 9], [9, 0], [9, 0], [9, 0], [9, 0]])
    logits_of = lambda obs: tf.gather(best, obs[:, 0])  # noqa: E731
    starts = [Start("1-1", 0), Start("1-2", 4), Start("1-3", 2)]
    found = [mario_ways.corrected(partial(env_of, each.stage), logits_of, each) for each in starts]
    assert found == [
        Way(starts[0], success=True),
        Way(starts[1], False, "rjrrjj", "rjrrjj"),
        Way(starts[2], success=False),
    ]
    assert asked == [("1-2", 4, "rj", "rjrrr"), ("1-3", 2, "rj", "rj")]
    [(obs, act)] = mario_ways.frames_of(partial(env_of, "1-2"), found)
    assert obs[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert act.tolist() == [0, 1, 0, 0, 1, 1]
    assert all(env.closed for env in made)


def test_up_to_the_failure_it_is_shown_what_it_thinks_best(monkeypatch):
    """Not what was sampled: that would be another action in the same place."""
    monkeypatch.setattr(mario_ways, "play", lambda *_: ([0, 1, 1], [1, 1, 1], False))
    monkeypatch.setattr(mario_ways, "plan_after", lambda *_, begun: begun[:2] + "rr")
    way = mario_ways.corrected(lambda: Lights("rjrr"), lambda obs: obs, Start("1-1", 0, 5))
    assert way.plan == "rjrr"
    assert way.learned == "jjrr"


@needs_emulator
@pytest.mark.slow
def test_a_correction_reaches_the_flag(monkeypatch):
    """What is played in 1-4 is the demonstration, which runs on from its hundredth step."""
    plan = demonstration("1-4")
    played = ["rj".index(letter) for letter in plan[:100]] + 12 * [0]
    monkeypatch.setattr(mario_ways, "play", lambda *_: (played, played, False))
    way = mario_ways.corrected(ENV_FN, lambda obs: obs, Start("1-4", 0))
    assert not way.success
    [(obs, act)] = mario_ways.frames_of(ENV_FN, [way])  # which asks for the flag
    assert obs.shape == (len(act), 84, 84, 4)
    same = next(n for n, pair in enumerate(zip(act, played, strict=False)) if len({*pair}) > 1)
    assert same > 60  # it begins as what was played
