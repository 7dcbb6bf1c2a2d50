"""Corrections of a network that plays Super Mario Bros: as little as possible, up to the flag."""

from functools import partial

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from spinup_tf2.envs.mario.demonstrations import demonstration
from spinup_tf2.examples import mario_corrections
from spinup_tf2.examples.mario_corrections import Player, corrected, helped
from spinup_tf2.examples.mario_ways import Start, Way, frames_of
from spinup_tf2.experiments.presets import load
from spinup_tf2.utils.run_utils import EnvFn
from tests.envs.mario.consoles import needs_emulator

PRESET = load("ppo", "mario-demo")
ENV_FN = EnvFn(PRESET.env, {**PRESET.env_kwargs, "stages": ["1-4"]})
START = Start("1-4", 7)


class Lights:
    """An environment that shows how many steps there have been, up to the flag or a death.

    plans: the sequences that lead to the flag.
    reward: what a step on the way there gives.
    deadly: whether every other step is a death; if not, it gives nothing, like all that follow.
    """

    letters = "rj"
    observation_space = spaces.Box(0, 99, (1,), np.int64)

    def __init__(self, *plans, reward=10.0, deadly=True):
        self.plans, self.reward, self.deadly, self.resets = plans, reward, deadly, []

    @property
    def unwrapped(self):
        return self

    def reset(self, *, options):
        self.resets.append(options)
        self.played = self.kept if options.get("from_backup") else ""
        return np.array([len(self.played)]), {}

    def backup(self):
        self.kept = self.played

    def step(self, act):
        self.played += "rj"[act]
        lost = not any(plan.startswith(self.played) for plan in self.plans)
        dead = lost and self.deadly
        success = self.played in self.plans
        obs, rew = np.array([len(self.played)]), -50.0 if dead else 0.0 if lost else self.reward
        return obs, rew, dead or success, False, dict(is_success=success)

    def actions_of(self, plan):
        return ["rj".index(letter) for letter in plan]

    def plan_of(self, actions):
        return "".join("rj"[act] for act in actions)

    def close(self):
        self.closed = True


def network_of(plan):
    """Whose most likely actions are these letters, one for each step."""
    logits = tf.one_hot(["rj".index(letter) for letter in plan], 2) * 9
    return lambda obs: tf.gather(logits, obs[:, 0])


def failed(env, plan):
    """A player that has played like this."""
    player = Player(env, network_of(plan))
    player.begin(START)
    player.go_on()
    return player


# ---------------------------------------------------------------------------- playing


def test_an_episode_is_played_with_the_most_likely_actions_or_with_samples():
    logits = tf.constant([[0.2, 0.0], [0.0, 1.0], [0.3, 0.0]])
    env = Lights("rjr")
    player = Player(env, lambda obs: tf.gather(logits, obs[:, 0]))

    def episode(seed=None):
        player.begin(START)
        player.go_on(None if seed is None else np.random.default_rng(seed))
        assert player.best == [0, 1, 0][: len(player.played)]
        assert player.success == (player.played == [0, 1, 0])
        return player.played

    assert episode() == [0, 1, 0]
    episodes = [episode(seed) for seed in range(400)]
    assert env.resets == [dict(stages=["1-4"], noops=7)] * 401
    assert episode(3) == episodes[3]
    probability = np.prod(1 / (1 + np.exp([-0.2, -1.0, -0.3])))  # of r, j and r
    share = np.mean([played == [0, 1, 0] for played in episodes])
    assert share == pytest.approx(probability, abs=0.08)


