"""Episodes that begin along a demonstration, on a console without an emulator."""

import pytest

from spinup_tf2.envs.mario import demonstrations
from spinup_tf2.envs.mario.wrappers import DemonstrationStarts, preprocess
from spinup_tf2.errors import UserError
from tests.envs.mario.consoles import DIES, RIGHT, A, B, fake_mario, needs_cv2

pytestmark = needs_cv2

PLAN = "r" * 50 + "j" * 51  # 101 steps, so that a share of s is 100 s steps
STEP = 8  # pixels
START = 40


@pytest.fixture(autouse=True)
def known(monkeypatch):
    table = {"1-1": PLAN, "1-2": "rrnrr"}
    monkeypatch.setattr(demonstrations, "demonstrated", lambda: table)


def mario(**kwargs):
    return fake_mario(**{"actions": "run", "obs_type": "grayscale"} | kwargs)


@pytest.mark.parametrize(("share", "steps"), [(0, 0), (0.3, 30), (0.995, 99), (1.0, 100)])
def test_an_episode_begins_where_so_much_of_the_demonstration_is_over(share, steps):
    env = mario()
    _, info = env.reset(options={"demonstration": share})
    assert info["x_pos"] == START + STEP * steps
    [console] = env.consoles
    run, jump = RIGHT | B, RIGHT | A | B
    expected = [run] * 4 * min(steps, 50) + [jump] * 4 * max(steps - 50, 0)
    assert console.pressed == expected
    assert env.reset()[1]["x_pos"] == START


def test_the_share_is_drawn_with_the_seed():
    env = mario()
    options = {"demonstration": (0.25, 0.5)}
    places = [env.reset(seed=seed, options=options)[1]["x_pos"] for seed in [*range(30), 0]]
    steps = [(x - START) / STEP for x in places]
    assert steps[0] == steps[-1]
    assert 25 <= min(steps) < 30
    assert 45 < max(steps) < 50


def test_a_demonstration_in_actions():
    env = mario(stages=["1-1", "1-2"], actions=[["right", "A", "B"], [], ["B", "right"]])
    env.reset(options={"stages": ["1-1"]})
    assert env.demonstration() == [2] * 50 + [0] * 51
    env.reset(options={"stages": ["1-2"]})
    assert env.demonstration() == [2, 2, 1, 2, 2]
    assert env.actions_of("njr") == [1, 0, 2]
    assert env.plan_of([1, 0, 2]) == "njr"
    assert sorted(env.letters) == ["j", "n", "r"]


def test_actions_that_are_missing_are_named():
    env = mario(stages=["1-2"])
    env.reset()
    with pytest.raises(UserError, match=r"of 1-2; it needs \[\['right', 'B'\], \[\]\]"):
        env.demonstration()


def test_a_demonstration_of_another_version_is_told():
    env = mario(script={21: DIES})
    with pytest.raises(UserError, match="ended in step 6 of 101: it does not fit this version"):
        env.reset(options={"demonstration": 0.5})
    env.reset(options={"demonstration": 0.05})


# ------------------------------------------------------------------------------------ training


def places(env, episodes):
    """How many steps of the demonstration are over where episodes, of a frame each, begin."""
    began = []
    for _ in range(episodes):
        began.append((env.reset()[1]["x_pos"] - START) / STEP)
        env.step(0)
    return began


def test_beginnings_move_from_the_flag_to_the_start():
    env = DemonstrationStarts(mario(), epochs=4, frames=1)
    env.reset(seed=0)
    for lowest in (75, 50, 25, 0):
        began = places(env, 40)
        assert lowest <= min(began) < lowest + 12
        assert 85 < max(began) <= 100
        env.add_epoch()
    began = places(env, 40)
    assert began[::2] == [0] * 20
    assert 0 <= min(began[1::2]) < 25
    assert 85 < max(began[1::2]) <= 100


def test_many_frames_are_played_from_each_place_and_it_goes_there_once():
    env = DemonstrationStarts(mario(), epochs=2, frames=3)
    env.reset(seed=0)
    began, came = [], []
    for _ in range(9):
        before = sum(console.frames for console in env.unwrapped.consoles)
        began += places(env, 1)
        came.append(sum(console.frames for console in env.unwrapped.consoles) > before + 1)
    assert began[0] == began[1] == began[2] != began[3]
    assert began[3] == began[4] == began[5] != began[6] == began[7] == began[8]
    assert came == [True, False, False, True, False, False, True, False, False]
    assert sum(not console.closed for console in env.unwrapped.consoles) <= 2


def test_no_ops_are_for_the_start_only():
    env = preprocess(mario(), noop_max=30, demonstration_epochs=1)
    env.reset(seed=0)
    assert min(places(env, 7)) > 0
    env.get_wrapper_attr("add_epoch")()
    waited = []
    for _ in range(24):
        _, info = env.reset()
        pressed = env.unwrapped._game.core.pressed
        if info["x_pos"] == START:
            assert {*pressed} <= {0}
            waited.append(len(pressed))
        else:
            assert len(pressed) % 4 == 0  # nothing, or the demonstration up to here
            assert 0 not in pressed
        for _ in range(128):
            env.step(0)
    assert len({*waited}) > 4
    assert max(waited) <= 30
