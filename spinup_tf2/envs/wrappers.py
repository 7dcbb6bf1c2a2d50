"""Wrappers for games: frame skip, scaling and frame stack; and the wrappers of an environment."""

import math
from collections import deque
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from spinup_tf2.arguments.rules import POSITIVE_INTEGER, at_least, check
from spinup_tf2.errors import UserError


class MaxAndSkip(gym.Wrapper, RecordConstructorArgs):
    """Repeats each action for `frameskip` frames and sums their rewards.

    The observation is the pixelwise maximum of the last two frames, because games draw some objects
    only in every other frame. A pair `(low, high)` stands for a random number of frames from `low`
    to `high - 1`.
    """

    skips_frames = True  # to record all frames, a recorder belongs inside; see envs/rendering.py

    def __init__(self, env: gym.Env, frameskip: int | tuple[int, int] = 4):
        RecordConstructorArgs.__init__(self, frameskip=frameskip)
        gym.Wrapper.__init__(self, env)
        if isinstance(frameskip, tuple | list) and len(frameskip) == 2:
            low, high = frameskip
            check(POSITIVE_INTEGER, frameskip=low)
            check(at_least(low + 1), frameskip=high)
        else:
            check(POSITIVE_INTEGER, frameskip=frameskip)
            low, high = frameskip, frameskip + 1
        self._low, self._high = low, high
        # Outer wrappers see one frame per step of the agent, so there are fewer in a second.
        fps = round(2 * frames_per_second(env) / (low + high - 1))
        self.metadata = self.metadata | {"render_fps": fps}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        skip = self._low
        if self._high > self._low + 1:
            skip = self.np_random.integers(self._low, self._high)
        obs, total = None, 0.0
        for _ in range(skip):
            previous = obs
            obs, rew, terminated, truncated, info = self.env.step(action)
            total += float(rew)
            if terminated or truncated:
                break
        if previous is not None:
            obs = np.maximum(previous, obs)
        return obs, total, terminated, truncated, info


class StackFrames(gym.ObservationWrapper, RecordConstructorArgs):
    """Scales gray frames to `size` x `size` pixels and stacks the last `stack`, the newest last.

    Each pixel is the average over the area that it covers. At the beginning of an episode its first
    frame is repeated `stack` times. The environment's own observations must be `[height, width]`,
    uint8; those of the wrapper are `[size, size, stack]`.
    """

    def __init__(self, env: gym.Env, size: int = 84, stack: int = 4):
        RecordConstructorArgs.__init__(self, size=size, stack=stack)
        gym.ObservationWrapper.__init__(self, env)
        check(POSITIVE_INTEGER, size=size, stack=stack)
        space = env.observation_space
        if space.dtype != np.uint8 or len(space.shape) != 2:
            raise UserError(
                f"The preprocessing needs grayscale frames, and observations are {space}: make the "
                "game with obs_type='grayscale', or leave out the preprocessing (raw=True)."
            )
        self._scale = AreaScaling(space.shape, size)
        self._frames = deque(maxlen=stack)
        self.observation_space = gym.spaces.Box(0, 255, (size, size, stack), np.uint8)

    def reset(self, **kwargs: Any) -> tuple[np.ndarray, dict]:
        self._frames.clear()
        return super().reset(**kwargs)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        frame = self._scale(observation)
        self._frames.extend([frame] * (1 if self._frames else self._frames.maxlen))
        return np.stack(self._frames, axis=-1)


class AreaScaling:
    """Scales frames `[height, width]` to `[size, size]` by rounded averages over areas.

    Scaling a line is a product with a sparse matrix. It is done in pieces with the same small
    matrix: 210 pixels become 84 in 42 pieces of 5 to 2, and 160 become 84 in 4 pieces of 40 to 21.
    """

    def __init__(self, shape: tuple[int, int], size: int):
        height, width = shape
        self._size = size
        self._pieces = math.gcd(height, size)
        self._rows = _area_weights(height // self._pieces, size // self._pieces)
        pieces = math.gcd(width, size)
        self._columns = _area_weights(width // pieces, size // pieces).T.copy()

    def __call__(self, picture: np.ndarray) -> np.ndarray:
        _, width = picture.shape
        low = self._rows @ picture.astype(np.float32).reshape(self._pieces, -1, width)
        small = low.reshape(-1, len(self._columns)) @ self._columns
        return np.rint(small).astype(np.uint8).reshape(self._size, self._size)


def _area_weights(old, new):
    """Return a matrix `[new, old]` with the share of each old pixel in each new pixel's length."""
    left = np.arange(new)[:, None] * old / new
    start = np.arange(old)
    covered = np.minimum(left + old / new, start + 1) - np.maximum(left, start)
    return (np.maximum(covered, 0) * new / old).astype(np.float32)


def frames_per_second(env: gym.Env) -> int:
    """Return the number of steps of an environment in a second of the game."""
    fps = env.metadata.get("render_fps", 30)
    is_raw = env.spec is not None and env.spec.entry_point == "ale_py.env:AtariEnv"
    if is_raw and fps == env.unwrapped.metadata["render_fps"]:
        # ale-py always says 30, whatever the frame skip, but the console draws 60 frames.
        skip = env.spec.kwargs.get("frameskip", 4)
        fps = 60 / (skip if isinstance(skip, int) else (skip[0] + skip[1] - 1) / 2)
    return round(fps)


def wrappers_of(env: gym.Env) -> Iterator[gym.Wrapper]:
    """Iterate over the wrappers of an environment, from the outermost to the innermost."""
    while isinstance(env, gym.Wrapper):
        yield env
        env = env.env


def remembering_wrappers(env: gym.Env) -> list[str]:
    """Return the names of an environment's wrappers known to keep statistics across resets."""
    remembering = (gym.wrappers.NormalizeObservation, gym.wrappers.NormalizeReward)
    return [type(each).__name__ for each in wrappers_of(env) if isinstance(each, remembering)]
