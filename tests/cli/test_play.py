"""Playing: with keys that are pressed here, in SDL's dummy window, and at random."""

import re
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import gymnasium as gym
import matplotlib
import numpy as np
import pytest

from spinup_tf2 import run
from spinup_tf2.cli import play
from spinup_tf2.cli.play import main
from spinup_tf2.errors import UserError

pygame = pytest.importorskip("pygame")

HAVE_MARIO = all(find_spec(name) for name in ("nes_py", "gym_super_mario_bros", "cv2"))
needs_mario = pytest.mark.skipif(not HAVE_MARIO, reason="needs the mario extra")
MARIO = ["--env", "SuperMarioBros-1-1-v0", "--fps", "0"]


class Buttons(gym.Env):
    """A game of four frames. Its pictures are as bright as the action was."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 60}  # noqa: RUF012
    observation_space = gym.spaces.Discrete(1)
    action_space = gym.spaces.Discrete(4)

    def __init__(self, render_mode=None, length=4):
        self.render_mode, self.length = render_mode, length

    def get_action_meanings(self):
        return ["FIRE", "LEFT", "NOOP", "LEFTFIRE"]

    def get_keys_to_action(self):
        return {(ord(" "), "a"): 3, " ": 0, ord("a"): 1, "ab": 1}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.action = 0, 0
        return 0, {}

    def step(self, action):
        self.t, self.action = self.t + 1, action
        return 0, float(action) + self.np_random.random(), self.t == self.length, False, {}

    def render(self):
        return np.full((8, 8, 3), 50 * self.action, np.uint8)


gym.register("Buttons-v0", entry_point=Buttons)
BUTTONS = ["--env", "Buttons-v0", "--fps", "0"]


@pytest.fixture(scope="module", autouse=True)
def backend():
    """gymnasium's module takes a backend of matplotlib that needs a screen."""

    matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def no_screen(monkeypatch):
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setenv("SDL_AUDIODRIVER", "dummy")
    yield
    pygame.quit()


@pytest.fixture
def press(monkeypatch):
    """press(env_class, {t: keys}): from step t on, exactly these keys are held, "esc" among them.

    Returns a list that gets (action, info) of every step.
    """

    def press(env_class, keys):
        steps, held = [], set()
        step = env_class.step

        def step_and_press(env, action):
            assert len(steps) < 500, "Esc has had no effect"
            result = step(env, action)
            steps.append(SimpleNamespace(action=action, info=result[-1]))
            for key in ({*keys.get(len(steps), held)}) ^ held:
                kind = pygame.KEYUP if key in held else pygame.KEYDOWN
                code = pygame.K_ESCAPE if key == "esc" else ord(key)
                pygame.event.post(pygame.event.Event(kind, key=code))
                held.symmetric_difference_update([key])
            return result

        monkeypatch.setattr(env_class, "step", step_and_press)
        return steps

    return press


# ---------------------------------------------------------------- keys


@needs_mario
@pytest.mark.mario
def test_mario_runs_and_jumps(press, capsys):
    """By default with all buttons. A key that is posted counts from the next step on."""
    from spinup_tf2.envs.mario.env import MarioEnv

    steps = press(MarioEnv, {5: "d", 45: "od", 75: "", 80: ["esc"]})
    main(MARIO)
    assert len(steps) == 80
    actions, x, y = zip(*((s.action, s.info["x_pos"], s.info["y_pos"]) for s in steps), strict=True)
    assert actions == (0,) * 5 + (1,) * 40 + (2,) * 30 + (0,) * 5  # nothing, right, right A
    assert x[4] == 40
    assert x[44] > x[4] + 30
    assert y[44] == y[0]
    assert max(y) > y[0] + 30
    out = capsys.readouterr().out
    for line in (
        "    d o         right A\n",
        "    a o p       left A B\n",
        "    none        NOOP\n",
    ):
        assert line in out


def test_keys_of_super_mario_bros():
    """Of the actions whose buttons are all held the one with the most, or else the first."""
    pytest.importorskip("cv2")
    from spinup_tf2.envs.mario.env import ACTIONS, MarioEnv

    def pressed(held, actions):
        keys = {frozenset(keys): act for keys, act in actions.get_keys_to_action().items()}
        action = keys.get(frozenset(held))
        return None if action is None else actions.get_action_meanings()[action]

    every = MarioEnv(actions="complex")
    names = {"right": "d", "left": "a", "down": "s", "up": "w", "A": "o", "B": "p"}
    for combination in ACTIONS["complex"][1:]:
        assert pressed([names[name] for name in combination], every) == " ".join(combination)
    assert pressed("p", every) == "NOOP"  # B alone is none of the actions
    assert pressed("wdo", every) == "right A"
    assert pressed("ad", every) == "right"
    assert pressed("sd", every) == "right"
    assert pressed("so", every) == "A"
    few = MarioEnv(actions="run")
    assert pressed("d", few) is None
    assert pressed("dp", few) == "right B"
    assert pressed("dpoa", few) == "right A B"


