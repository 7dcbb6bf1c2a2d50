"""Episode statistics: returns, lengths and successes of finished episodes."""

from collections.abc import Iterator, Mapping
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np

from spinup_tf2.envs.wrappers import wrappers_of

RECORDED = "recorded_episode"  # in the info of a reset: return and length of the previous episode

MOST_LIVES = 100  # an episode with more resets than this counts as endless


class Episodes:
    """The episodes of n environments; unfinished ones are carried from one epoch into the next.

    Checkpoints hold the returns and lengths so far of unfinished episodes.

    If the info of the last step of an episode holds `is_success`, it says whether the episode was a
    success. `tells_success` is True once any info has held this key, also that of a reset or of
    another step.

    Args:
        num_envs: The number of environments, n.
        recorded: Whether the environments record the returns of their episodes themselves
            (`RecordedEpisodes`); otherwise rewards are summed up here.
    """

    def __init__(self, num_envs: int, recorded: bool = False):
        self.ret = np.zeros(num_envs)
        self.len = np.zeros(num_envs, int)
        self.tells_success = False
        # (return, length, i) of the i-th environment
        self.recorded: list[tuple[float, int, int]] | None = [] if recorded else None
        self.successes: list[tuple[bool, int]] = []  # (success, i)

    def restart(self) -> None:
        """Forget the unfinished episodes, because all environments begin new ones."""
        self.ret[:], self.len[:] = 0.0, 0

    def env_state(self, i: int) -> dict[str, np.ndarray]:
        return dict(ret=self.ret[i], len=self.len[i])

    def set_env_state(self, i: int, state: Mapping[str, np.ndarray]) -> None:
        self.ret[i], self.len[i] = state["ret"], state["len"]

    def hear(self, infos: Mapping[str, Any], first: int = 0) -> None:
        """Read the infos of a step or a reset, of the environments from number `first` on."""
        last = infos.get("final_info", {})
        self.tells_success |= "is_success" in infos or "is_success" in last
        if "is_success" in last:
            told = np.flatnonzero(last["_is_success"])
            self.successes += [(bool(last["is_success"][i]), first + int(i)) for i in told]
        if self.recorded is not None and RECORDED in infos:
            ret, length = infos[RECORDED]["r"], infos[RECORDED]["l"]
            over = np.flatnonzero(infos[f"_{RECORDED}"])
            self.recorded += [(float(ret[i]), int(length[i]), first + int(i)) for i in over]

    def take_recorded(self) -> list[tuple[float, int, int]]:
        """Return (return, length, i) of the recorded episodes, and forget them."""
        taken, self.recorded = self.recorded or [], []
        return taken

    def take_successes(self) -> list[tuple[bool, int]]:
        """Return (success, i) of the episodes that have reported one, and forget them."""
        taken, self.successes = self.successes, []
        return taken

    def clear(self) -> None:
        """Discard recorded episodes and successes that have not been taken."""
        self.successes, self.recorded = [], None if self.recorded is None else []

    def count(
        self, rew: np.ndarray, ends: np.ndarray, lost: np.ndarray | bool = False
    ) -> dict[str, list]:
        """Return EpRet, EpLen and SuccessRate of the episodes that ended in these steps.

        They are ordered by environment, or as they were recorded. An episode that ended with a lost
        step does not count.

        Args:
            rew: Rewards `[T, n]`.
            ends: Whether a step was the last one of an episode, bool `[T, n]`.
            lost: Whether a step was lost, bool `[T, n]`.
        """
        ended = self._summed(rew, ends, lost) if self.recorded is None else self.take_recorded()
        return dict(
            EpRet=[ret for ret, *_ in ended],
            EpLen=[length for _, length, *_ in ended],
            SuccessRate=[success for success, _ in self.take_successes()],
        )

    def _summed(self, rew, ends, lost):
        ended, lost = [], np.broadcast_to(lost, ends.shape)
        for i, piece in pieces(ends):
            self.ret[i] += rew[piece, i].sum(dtype=float)
            self.len[i] += piece.stop - piece.start
            if ends[piece.stop - 1, i]:
                if not lost[piece.stop - 1, i]:
                    ended.append((self.ret[i], self.len[i]))
                self.ret[i], self.len[i] = 0.0, 0
        return ended


def pieces(ends: np.ndarray) -> Iterator[tuple[int, slice]]:
    """Yield the pieces of trajectories in `[T, n]` data, as `(i, slice of time)`.

    Args:
        ends: Whether step t of the i-th environment is the last one of an episode, bool `[T, n]`.
            The last row ends a piece in any case.
    """
    steps, num_envs = ends.shape
    for i in range(num_envs):
        start = 0
        for end in (np.flatnonzero(ends[:, i]) + 1).tolist():
            yield i, slice(start, end)
            start = end
        if start < steps:
            yield i, slice(start, steps)


def recorder_of(env: gym.Env) -> gym.wrappers.RecordEpisodeStatistics | None:
    """Return the RecordEpisodeStatistics among an environment's wrappers; None without one."""
    recorders = (w for w in wrappers_of(env) if isinstance(w, gym.wrappers.RecordEpisodeStatistics))
    return next(recorders, None)


class RecordedEpisodes(gym.Wrapper):
    """Puts return and length of the previous episode into the info of `reset`.

    An environment with gymnasium's RecordEpisodeStatistics among its wrappers defines by it what an
    episode is and what it returns: wrappers outside of it may change rewards, and may end episodes
    for learning only, such as when a life is lost in a game.

    An episode is reported if it was over, or if the reset has cut it off: because of a time limit,
    or because a wrapper has ended it early. Otherwise it continues, for example while a game has
    lives left. If nothing ever resets the recorded episode, its pieces between resets count
    instead.
    """

    def __init__(self, env: gym.Env):
        super().__init__(env)
        self._count = 0  # completely recorded episodes, at the last reset
        self._lives = 0  # resets since the recorded episode began
        self._piece: tuple[Any, int] = 0.0, 0  # return and length since the last reset

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict]:
        result = self.env.step(action)
        ret, length = self._piece
        self._piece = ret + result[1], length + 1
        return result

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        # Looked up each time: an environment that is drawn is made again by its first reset.
        recorder: Any = recorder_of(self.env)  # not None
        piece, self._piece = self._piece, (0.0, 0)
        begun = recorder.episode_start_time
        episode = recorder.episode_returns, recorder.episode_lengths
        obs, info = self.env.reset(seed=seed, options=options)

        self._lives += 1
        if recorder.episode_count > self._count:
            episode = recorder.return_queue[-1], recorder.length_queue[-1]
        elif recorder.episode_start_time == begun:  # the episode continues
            return obs, info | (_told(piece) if self._lives > MOST_LIVES else {})
        self._count, self._lives = recorder.episode_count, 0
        return obs, info | (_told(episode) if episode[1] else {})


def _told(episode):
    ret, length = episode
    return {RECORDED: {"r": float(ret), "l": int(length)}}
