"""Wrappers for games: frame skip, scaling, frame stack."""

import math
from collections import deque
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from spinup_tf2.arguments.rules import POSITIVE_INTEGER, at_least, check
from spinup_tf2.errors import UserError

# Of wrappers of gymnasium: their running means and variances outlive every reset.
_REMEMBERING = (gym.wrappers.NormalizeObservation, gym.wrappers.NormalizeReward)


class MaxAndSkip(gym.Wrapper, RecordConstructorArgs):
    """Repeats an action for `frameskip` frames and adds up their rewards.

    The observation is the maximum, pixel by pixel, of the last two frames, because games draw some
    things only in every other one. A pair `(low, high)` stands for a random number of frames from
    `low` to `high - 1`.
    """

    skips_frames = True  # what records all frames belongs inside, see envs/rendering.py

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
        # What is around it sees one frame for each step of the agent: so many in a second.
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
    """Gray frames of `size` x `size` pixels, the last `stack` of them, the newest last.

    A pixel becomes the average over the area that it covers. An episode begins with its first frame
    `stack` times. The environment's own frames are `[height, width]`.
    """

    def __init__(self, env: gym.Env, size: int = 84, stack: int = 4):
        RecordConstructorArgs.__init__(self, size=size, stack=stack)
        gym.ObservationWrapper.__init__(self, env)
        check(POSITIVE_INTEGER, size=size, stack=stack)
        space = env.observation_space
        if space.dtype != np.uint8 or len(space.shape) != 2:
            raise UserError(
                f"Observations are {space}, and the preprocessing needs grayscale frames: make the "
                "game with obs_type='grayscale' (as make_atari does by itself), or leave out the "
                "preprocessing (raw=True)."
            )
        self._scale = AreaScaling(space.shape, size)
        self._frames = deque(maxlen=stack)
        self.observation_space = gym.spaces.Box(0, 255, (size, size, stack), np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[np.ndarray, dict]:
        self._frames.clear()
        return super().reset(seed=seed, options=options)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        frame = self._scale(observation)
        self._frames.extend([frame] * (1 if self._frames else self._frames.maxlen))
        return np.stack(self._frames, axis=-1)


class AreaScaling:
    """Scales frames `[height, width]` to `[size, size]`: averages over areas, rounded.

    Scaling a line is a product with a sparse matrix. 210 pixels become 84 as 42 times 5 become 2,
    with the same small matrix each time; and 160 become 84 as 4 times 40 become 21.
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
    """Matrix `[new, old]`: what part of a new pixel's length each of the old ones makes up."""
    left = np.arange(new)[:, None] * old / new
    start = np.arange(old)
    covered = np.minimum(left + old / new, start + 1) - np.maximum(left, start)
    return (np.maximum(covered, 0) * new / old).astype(np.float32)


def frames_per_second(env: gym.Env) -> int:
    """How many steps of an environment are a second of the game."""
    fps = env.metadata.get("render_fps", 30)
    is_atari = env.spec is not None and env.spec.entry_point == "ale_py.env:AtariEnv"
    if is_atari and fps == env.unwrapped.metadata["render_fps"]:
        # For ale-py it is 30 whatever the frames that are skipped, and the console draws 60.
        skip = env.spec.kwargs.get("frameskip", 4)
        fps = 60 / (skip if isinstance(skip, int) else (skip[0] + skip[1] - 1) / 2)
    return round(fps)


def wrappers_of(env: gym.Env) -> Iterator[gym.Wrapper]:
    """The wrappers of an environment, from outside to inside."""
    while isinstance(env, gym.Wrapper):
        yield env
        env = env.env


def remembering_wrappers(env: gym.Env) -> list[str]:
    """Names of an environment's wrappers that are known to keep statistics beyond a reset."""
    return [
        type(wrapper).__name__ for wrapper in wrappers_of(env) if isinstance(wrapper, _REMEMBERING)
    ]
