"""Videos: what is in them, and where the wrappers of a run are put around what records."""

import os
import resource
import subprocess
import sys
import time

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import MaxAndSkipObservation, TimeLimit

from spinup_tf2.envs.rendering import (
    Recorder,
    VideoError,
    choose_render_mode,
    make_to_render,
    record,
    shown_or_recorded,
)
from spinup_tf2.envs.wrappers import MaxAndSkip, StackFrames, frames_per_second
from spinup_tf2.errors import UserError
from spinup_tf2.utils.test_policy import run_policy

ffmpeg = pytest.importorskip("imageio_ffmpeg")


@pytest.fixture
def screens(monkeypatch):
    """No screen at all; the monkeypatch, to set one."""
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize("display", ["", ":0"])
def test_a_recording_needs_no_screen_and_does_not_complain(screens, display):
    screens.setenv("DISPLAY", display)
    assert choose_render_mode(record=True, norender=False) == "rgb_array"
    assert os.environ.get("SDL_VIDEODRIVER") == (None if display else "dummy")


def test_a_driver_without_a_screen_shows_no_window(screens):
    screens.setenv("SDL_VIDEODRIVER", "offscreen")
    with pytest.raises(UserError, match="no display"):
        choose_render_mode(record=False, norender=False)


def test_a_window_that_opens_after_tensorflow_was_loaded_does_not_crash():
    """As a program of a user may do. On machines with Mesa it would, if the window used OpenGL."""
    pytest.importorskip("pygame")
    code = """if True:
        import gymnasium, spinup_tf2, tensorflow
        gymnasium.make("CartPole-v1", render_mode="human").reset()"""
    environ = {**os.environ, "SDL_VIDEODRIVER": "offscreen"}
    environ.pop("SDL_FRAMEBUFFER_ACCELERATION", None)  # of this process
    subprocess.run([sys.executable, "-c", code], env=environ, check=True)


