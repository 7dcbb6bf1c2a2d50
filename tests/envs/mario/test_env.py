"""MarioEnv on a console without an emulator."""

import pickle
from itertools import pairwise

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest

from spinup_tf2.envs.mario.emulator import ROMS
from spinup_tf2.envs.mario.game import BUTTONS
from spinup_tf2.errors import UserError
from tests.envs.mario.consoles import (
    AT_THE_FLAG,
    DIES,
    LIVES,
    STATE,
    FakeConsole,
    fake_mario,
    needs_cv2,
    score,
)

pytestmark = needs_cv2


def make_core(rom):
    return FakeConsole()


# ---------------------------------------------------------------- observations, render, info


@pytest.mark.parametrize(("obs_type", "shape"), [("rgb", (240, 256, 3)), ("grayscale", (240, 256))])
def test_observations_are_pictures_and_copies(obs_type, shape):
    env = fake_mario(obs_type=obs_type)
    assert env.observation_space == gym.spaces.Box(0, 255, shape, np.uint8)
    kept = [env.reset()[0], *(env.step(0)[0] for _ in range(3))]
    for t, obs in enumerate(kept):  # picture t is uniformly t, as it was when it was new
        assert obs in env.observation_space
        assert obs.flags.c_contiguous
        assert (obs == t).all()
    assert not any(np.shares_memory(a, b) for a, b in pairwise(kept))


@pytest.mark.parametrize(("end", "success"), [(AT_THE_FLAG, True), (DIES, False)])
def test_success_is_the_flag(end, success):
    env = fake_mario({2: end})
    assert env.reset()[1]["is_success"] is False
    assert env.step(0)[4]["is_success"] is False
    _, _, terminated, truncated, info = env.step(0)
    assert (terminated, truncated, info["is_success"]) == (True, False, success)


# ---------------------------------------------------------------- actions


def test_action_sets_press_what_they_say():
    sets = {"right": 5, "simple": 7, "complex": 12, "run": 2}
    for name, number in sets.items():
        env = fake_mario(actions=name)
        assert env.action_space == gym.spaces.Discrete(number)
        env.reset()
        for action, meaning in enumerate(env.get_action_meanings()):
            env.step(np.int64(action))
            buttons = sum(BUTTONS[each] for each in meaning.split() if meaning != "NOOP")
            assert env.consoles[0].pressed[-1] == buttons
    assert fake_mario(actions="run").get_action_meanings() == ["right B", "right A B"]
    assert fake_mario(actions="right").get_action_meanings()[:2] == ["NOOP", "right"]
    assert fake_mario(actions="complex").get_action_meanings()[-3:] == ["left A B", "down", "up"]


@pytest.mark.parametrize("action", [-1, 2, 0.5])
def test_bad_actions(action):
    env = fake_mario(actions="run")
    env.reset()
    with pytest.raises(UserError, match=r"The action is .*; it must be in Discrete\(2\)"):
        env.step(action)
    assert env.consoles[0].pressed == []


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        (dict(stages=["1-1", "1-5"]), r"stages is \['1-1', '1-5'\]; it must be a list of names"),
        (dict(stages=[]), r"stages is \[\]; it must be"),
        (dict(actions="complx"), "actions is 'complx'; it must be one of right, simple"),
        (dict(actions=[["right", "X"]]), r"actions holds \['right', 'X'\]; the buttons are A, B"),
        (dict(actions=["right", "A"]), "actions holds 'right'"),
        (dict(actions=[["A", "A"]]), r"actions holds \['A', 'A'\]"),
    ],
)
def test_bad_arguments(kwargs, message):
    with pytest.raises(UserError, match=message):
        fake_mario(**kwargs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(noop=3), "options stages, noops, demonstration, from_backup: .*noop"),
        (dict(stages=["9-1"]), r"stages is \['9-1'\]"),
    ],
)
def test_bad_options(options, message):
    env = fake_mario()
    env.reset()
    with pytest.raises(UserError, match=message):
        env.reset(options=options)


# ---------------------------------------------------------------- reset


def test_noops_pass_before_the_episode():
    env = fake_mario({3: score(200)})
    obs, info = env.reset(options={"noops": 5})
    assert env.consoles[0].pressed == [0] * 5
    assert (obs == 5).all()
    assert info["score"] == 200
    env.reset()
    assert env.consoles[0].pressed == []
    with pytest.raises(UserError, match="noops is 9, and Mario did not survive frame 4"):
        fake_mario({4: DIES}).reset(options={"noops": 9})


def test_a_range_of_noops_is_drawn_from_the_seed():
    env = fake_mario()

    def noops(seed, pair=(2, 6)):
        env.reset(seed=seed, options={"noops": pair})
        return len(env.consoles[0].pressed)

    numbers = [noops(seed) for seed in range(60)]
    assert set(numbers) == {2, 3, 4, 5, 6}
    assert numbers == [noops(seed) for seed in range(60)]
    assert noops(0, [4, 4]) == 4


