"""Shows environments in windows and records videos, for the commands that do so."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import AtariPreprocessing, MaxAndSkipObservation

from spinup_tf2.envs.protocol import ProtocolError
from spinup_tf2.envs.wrappers import frames_per_second, wrappers_of
from spinup_tf2.errors import UserError, one_line

INSTALL = 'pip install "spinup_tf2[video]"'

HINT = "Try --norender (returns only) or --record DIR (videos; they need no display)."

HINT_IN_TRAINING = (
    "Train without {}, and look at the agent with test_policy, or with run_policy in an "
    "environment that you make yourself."
)

# ---------------------------------------------------------------- windows


def has_display() -> bool:
    """Return whether there is a display to open a window on."""
    names = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")
    no_screen = (None, "", "dummy", "offscreen")  # the last two are SDL drivers without output
    return sys.platform != "linux" or any(os.environ.get(name) not in no_screen for name in names)


def choose_render_mode(record: bool, norender: bool, hint: str = HINT) -> str | None:
    """Return the render mode: "rgb_array" for a video, None, or "human" for a window.

    Args:
        record: Whether to record a video.
        norender: Whether to show nothing.
        hint: Advice for the error message if there is no display.

    Raises:
        UserError: A window is wanted, and there is no display.
    """
    # Otherwise SDL, which pygame uses, would turn SIGTERM into an event to close its window, and
    # nobody handles that.
    os.environ.setdefault("SDL_NO_SIGNAL_HANDLERS", "1")
    if record:
        if not has_display():
            os.environ.setdefault("MUJOCO_GL", "egl")  # lets MuJoCo draw without a display
            os.environ["SDL_VIDEODRIVER"] = "dummy"  # pygame would fail without a display
        return "rgb_array"
    if norender:
        return None
    if not has_display():
        raise UserError(f"There is no display to show the environment on. {hint}")
    return "human"


def mode_in_training(option: str) -> str | None:
    """Return the render mode for an option of the algorithms.

    Args:
        option: 'record_every', which needs a package for videos, or 'render_every', which needs a
            display.

    Raises:
        UserError: This machine lacks it.
    """
    record = option == "record_every"
    if record and find_spec("imageio_ffmpeg") is None:
        raise UserError(f"{option} needs imageio-ffmpeg; install it with: {INSTALL}.")
    return choose_render_mode(record, norender=False, hint=HINT_IN_TRAINING.format(option))


def make_to_render(
    make: Callable[[str | None], gym.Env], render_mode: str | None, hint: str = ""
) -> gym.Env:
    """Make an environment, and check that it can be rendered.

    Args:
        make: Function that makes the environment with a render mode.
        render_mode: The render mode; None for no rendering.
        hint: Advice for the error message if it cannot be rendered; "" for the usual one.

    Raises:
        UserError: It cannot be rendered.
    """
    env = make(None)
    if render_mode is None:
        return env
    env.close()
    hint = hint or (HINT if render_mode == "human" else "Try --norender (returns only).")
    modes = env.metadata.get("render_modes") or []
    if not {render_mode, "rgb_array"} & {*modes}:  # frames can be shown in a window
        raise UserError(
            f"The environment has no render mode {render_mode!r} (it has: "
            f"{', '.join(modes) or 'none'}). {hint}"
        )
    env = make(render_mode)
    try:  # so that anything missing is reported before the first episode
        if env.render_mode is None:
            raise UserError("it was saved without a render mode")  # if it is from vars.pkl
        env.reset()
        if env.render_mode == "rgb_array":
            _picture_of(env)
        else:
            env.render()
    except ProtocolError as error:
        raise UserError(error.sentence("The environment")) from error
    except Exception as error:  # every graphics library has its own errors
        raise UserError(f"The environment cannot be drawn: {one_line(error)}. {hint}") from error
    return env


def _picture_of(env):
    """Return the frame that an environment renders, uint8 `[height, width, 3]`."""
    picture = np.asarray(env.render())
    if picture.dtype.kind == "f" and picture.size and picture.min() >= 0 and picture.max() <= 1:
        picture = (255 * picture).astype(np.uint8)  # as matplotlib takes numbers from 0 to 1
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] not in (3, 4):
        raise ProtocolError(
            f"drew an array of shape {picture.shape} and dtype {picture.dtype}",
            "a picture [height, width, 3] of uint8 is expected",
        )
    return picture[..., :3]  # without the alpha channel


# ---------------------------------------------------------------- videos


class VideoError(UserError):
    """Raised if a video cannot be written, which is not the fault of the environment."""


@contextmanager
def shown_or_recorded(
    make: Callable[[str | None], gym.Env],
    render_mode: str | None,
    directory: str | os.PathLike | None,
    name: str,
) -> Iterator[gym.Env]:
    """Context manager that yields an environment to be shown or recorded, and closes it.

    If an exception, including Ctrl-C, ends an episode, no video of it is kept.

    Args:
        make: Function that makes the environment with a render mode.
        render_mode: The render mode; see `make_to_render`.
        directory: Directory for videos; None to record none.
        name: Prefix of the names of the videos.

    Raises:
        UserError: It cannot be rendered, or there are already videos of this name.
        VideoError: A video cannot be written.
    """
    if directory:
        there = sorted(Path(directory).glob(f"{glob.escape(name)}-episode-*.mp4"))
        if there:
            raise UserError(f"{there[0]} is there already; give --record another directory.")
    env = make_to_render(make, render_mode)
    try:
        if directory:
            env = record(env, directory, name)
        yield env
    except BaseException as error:
        if env.has_wrapper_attr("discard_video"):
            env.get_wrapper_attr("discard_video")()
        if isinstance(error.__cause__, VideoError):  # the caller of `step` blamed the environment
            raise error.__cause__ from None
        raise
    finally:
        env.close()  # also finishes the last video
    if directory:
        videos = env.get_wrapper_attr("videos")
        print(f"Wrote {videos} video{'' if videos == 1 else 's'} to {directory}")


def record(env: gym.Env, directory: str | os.PathLike, name: str, replace: bool = True) -> gym.Env:
    """Insert a `Recorder` into an environment, and return the environment.

    It is put inside the wrappers that skip frames, so that videos show all frames at the speed of
    the game. Such wrappers have a class attribute `skips_frames = True`.
    """
    of_gymnasium = (AtariPreprocessing, MaxAndSkipObservation)
    innermost = None
    for each in wrappers_of(env):
        if getattr(each, "skips_frames", isinstance(each, of_gymnasium)):
            innermost = each
    if innermost is None:
        return Recorder(env, directory, name, replace)
    innermost.env = Recorder(innermost.env, directory, name, replace)
    return env


class Recorder(gym.Wrapper):
    """Writes a video of each episode: `directory/name-episode-0.mp4`, and so on.

    A video has a frame for the initial state and one for each step. Frames are encoded as they
    come, so that memory does not limit the length of an episode. No video is written of an episode
    without steps, or of one in which a step raises an exception.

    A video gets its name when it is complete: when the next episode begins, or in `close`. Until
    then it is a hidden file in the same directory, `.name-episode-0.part.mp4`.

    Args:
        env: Environment with the render mode "rgb_array".
        directory: Directory for the videos, created if necessary.
        name: Prefix of their names.
        replace: Whether videos replace those of the same name. If not, the number of each video is
            the next one that neither a video nor another recorder in this directory has.

    Attributes:
        videos: Number of complete videos.

    Raises:
        VideoError: In `reset`, `step` and `close`: a video cannot be written.
    """

    def __init__(self, env: gym.Env, directory: str | os.PathLike, name: str, replace: bool = True):
        super().__init__(env)
        try:
            from imageio_ffmpeg import read_frames, write_frames
        except ImportError as error:
            raise UserError(f"Videos need imageio-ffmpeg; install it with: {INSTALL}.") from error
        try:
            os.makedirs(directory, exist_ok=True)
        except OSError as error:
            raise UserError(f"Videos cannot be written to {directory}: {error}.") from error
        self._read_frames, self._write_frames = read_frames, write_frames
        # Absolute, because ffmpeg would take text before a colon for a protocol.
        self._directory, self._name = os.path.abspath(directory), name
        self._replace, self._number = replace, 0
        self._first = None  # first frame of the episode
        self._video = None
        self.videos = 0

    def reset(self, **kwargs: Any) -> tuple[Any, dict]:
        self._finish()  # comes first: the video is complete even if the reset fails
        result = self.env.reset(**kwargs)
        self._first = self._picture()
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        try:
            result = self.env.step(action)
            if self._video is None:
                self._begin()
            picture = self._picture()
            with self._encoding():
                self._video.send(picture)
        except BaseException:  # including Ctrl-C
            self.discard_video()
            raise
        return result

    def close(self) -> None:
        try:
            self._finish()
        finally:
            super().close()

    def discard_video(self) -> None:
        """Remove the unfinished video of the current episode, if there is one."""
        if self._video is not None:
            self._video.close()
            self._video = None
            with suppress(OSError):
                os.remove(self._part)

    def _picture(self):
        """Return the frame, uint8 `[height, width, 3]`, padded to even height and width.

        One of a few pixels, such as MinAtar's, is enlarged. The pixel format that most players
        require halves the resolution of the colors.
        """
        picture = _picture_of(self.env)
        if max(picture.shape) < 32:
            picture = picture.repeat(16, axis=0).repeat(16, axis=1)
        height, width, _ = picture.shape
        even = np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
        if self._video is not None and even.shape != self._first.shape:
            raise ProtocolError(
                f"drew {width} x {height} pixels",
                "all pictures of a video must have the size of its first",
            )
        return np.ascontiguousarray(even)

    def _begin(self):
        height, width, _ = self._first.shape
        fps = frames_per_second(self.env)
        while not self._claim():
            self._number += 1
        with self._encoding():
            self._video = self._write_frames(
                self._part, (width, height), fps=fps, quality=6, macro_block_size=2
            )
            self._video.send(None)  # starts the encoder
            self._video.send(self._first)

    def _claim(self):
        """Choose the paths of the next video; return False if another one has them."""
        episode = f"{self._name}-episode-{self._number}"
        self._path = os.path.join(self._directory, f"{episode}.mp4")
        # ffmpeg goes by the file's extension; programs that look for videos ignore hidden files.
        self._part = os.path.join(self._directory, f".{episode}.part.mp4")
        with self._encoding():
            if self._replace:
                Path(self._part).unlink(missing_ok=True)  # left over from a process that was killed
                return True
            try:
                Path(self._part).touch(exist_ok=False)  # others see that the number is taken
            except FileExistsError:
                return False
            if os.path.lexists(self._path):
                os.remove(self._part)
                return False
            return True

    def _finish(self):
        if self._video is None:
            return
        try:
            with self._encoding():
                self._video.close()  # does not tell whether the encoder has failed
                # If it has, the end of the file is missing, and not even one frame can be read.
                next(self._read_frames(self._part, output_params=["-frames:v", "1"]))
                os.replace(self._part, self._path)
        except BaseException:
            self.discard_video()
            raise
        self._video = None
        self.videos += 1
        self._number += 1

    @contextmanager
    def _encoding(self):
        """Context manager that turns errors of the encoder or the disk into VideoError."""
        try:
            yield
        except (OSError, RuntimeError) as error:
            reason = str(error).partition("\n")[0]  # ffmpeg's command follows
            raise VideoError(
                f"The video {self._path} cannot be written ({reason}); see whether there is room."
            ) from error


# ---------------------------------------------------------------- in another process


@dataclass(frozen=True)
class Drawing:
    """How to render an environment in a process of its own; `drawing()` creates the environment.

    Such a process does not import TensorFlow: one that has loaded it may crash in a graphics
    library, such as Mesa.

    Attributes:
        make: Function that makes the environment with a render mode.
        render_mode: gymnasium's render mode.
        graphics: Environment variables of the training process that graphics libraries read.
        hint: Advice for the error message if it cannot be rendered; "" for the usual one.
        folder, name: Arguments of `Recorder`; without a folder, no video is recorded.
    """

    make: Callable[[str | None], gym.Env]
    render_mode: str | None
    graphics: Mapping[str, str]
    hint: str
    folder: Path | None = None
    name: str = ""

    def __call__(self) -> gym.Env:
        return _DrawnEnv(self)


class _DrawnEnv(gym.Wrapper):
    """An environment that is rendered from its first reset on.

    The first reset takes place in the process of the environment, where errors can be reported.
    """

    def __init__(self, drawing: Drawing):
        super().__init__(drawing.make(None))
        self._drawing: Drawing | None = drawing

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        drawing, self._drawing = self._drawing, None
        if drawing is not None:
            os.environ.update(drawing.graphics)
            self.env.close()
            self.env = make_to_render(drawing.make, drawing.render_mode, drawing.hint)
            if drawing.folder is not None:
                self.env = record(self.env, drawing.folder, drawing.name)
        return self.env.reset(seed=seed, options=options)
