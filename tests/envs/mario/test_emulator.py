"""The compiled emulator, and the environment on it."""

import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from spinup_tf2.envs.mario.emulator import ROMS, NesPy
from spinup_tf2.envs.mario.game import BUTTONS, Game
from spinup_tf2.errors import UserError
from tests.envs.mario.consoles import emulator_marks

pytestmark = emulator_marks

RUN = BUTTONS["right"] | BUTTONS["B"]
JUMP = RUN | BUTTONS["A"]


@pytest.fixture
def game():
    game = Game(NesPy(), (1, 1))
    game.reset()
    yield game
    game.close()


def memory(console, buttons):
    """All that can be seen of a console after frames with these buttons."""
    seen = []
    for pressed in buttons:
        console.frame(pressed)
        seen.append(bytes(console.ram))
    return seen, console.screen.tobytes()


def test_what_is_restored_goes_on_as_it_would_have(game):
    """Frames end where they end: also amidst the reading of the pads, as after 45 of these."""
    console = game.core
    buttons = [JUMP] * 15 + [RUN] * 5
    memory(console, [RUN] * 43)
    for _ in range(3):
        console.backup()
        expected = memory(console, buttons)
        for others in ([], [0], [BUTTONS["left"] | BUTTONS["A"]] * 3, [255]):
            console.restore()
            memory(console, others)
            console.restore()
            assert memory(console, buttons) == expected
        console.restore()
        console.frame(RUN)


def test_consoles_know_nothing_of_each_other():
    """Nor of the threads that they work in."""

    def play(seed):
        game = Game(NesPy(), (1, 1))
        game.reset()
        rng = np.random.default_rng(seed)
        seen = memory(game.core, [int(rng.choice([RUN, JUMP])) for _ in range(15)])
        game.close()
        return seen

    one_by_one = [play(seed) for seed in (1, 2)]
    with ThreadPoolExecutor(2) as pool:
        assert [*pool.map(play, (1, 2))] == one_by_one
    assert one_by_one[0] != one_by_one[1]


def test_versions_of_the_game():
    pictures, clocks = set(), []
    for rom, stage in zip(ROMS, ("1-1", "1-3", "4-4", "5-1"), strict=True):
        env = gym.make(f"SuperMarioBros-{stage}-v0", rom=rom)
        obs, info = env.reset()
        pictures.add(obs.tobytes())
        clocks.append(info["time"])
        assert len(np.unique(obs)) > 2
        for _ in range(2):
            env.close()
    assert len(pictures) == 4
    assert clocks == [400, 300, 400, 300]
    with pytest.raises(UserError, match="rom is 'lost'; it must be one of vanilla"):
        NesPy("lost")


def play(env, actions):
    rows = [env.step(action) for action in actions]
    return [(obs.tobytes(), *rest) for obs, *rest in rows]


def test_a_save_state_is_replayed_through_the_wrappers():
    from spinup_tf2.envs.mario import make_mario

    env = make_mario("SuperMarioBros-1-1-v0", actions="run", noop_max=30, no_progress=75)
    base = env.unwrapped
    first, _ = env.reset(seed=1)
    play(env, [0] * 11)
    base.backup()
    rng = np.random.default_rng(0)
    actions = rng.integers(2, size=25).tolist()
    begun, _ = env.reset(options={"from_backup": True})
    seen = play(env, actions)
    again, _ = env.reset(seed=1)
    np.testing.assert_array_equal(again, first)
    for _ in range(2):
        obs, _ = env.reset(options={"from_backup": True})
        np.testing.assert_array_equal(obs, begun)
        assert play(env, actions) == seen
    assert len({obs for obs, *_ in seen}) == 25
    env.close()


@pytest.mark.parametrize(
    ("env_id", "obs_type"),
    [("SuperMarioBros-v0", "rgb"), ("SuperMarioBrosRandomStages-v3", "grayscale")],
)
def test_gymnasiums_checker_has_nothing_to_say(env_id, obs_type):
    # Making each of 32 levels takes a while.
    stages = dict(stages=["1-1", "1-2"]) if "Random" in env_id else {}
    env = gym.make(env_id, obs_type=obs_type, disable_env_checker=True, **stages)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.unwrapped.metadata = env.metadata | {"render_modes": ["rgb_array"]}  # and no windows
        check_env(env.unwrapped, skip_render_check=obs_type == "rgb")
    env.close()


def test_neither_gym_nor_pyglet_nor_a_window_is_loaded():
    program = (
        "import os, sys\n"
        "variables = {**os.environ}\n"
        "import spinup_tf2.envs.mario\n"
        "assert not {'cv2', 'pygame'} & {*sys.modules}\n"
        "env = spinup_tf2.envs.mario.make_mario('SuperMarioBros-1-1-v0')\n"
        "env.reset(seed=0)\n"
        "env.step(1)\n"
        "env.close()\n"
        "unwanted = {'gym', 'pyglet', 'nes_py', 'gym_super_mario_bros', 'pygame', 'tensorflow'}\n"
        "assert not unwanted & {*sys.modules}, unwanted & {*sys.modules}\n"
        "assert {name for name in os.environ if 'SDL' in name} <= {*variables}\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