class Brighter(gym.Env):
    """Each frame of an episode is 10 brighter than the one before; `end` frames are the end."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 60}  # noqa: RUF012
    observation_space = gym.spaces.Box(0, 255, (36, 42), np.uint8)
    action_space = gym.spaces.Discrete(2)
    render_mode = "rgb_array"

    def __init__(self, end=None, shape=(36, 42)):
        self.end, self.shape = end, shape

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._obs(), {}

    def step(self, action):
        self.t += 1
        return self._obs(), 1.0, self.t == self.end, False, {}

    def _obs(self):
        return np.full(self.shape, 10 * self.t, np.uint8)

    def render(self):
        return np.stack([self._obs()] * 3, axis=-1)


class Draws(Brighter):
    """The same, which draws what it is told to."""

    def __init__(self, *pictures):
        super().__init__()
        self.pictures = iter(pictures)

    def render(self):
        return next(self.pictures)


def read(path):
    """(frames per second, which frames there are, size) of a video of Brighter."""
    video = ffmpeg.read_frames(str(path))
    meta = next(video)
    pixels = [np.frombuffer(picture, np.uint8).mean() / 10 for picture in video]
    frames = np.rint(pixels).astype(int)
    np.testing.assert_allclose(pixels, frames, atol=0.3)
    return meta["fps"], frames.tolist(), meta["size"]


def film(env, directory, name="game", episodes=1, steps=99):
    """Play and record; what the videos show, as `read` returns it."""
    env = record(env, directory, name)
    for _ in range(episodes):
        env.reset(seed=0)
        for _ in range(steps):
            *_, terminated, truncated, _ = env.step(0)
            if terminated or truncated:
                break
    env.reset()  # an episode without steps has no video
    env.close()
    assert env.get_wrapper_attr("videos") == episodes
    names = [f"{name}-episode-{i}.mp4" for i in range(episodes)]
    assert sorted(video.name for video in directory.iterdir()) == names
    return [read((directory / each).resolve()) for each in names]


@pytest.mark.parametrize(
    ("env", "steps", "frames"),
    [
        (Brighter(end=7), 99, 8),
        (Brighter(end=3, shape=(35, 41)), 99, 4),  # lines are added to odd sizes
        # Inside of what skips frames: the last of six steps ends after its second frame.
        (StackFrames(TimeLimit(MaxAndSkip(Brighter(end=22)), 100)), 6, 23),
        (StackFrames(TimeLimit(MaxAndSkipObservation(Brighter(end=22)), 100)), 6, 23),
        (MaxAndSkip(MaxAndSkip(Brighter(), 3), 2), 1, 7),
        # Cut off from outside: it is over where the next one begins, or in close.
        (TimeLimit(MaxAndSkip(Brighter(), 2), 3), 99, 7),
    ],
    ids=str,
)
def test_a_video_has_every_frame_of_an_episode(tmp_path, env, steps, frames):
    videos = film(env, tmp_path / "new" / "videos", episodes=2, steps=steps)
    assert videos == [(60, [*range(frames)], (42, 36))] * 2


def test_a_few_pixels_from_0_to_1_are_a_video_of_readable_size(tmp_path):
    """As MinAtar draws them."""
    env = Draws(*[np.full((10, 10, 3), 50 / 255)] * 9)
    assert film(env, tmp_path, steps=2) == [(60, [5, 5, 5], (160, 160))]


def test_recorders_that_share_a_directory_take_other_numbers(tmp_path):
    for _ in range(2):  # the second time, there are videos already
        envs = [record(Brighter(end=end), tmp_path, "game", replace=False) for end in (3, 5)]
        for env in envs:
            env.reset(seed=0)
        for _ in range(3):
            for env in envs:
                env.step(0)
        for _ in range(2):
            envs[1].step(0)
        for env in envs:
            env.close()
    names = [f"game-episode-{i}.mp4" for i in range(4)]
    assert sorted(video.name for video in tmp_path.iterdir()) == names
    assert [len(read(tmp_path / name)[1]) for name in names] == [4, 6, 4, 6]


@pytest.mark.parametrize(
    ("picture", "returned"),
    [
        (None, r"shape \(\) and dtype object"),
        (np.full((32, 32, 3), 200.0), r"shape \(32, 32, 3\) and dtype float64"),
        (np.zeros((3, 32, 32), np.uint8), r"shape \(3, 32, 32\) and dtype uint8"),
    ],
)
def test_what_is_no_picture_is_refused_before_anything_is_recorded(picture, returned):
    with pytest.raises(UserError, match=rf"environment drew an array of {returned}; a picture"):
        make_to_render(lambda mode: Draws(picture), "rgb_array")


def test_what_recording_lacks_is_said(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"Videos cannot be written to .*file: "):
        Recorder(Brighter(), tmp_path / "file", "name")
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(UserError, match=r'pip install "spinup_tf2\[video\]"'):
        Recorder(Brighter(), tmp_path / "videos", "name")
    assert not (tmp_path / "videos").exists()


# ---------------------------------------------------------------- what goes wrong


class Raises(Brighter):
    """The same, of which the third step of an episode raises an exception."""

    def __init__(self, error):
        super().__init__(end=5)
        self.error = error

    def step(self, action):
        if self.t == 2:
            raise self.error
        return super().step(action)


def play(env, directory, get_action=lambda obs: 0, episodes=2):
    """What `test_policy --record` does."""
    with shown_or_recorded(lambda _: env, "rgb_array", directory, "name") as recorded:
        run_policy(recorded, get_action, num_episodes=episodes, render=False)


def acting(step, then):
    """A policy that calls `then` before a step, counted from 1 over all episodes."""
    steps = []

    def get_action(obs):
        steps.append(obs)
        if len(steps) == step:
            then()
        return 0

    return get_action


def interrupt():
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("env", "policy", "error", "videos"),
    [
        (Raises(ValueError("broken")), acting(0, interrupt), UserError, []),
        (Raises(KeyboardInterrupt()), acting(0, interrupt), KeyboardInterrupt, []),
        (Brighter(end=5), acting(3, lambda: 1 / 0), ZeroDivisionError, []),
        (Brighter(end=5), acting(8, interrupt), KeyboardInterrupt, ["name-episode-0.mp4"]),
    ],
)
def test_an_episode_that_is_broken_off_leaves_nothing(tmp_path, env, policy, error, videos):
    """What was complete before stays."""
    with pytest.raises(error):
        play(env, tmp_path, policy)
    assert [each.name for each in tmp_path.iterdir()] == videos
    for video in videos:
        assert read(tmp_path / video)[1] == [*range(6)]


def test_a_process_that_is_killed_leaves_nothing_in_the_way(tmp_path, capsys):
    killed = Recorder(Brighter(end=5), tmp_path, "name")
    killed.reset()
    killed.step(0)
    part = tmp_path / ".name-episode-0.part.mp4"
    while not [*tmp_path.iterdir()]:  # ffmpeg is starting
        time.sleep(0.01)
    assert [*tmp_path.iterdir()] == [part]
    play(Brighter(end=5), tmp_path, episodes=1)
    assert [each.name for each in tmp_path.iterdir()] == ["name-episode-0.mp4"]
    assert capsys.readouterr().out.endswith(f"Wrote 1 video to {tmp_path}\n")


WRITTEN = r"^The video {}/name-episode-0\.mp4 cannot be written \(.*\); see whether there is room"


def test_without_room_no_video_is_said_to_be_written(tmp_path, capsys):
    """The limit holds for ffmpeg. It fails in the end, when it writes what it has encoded."""
    noise = np.random.default_rng(0).integers(0, 255, (9, 128, 128, 3), np.uint8)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    env = Draws(*noise)
    env.end = 3
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, limits[1]))
    try:
        with pytest.raises(VideoError, match=WRITTEN.format(tmp_path)):
            play(env, tmp_path, episodes=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "Wrote" not in capsys.readouterr().out
    assert [*tmp_path.iterdir()] == []


# ---------------------------------------------------------------- speed


def test_frames_per_second():
    assert frames_per_second(Brighter()) == 60
    assert frames_per_second(MaxAndSkip(Brighter(), 4)) == 15
    assert frames_per_second(MaxAndSkip(Brighter(), (2, 5))) == 20
    assert frames_per_second(gym.make("CartPole-v1")) == 50
    assert frames_per_second(gym.make("ProbeGoal-v0")) == 30  # which does not say it