def test_any_game_with_keys(press, capsys):
    """Without a key it is NOOP, wherever that is; what no action stands for is NOOP, too."""
    steps = press(Buttons, {2: "a", 4: " a", 6: " ", 8: " b", 9: ["esc"]})
    main(BUTTONS)
    assert [step.action for step in steps] == [2, 2, 1, 1, 3, 3, 0, 0, 2]
    out = capsys.readouterr().out
    table, _, episodes = out.partition("Episode 0")
    assert table == (
        "    Keys        Buttons\n"
        "    none        NOOP\n"
        "    space       FIRE\n"
        "    a           LEFT\n"
        "    space a     LEFTFIRE\n"
        "    Esc         the end\n"
    )
    assert re.findall(r"EpLen (\d+)", episodes) == ["4", "4"]  # Esc came in the third one


def test_a_seed_makes_games_the_same_and_each_of_them_different(press, capsys):
    printed = []
    for seed in ("1", "1", "2"):
        press(Buttons, {9: ["esc"]})
        main([*BUTTONS, "--seed", seed])
        printed.append(re.findall(r"EpRet (\S+)", capsys.readouterr().out))
    assert printed[0] == printed[1] != printed[2]
    assert printed[0][0] != printed[0][1]


def test_recording_what_a_human_plays(press, tmp_path, capsys):
    """Every frame, and nothing of the resets with which gymnasium begins."""
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    press(Buttons, {7: ["esc"]})
    main([*BUTTONS, "--record", str(tmp_path / "videos")])
    frames = [ffmpeg.count_frames_and_secs(str(x))[0] for x in sorted(tmp_path.glob("videos/*"))]
    assert frames == [1 + 4, 1 + 3]
    assert f"Wrote 2 videos to {tmp_path}/videos\n" in capsys.readouterr().out


# ---------------------------------------------------------------- chance


def test_random_games_are_the_same_with_the_same_seed(capsys):
    printed = []
    for seed in ("1", "1", "2"):
        flags = ["--mode", "random", "--norender", "-n", "2", "--env_kwargs:length", "7"]
        main(["--env", "Buttons-v0", "--seed", seed, *flags])
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] != printed[2]
    episodes = re.findall(r"Episode (\d) \t EpRet \S+ \t EpLen (\d)\n", printed[0])
    assert episodes == [("0", "7"), ("1", "7")]
    assert "|           EpLen |               7 |" in printed[0]


def test_atari_is_played_frame_by_frame(monkeypatch):
    """Not only every fourth frame of version 5, and not as agents see it."""
    pytest.importorskip("ale_py")
    make = play._maker("ALE/Pong-v5", {}, human=True)
    with make("rgb_array") as env:
        assert env.reset()[0].shape == (210, 160, 3)
        assert env.spec.kwargs["frameskip"] == 1
    with play._maker("ALE/Pong-v5", {"frameskip": 2}, human=True)(None) as env:
        assert env.spec.kwargs["frameskip"] == 2


# ---------------------------------------------------------------- mistakes


RANDOM = "--env Buttons-v0 --mode random "

MISTAKES = {
    "--env Nothing-v0": "Nothing-v0 is not registered with gymnasium",
    "--env CartPole-v1": "does not say what the keys .* --mode random",
    "--env ProbeGoal-v0 --mode random": r"no render mode 'human' \(it has: none\).*--norender",
    "--env ProbeGoal-v0 --mode random --record videos": "no render mode 'rgb_array'",
    "--env Buttons-v0 --env_kwargs:size 3": "cannot be made with {'size': 3}: TypeError",
    "--env Buttons-v0 --seed -1": "seed is -1; it must be a whole number of at least 0",
    RANDOM + "--steps 0 --norender": "num_steps is 0; it must be a whole number of at least 1",
    RANDOM + "--episodes 0 --norender": "num_episodes is 0; it must be a whole number of at le",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_mistakes(line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as exit_:
        run.main(["play", *line.split()])
    assert exit_.value.code == 2
    err = capsys.readouterr().err
    assert re.search(MISTAKES[line], err)
    assert err.startswith("spinup_tf2: error: ")
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("flags", [[], ["--mode", "random"]])
def test_without_a_display_it_says_what_to_do(monkeypatch, flags):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(UserError, match=r"no display.*--norender.*--record DIR"):
        main(["--env", "Buttons-v0", *flags])


def test_a_number_of_steps_at_random(capsys):
    flags = ["--mode", "random", "--norender", "--steps", "10", "--env_kwargs:length", "7"]
    main(["--env", "Buttons-v0", *flags])
    assert re.findall(r"EpLen (\d)\n", capsys.readouterr().out) == ["7", "3"]