@needs_emulator
@pytest.mark.parametrize("step", [0, 2, 30])
def test_it_goes_back_to_a_step_of_an_episode(step):
    """With the same frames, returns and actions as before, as often as it likes."""
    env = ENV_FN()
    player = Player(env, None)
    plan = env.unwrapped.actions_of(demonstration("1-4")[:45])
    player.begin(START, plan[:step])
    there = player._obs, player._return, player.furthest
    player.take(plan[step:])
    later = player._obs, player._return, player.furthest, player.over, player.played
    player.remember(START, plan[:step])
    for _ in range(2):
        player.go_back()
        for is_now, was in zip((player._obs, player._return, player.furthest), there, strict=True):
            np.testing.assert_array_equal(is_now, was)
        player.take(plan[step:])
        now = player._obs, player._return, player.furthest, player.over, player.played
        for is_now, was in zip(now, later, strict=True):
            np.testing.assert_array_equal(is_now, was)
    env.close()


# ---------------------------------------------------------------------------- help


@pytest.mark.parametrize(
    ("env", "played", "expected"),
    [
        # It presses r in the fifth step, where only j does not kill, and is right otherwise.
        (Lights("rjrrjrjr"), "rjrrrrjr", "rjrrjrjr"),
        # Both lead to the flag, another last step and another one before: the shortest way back.
        (Lights("rrrrj", "rrrj"), "rrrrr", "rrrrj"),
        # Two deviations are needed, and after the first it has not come much further.
        (Lights("rjrjrjrj", reward=0.5), "rrrrrrrr", None),
    ],
)
def test_it_is_made_to_do_something_else_and_then_plays_by_itself(env, played, expected):
    found = helped(failed(env, played), START)
    assert (found and env.plan_of(found)) == expected


# ---------------------------------------------------------------------------- corrections


def test_where_it_fails_it_is_shown_what_leads_on(monkeypatch):
    made, asked = [], []
    ways = {"1-1": "rjrr", "1-2": "rjrrjr", "1-3": "jrjr", "1-4": "jrjjjr"}

    def env_of(stage):
        made.append(Lights(ways[stage], reward=0.5))
        return made[-1]

    def plan_after(stage, noops, letters, begun):
        asked.append((stage, noops, letters, begun))
        return ways[stage] if stage == "1-4" else None

    monkeypatch.setattr(mario_corrections, "plan_after", plan_after)
    logits_of = network_of("rjrrrr")
    starts = [Start("1-1", 0), Start("1-2", 4), Start("1-3", 2), Start("1-4", 3)]
    found = [corrected(partial(env_of, each.stage), logits_of, each) for each in starts]
    assert found == [
        Way(starts[0], True, "rjrr", "rjrr"),  # no help
        Way(starts[1], False, "rjrrjr", "rjrrjr"),  # a deviation
        Way(starts[2], False),  # nothing
        Way(starts[3], False, "jrjjjr", "jrjjjr"),  # a search
    ]
    assert asked == [("1-3", 2, "rj", "r"), ("1-4", 3, "rj", "r")]
    [(obs, act)] = frames_of(partial(env_of, "1-2"), found[1:2])
    assert obs[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert act.tolist() == [0, 1, 0, 0, 1, 0]
    assert all(env.closed for env in made)


def test_up_to_where_the_ways_part_it_is_shown_what_it_thinks_best(monkeypatch):
    """Not what was sampled: that would be another action in the same place."""
    monkeypatch.setattr(mario_corrections, "helped", lambda *_: [0, 0, 1, 0])
    player = Player(Lights("rrjr"), thinks_j := lambda obs: tf.constant([[0.0, 1e-3]]))
    ended = set()
    for seed in range(60):
        player.begin(Start("1-1", 0, seed))
        player.go_on(np.random.default_rng(seed))
        steps = len(player.played)
        learned = "jjjj" if player.success else "j" * (steps - 1) + "rrjr"[steps - 1 :]
        expected = Way(Start("1-1", 0, seed), player.success, "rrjr", learned)
        assert corrected(lambda: Lights("rrjr"), thinks_j, Start("1-1", 0, seed)) == expected
        ended.add((steps, player.success))
    assert ended == {(1, False), (2, False), (3, False), (4, False), (4, True)}
