"""The buffer of observations and value targets for PPG's auxiliary phase."""

from collections.abc import Mapping

import numpy as np
import psutil
from gymnasium import spaces

from spinup_tf2.envs.spaces import channels_first, is_image, network_dtype
from spinup_tf2.errors import UserError
from spinup_tf2.parallel.launched import local_ranks

GIGABYTE = 1e9


class Vectors:
    """Observations of one environment, stored as they are.

    Args:
        size: The largest number of observations.
        space: Space of one observation.
    """

    def __init__(self, size: int, space: spaces.Box):
        self.obs: np.ndarray = np.empty((size, *space.shape), network_dtype(space))
        self.clear()

    @property
    def to_come(self) -> int:
        """How many bytes the observations that are still to come will take."""
        return self.obs[self.count :].nbytes

    def clear(self) -> None:
        """Remove all observations."""
        self.count = 0

    def append(self, obs: np.ndarray) -> None:
        """Append observations `[T, ...]`."""
        self.obs[self.count : self.count + len(obs)] = obs
        self.count += len(obs)

    def __getitem__(self, index: np.ndarray) -> np.ndarray:
        """Return the observations `[m, ...]` with the numbers `index` `[m]`."""
        return self.obs[index]

    def state(self) -> dict[str, np.ndarray]:
        """Return the stored observations, for `restore`."""
        return dict(obs=self.obs[: self.count])

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self.clear()
        self.append(state["obs"])


class Frames:
    """Images of one environment whose channels are the latest frames, oldest first.

    Usually an image consists of all frames of the previous image but the oldest, and a new one.
    Then only the new frame is stored, so that each image is a run of C consecutive frames.

    Args:
        size: The largest number of images.
        space: Space of one image, `[height, width, C]` or `[C, height, width]`.
    """

    def __init__(self, size: int, space: spaces.Box):
        self.size, self.shape = size, space.shape
        first = channels_first(space.shape)
        self.axis = 1 if first else -1  # axis of the channels in a batch of images
        shape = space.shape if first else (space.shape[2], *space.shape[:2])
        self.channels, *pixels = shape
        # The largest possible number. Memory is claimed as it is written to.
        self.frames = np.empty((size * self.channels, *pixels), space.dtype)
        self.ends = np.empty(size, np.int64)  # the number of the first frame after each image
        self.clear()

    @property
    def to_come(self) -> int:
        """How many bytes the images that are still to come will take if they resemble the others.

        As long as there are none, a lower bound.
        """
        frames_of_each = self.ends[self.count - 1] / self.count if self.count else 1
        return int((self.size - self.count) * frames_of_each * self.frames[0].nbytes)

    def clear(self) -> None:
        """Remove all images."""
        self.count = 0

    def append(self, obs: np.ndarray) -> None:
        """Append images `[T, ...]`."""
        images = np.moveaxis(obs, self.axis, 1)  # [T, C, height, width]
        start = self.count
        before = self[np.array([start - 1])] if start else np.zeros_like(obs[:1])
        before = np.concatenate([np.moveaxis(before, self.axis, 1), images[:-1]])
        new = np.ones(images.shape[:2], bool)
        new[:, :-1] = (images[:, :-1] != before[:, 1:]).any(axis=(1, 2, 3))[:, None]
        new[0] |= not start
        first = self.ends[start - 1] if start else 0
        ends = first + np.cumsum(new.sum(axis=1))
        self.frames[first : ends[-1]] = images[new]
        self.ends[start : start + len(obs)] = ends
        self.count += len(obs)

    def __getitem__(self, index: np.ndarray) -> np.ndarray:
        """Return the images `[m, ...]` with the numbers `index` `[m]`."""
        images = np.empty((len(index), *self.shape), self.frames.dtype)
        channels = np.moveaxis(images, self.axis, 0)
        first = self.ends[index] - self.channels
        for c in range(self.channels):  # three times as fast as all at once
            channels[c] = self.frames[first + c]
        return images

    def state(self) -> dict[str, np.ndarray]:
        """Return the stored images, for `restore`."""
        ends = self.ends[: self.count]
        return dict(frames=self.frames[: ends[-1] if self.count else 0], ends=ends)

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self.count = len(state["ends"])
        self.ends[: self.count] = state["ends"]
        self.frames[: len(state["frames"])] = state["frames"]


class PhaseMemory:
    """The observations and value targets of `size` batches of `[T, n]` steps.

    Checkpoints hold its contents.

    Args:
        size: Number of batches.
        steps: T, the number of steps of each environment in a batch.
        num_envs: n, the number of environments.
        observation_space: Space of one observation, as the networks see it.

    Raises:
        UserError: The batches do not fit into free memory.
    """

    def __init__(self, size: int, steps: int, num_envs: int, observation_space: spaces.Box):
        self.size, self.steps, self.num_envs = size, steps, num_envs
        self.space = observation_space
        kind = Frames if is_image(observation_space) else Vectors
        self.obs = [kind(size * steps, observation_space) for _ in range(num_envs)]
        self.ret = np.empty((size * steps, num_envs), np.float32)
        self._check_fits()

    @property
    def full(self) -> bool:
        """Whether all batches of a phase are stored."""
        return self.obs[0].count == self.size * self.steps

    def clear(self) -> None:
        """Remove all batches."""
        for each in self.obs:
            each.clear()

    def store(self, obs: np.ndarray, ret: np.ndarray) -> None:
        """Append a batch.

        Args:
            obs: Observations `[T * n, ...]`; step t of the i-th environment is row t * n + i.
            ret: Their value targets `[T * n]`.

        Raises:
            UserError: After the first batch, if the others will not fit into free memory.
        """
        start = self.obs[0].count
        self.ret[start : start + self.steps] = ret.reshape(self.steps, self.num_envs)
        obs = obs.reshape(self.steps, self.num_envs, *self.space.shape)
        for i, each in enumerate(self.obs):
            each.append(obs[:, i])
        if not start:
            self._check_fits()

    def rows(self, index: np.ndarray) -> dict[str, np.ndarray]:
        """Return a dict of obs and ret: the rows `index` `[m]` of all batches, concatenated."""
        times, envs = np.divmod(index, self.num_envs)
        obs: np.ndarray = np.empty((len(index), *self.space.shape), network_dtype(self.space))
        for i, each in enumerate(self.obs):
            obs[envs == i] = each[times[envs == i]]
        return dict(obs=obs, ret=self.ret[times, envs])

    def _check_fits(self):
        needed = sum(each.to_come for each in self.obs)
        free = psutil.virtual_memory().available // local_ranks()
        if needed > free:
            raise UserError(
                f"An auxiliary phase learns from {self.size} epochs, whose observations take "
                f"{needed / GIGABYTE:.1f} GB of memory in each process; {free / GIGABYTE:.1f} GB "
                "are free. Use a smaller n_pi, fewer steps_per_epoch, or smaller observations."
            )

    # --------------------------------------------------------------- the state of a training run

    def restart(self) -> None:
        """Do nothing when all environments begin new episodes: the contents stay valid."""

    def env_state(self, i: int) -> dict[str, np.ndarray]:
        obs = self.obs[i]
        return dict(ret=self.ret[: obs.count, i], **obs.state())

    def set_env_state(self, i: int, state: Mapping[str, np.ndarray]) -> None:
        self.ret[: len(state["ret"]), i] = state["ret"]
        self.obs[i].restore(state)