def levels(env, episodes, **first):
    """The level of each episode."""
    infos = [env.reset(**first)[1], *(env.reset()[1] for _ in range(episodes - 1))]
    return [f"{info['world']}-{info['stage']}" for info in infos]


def test_random_stages():
    stages = ["1-1", "4-2", "8-3"]
    env = fake_mario(stages=stages)
    first = levels(env, 40, seed=7)
    assert set(first) == set(stages)
    assert levels(env, 40, seed=7) == first != levels(env, 40, seed=8)
    assert levels(fake_mario(stages=stages), 40, seed=7) == first
    assert len(env.consoles) == 3  # one for each level, and each has seen its start screen once
    assert [console.resets for console in env.consoles] == [1] * 3


def test_each_stage_can_be_started():
    assert fake_mario(stages=["4-2"]).fixed_starts == {"4-2": {"stages": ["4-2"]}}
    env = fake_mario(stages=["1-1", "8-3"])
    for name, options in env.fixed_starts.items():
        assert levels(env, 3, options=options) == [name] * 3
    (options,) = fake_mario(stages=None).fixed_starts.values()
    assert levels(env, 2, options=options) == ["1-1"] * 2  # the whole game
    assert env.fixed_starts.keys() == {"all stages"}
    assert levels(env, 2, options={"stages": "8-4"}) == ["8-4"] * 2


def test_the_whole_game_goes_on_after_a_death():
    env = fake_mario({2: DIES, 3: {LIVES: 1, STATE: 8}, 6: DIES, 7: {LIVES: 255}}, stages=None)
    assert env.reset()[1]["life"] == 2
    steps = [env.step(0) for _ in range(6)]
    assert [terminated for _, _, terminated, _, _ in steps] == [False] * 5 + [True]
    assert [info["life"] for *_, info in steps] == [2, 2, 1, 1, 1, 255]


# ---------------------------------------------------------------- save states


def play(env, actions):
    return [(obs.tolist(), *rest) for obs, *rest in map(env.step, actions)]


def test_backups_outlive_resets():
    env = fake_mario({6: score(100)}, actions="right", obs_type="grayscale")
    env.reset(seed=0)
    play(env, [1, 1, 1])
    env.backup()
    seen = play(env, [1, 0, 1])
    env.restore()
    assert play(env, [1, 0, 1]) == seen
    for _ in range(3):
        obs, info = env.reset()
        assert (info["x_pos"], obs[0, 0]) == (40, 0)  # the start of the level is where it was
        play(env, [1, 1])
    for _ in range(2):
        obs, info = env.reset(options={"from_backup": True})
        assert (info["x_pos"], obs[0, 0]) == (46, 3)
        assert play(env, [1, 0, 1]) == seen
    _, info = env.reset(options={"from_backup": True, "noops": 2})
    assert env.consoles[0].pressed == [0, 0]
    env.reset()
    env.step(1)
    env.backup()  # in the place of the other one, the emulator of which is given back
    assert [console.closed for console in env.consoles] == [1, 0]
    assert env.reset(options={"stages": ["4-1"]})[1]["world"] == 4
    env.restore()
    assert env.step(0)[4]["x_pos"] == 42
    env.backup()
    env.close()
    assert [console.closed for console in env.consoles] == [1] * 3


# ---------------------------------------------------------------- before, after, elsewhere


def test_pickled():
    from spinup_tf2.envs.mario.env import MarioEnv

    env = MarioEnv(["1-2"], "pixel", "run", "grayscale", "rgb_array", make_core)
    env.reset()
    copy = pickle.loads(cloudpickle.dumps(env))
    assert copy.action_space == gym.spaces.Discrete(2)
    assert copy.render_mode == "rgb_array"
    obs, info = copy.reset()
    assert obs.shape == (240, 256)
    assert info["stage"] == 2


def test_ids():
    names = ["SuperMarioBros", "SuperMarioBrosRandomStages"]
    names += [f"SuperMarioBros-{world}-{stage}" for world in range(1, 9) for stage in range(1, 5)]
    for name in names:
        for version, rom in enumerate(ROMS):
            assert gym.spec(f"{name}-v{version}").kwargs["rom"] == rom
    made = gym.make("SuperMarioBros-4-2-v3", make_core=make_core, actions="run")
    assert made.reset(seed=0)[1]["world"] == 4
    assert made.unwrapped.get_action_meanings()[0] == "right B"
    made = gym.make("SuperMarioBrosRandomStages-v0", make_core=make_core)
    assert len(set(levels(made, 60, seed=0))) > 20
