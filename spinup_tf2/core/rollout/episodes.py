"""Episodes: what those that have ended returned, and whether they have been a success."""

from collections.abc import Iterator, Mapping
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np

from spinup_tf2.envs.wrappers import wrappers_of

RECORDED = "recorded_episode"  # in the info of a reset: what the episode before it was

MOST_LIVES = 100  # that an episode is thought to have


class Episodes:
    """The episodes of n environments; unfinished ones are carried from one epoch into the next.

    A part of a training: checkpoints hold how far unfinished episodes have come.

    Where the info of the last step of an episode holds `is_success`, it tells whether the episode
    has been a success. `tells_success` says whether any info has held it so far, also that of a
    reset or of another step.

    Args:
        num_envs: How many environments, n.
        recorded: Whether environments say themselves what their episodes return
            (`record_episodes`); otherwise rewards are summed up here.
    """

    def __init__(self, num_envs: int, recorded: bool = False):
        self.ret = np.zeros(num_envs)
        self.len = np.zeros(num_envs, int)
        self.tells_success = False
        # (return, length, i) of the i-th environment
        self.recorded: list[tuple[float, int, int]] | None = [] if recorded else None
        self.successes: list[tuple[bool, int]] = []  # (success, i)

    def restart(self) -> None:
        """All environments begin new episodes; the unfinished ones are forgotten."""
        self.ret[:], self.len[:] = 0.0, 0

    def env_state(self, i: int) -> dict[str, np.ndarray]:
        return dict(ret=self.ret[i], len=self.len[i])

    def set_env_state(self, i: int, state: Mapping[str, np.ndarray]) -> None:
        self.ret[i], self.len[i] = state["ret"], state["len"]

    def hear(self, infos: Mapping[str, Any], first: int = 0) -> None:
        """Note what the infos of a step or a reset say, of environments from `first` on."""
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
        """(return, length, i) of the episodes that have been recorded, each once."""
        taken, self.recorded = self.recorded or [], []
        return taken

    def take_successes(self) -> list[tuple[bool, int]]:
        """(success, i) of the episodes that have told, each once."""
        taken, self.successes = self.successes, []
        return taken

    def clear(self) -> None:
        """Discard recorded episodes and successes that have not been taken."""
        self.successes, self.recorded = [], None if self.recorded is None else []

    def count(
        self, rew: np.ndarray, ends: np.ndarray, lost: np.ndarray | bool = False
    ) -> dict[str, list]:
        """The episodes that ended in an epoch's steps, to be logged: EpRet, EpLen, SuccessRate.

        They are in order of environment, or as they have been recorded. An episode of which a step
        was lost is none.

        Args:
            rew: `[T, n]`.
            ends: Whether a step was the last of an episode, bool `[T, n]`.
            lost: Whether it was lost, bool `[T, n]`.
        """
        ended = self._summed(rew, ends, lost) if self.recorded is None else self.take_recorded()
        return dict(
            EpRet=[ret for ret, *_ in ended],
            EpLen=[length for _, length, *_ in ended],
            SuccessRate=[success for success, _ in self.take_successes()],
        )

    def _summed(self, rew, ends, lost):
        ended, lost = [], np.broadcast_to(lost, ends.shape)
        for i, piece in segments(ends):
            self.ret[i] += rew[piece, i].sum(dtype=float)
            self.len[i] += piece.stop - piece.start
            if ends[piece.stop - 1, i]:
                if not lost[piece.stop - 1, i]:
                    ended.append((self.ret[i], self.len[i]))
                self.ret[i], self.len[i] = 0.0, 0
        return ended


def segments(ends: np.ndarray) -> Iterator[tuple[int, slice]]:
    """The pieces of trajectory in `[T, n]` data: yields `(i, slice of time)`.

    Args:
        ends: Whether step t of the i-th environment is the last of an episode, bool `[T, n]`. The
            last row ends a piece in any case.
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
    """gymnasium's RecordEpisodeStatistics among the wrappers of an environment, if it has one."""
    recorders = (w for w in wrappers_of(env) if isinstance(w, gym.wrappers.RecordEpisodeStatistics))
    return next(recorders, None)


class RecordedEpisodes(gym.Wrapper):
    """Tells in the info of `reset` what the episode before was, as `recorder_of` has recorded it.

    An environment with gymnasium's RecordEpisodeStatistics among its wrappers says itself what its
    episodes are and what they return: wrappers outside of it may change rewards, and end episodes
    for learning only, as where a life of a game is lost.

    The episode was over, or it has been reset all the same: by a time limit, or because a wrapper
    has ended it early. Where neither is so, as where a game has lives left, it goes on. One that
    goes on for ever, because nothing ever resets it, is none: its pieces are counted instead.
    """

    def __init__(self, env: gym.Env):
        super().__init__(env)
        self._recorder: Any = recorder_of(env)  # there is one
        self._count = 0  # episodes that have been recorded to their ends, when it was reset last
        self._lives = 0  # resets since the episode that is recorded began
        self._piece: tuple[Any, int] = 0.0, 0  # return and length since the last reset

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict]:
        result = self.env.step(action)
        ret, length = self._piece
        self._piece = ret + result[1], length + 1
        return result

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        recorder, piece, self._piece = self._recorder, self._piece, (0.0, 0)
        begun = recorder.episode_start_time
        episode = recorder.episode_returns, recorder.episode_lengths
        obs, info = self.env.reset(seed=seed, options=options)

        self._lives += 1
        if recorder.episode_count > self._count:
            episode = recorder.return_queue[-1], recorder.length_queue[-1]
        elif recorder.episode_start_time == begun:  # it goes on
            return obs, info | (_told(piece) if self._lives > MOST_LIVES else {})
        self._count, self._lives = recorder.episode_count, 0
        return obs, info | (_told(episode) if episode[1] else {})


def _told(episode):
    ret, length = episode
    return {RECORDED: {"r": float(ret), "l": int(length)}}
