"""The environments of one process: seeds, time limits, final observations, noise."""

import os
import socket
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import accumulate, pairwise, tee
from typing import NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from spinup_tf2.core.experience.advantages import segments
from spinup_tf2.core.rollout.faults import RECORDED, ProcessVectorEnv, SupervisedEnv
from spinup_tf2.core.rollout.threads import ThreadsVectorEnv
from spinup_tf2.envs.protocol import CheckedEnv, check_is_env
from spinup_tf2.envs.spaces import (
    ActionSpec,
    action_spec,
    flatten_observations,
    network_dtype,
    network_observation_space,
)
from spinup_tf2.parallel.mpi import proc_id
from spinup_tf2.parallel.threads import threads_per_rank

# obs, rew, terminated and truncated, arrays over the environments, and {environment: final_obs}.
StepResult = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[int, np.ndarray | None]]


class Transition(NamedTuple):
    """One step of n environments: arrays `[n, ...]`, and final_obs, as `VectorEnv.step` returns it.

    val: V(obs) `[n]` where acting has computed it anyway, else None.
    """

    obs: np.ndarray
    act: np.ndarray
    rew: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    next_obs: np.ndarray
    final_obs: dict[int, np.ndarray | None]
    val: np.ndarray | None


FIRST_TEST_ENV = 2**31  # test environments are numbered from here on, far from those that train

MOST_LIVES = 100  # that an episode is thought to have


class VectorEnv:
    """`num_envs` environments that are stepped together and reset themselves.

    The environments of all MPI ranks are numbered through: this process holds `first_env` to
    `first_env + num_envs - 1`. Environment i has its own seed and its own stream of action noise,
    both derived from `(seed, i)`. So it does not matter how environments are spread over processes.

    env_fn: makes one environment. It is called once more than there are environments: `prototype`
        is never stepped, and serves to look at spaces and spec, and to be saved.
    max_ep_len: a time limit on top of the environment's own.
    vectorization: 'sync' steps one after the other in this process; 'async' gives each a process
        of its own (the fork server's: scripts need `if __name__ == "__main__":`), which pays when
        a step takes longer than about 0.1 ms; 'threads' shares them among as many threads as the
        process may have, which pays for those that release the GIL.
    first_env: number of the first environment; by default this MPI rank's.
    make_action_spec: the ActionSpec of the environment's action space.
    env_retries: how often an environment that raises an exception is made anew, each of them; the
        step is lost, and nothing may be learned from it. An exception after that is raised as an
        EnvironmentFailure.
    prototype: that of another VectorEnv with the same env_fn, which closes it; None: one is made.

    `labels` are the names of the environments in messages: number, kind, rank and host.

    `turns` are the environments that can be stepped by themselves, with `begin` and `finish`: all
    of them, or with 'threads' two halves: one half works while the policy acts for the other.

    `elapsed` is how many steps the present episode of each environment has had, int `[n]`.

    An environment with gymnasium's RecordEpisodeStatistics among its wrappers says itself what its
    episodes are and what they return: wrappers outside of it may change rewards, and end episodes
    for learning only, as where a life of a game is lost. An episode that is reset before it is over
    counts as it is. Then `recorded` is a list to which `step` appends `(return, length, i)` of
    each, i from 0 to `num_envs - 1`; otherwise it is None.

    Where the info of the last step of an episode holds `is_success`, it tells whether the episode
    has been a success, and `take_successes` gives that. `tells_success` says whether any info has
    held it so far, also that of a reset or of another step.

    An environment with a method `add_epoch`, also below wrappers, is told how far the training is,
    so that it can become harder: `add_epoch` calls it at the end of each epoch, and `reset` for
    those that it has missed, where a run is resumed.

    remember: set it to True to keep all actions since the last `reset`, with which `replay` brings
        environments to where they are; and checksums of what they have answered.
    """

    def __init__(
        self,
        env_fn: Callable[[], gym.Env],
        num_envs: int = 1,
        seed: int = 0,
        max_ep_len: int = 1000,
        vectorization: str = "sync",
        first_env: int | None = None,
        make_action_spec: Callable[[gym.Space], ActionSpec] = action_spec,
        env_retries: int = 0,
        prototype: gym.Env | None = None,
    ):
        first_env = proc_id() * num_envs if first_env is None else first_env
        self.indices = range(first_env, first_env + num_envs)
        self.num_envs = num_envs
        self.seed = seed

        def make():
            env = flatten_observations(CheckedEnv(env_fn(), max_ep_len))
            recorder = _recorder(env)
            return env if recorder is None else _RecordedEpisodes(env, recorder)

        self._closes_prototype = prototype is None
        self.prototype = env_fn() if prototype is None else prototype
        check_is_env(self.prototype)
        try:
            self.observation_space = network_observation_space(self.prototype.observation_space)
            self.obs_dtype = network_dtype(self.observation_space)
            self.action_spec = make_action_spec(self.prototype.action_space)
            self.labels = [_label(self.prototype, i) for i in self.indices]
            makers = [
                partial(SupervisedEnv, make, label, env_retries, os.getpid())
                for label in self.labels
            ]
            # `reset` and `finish` convert what is observed, which copies it.
            kwargs = dict(autoreset_mode=AutoresetMode.SAME_STEP, copy=False)
            if vectorization == "async":
                self.parts = [ProcessVectorEnv(makers, self.labels, **kwargs)]
            elif vectorization == "threads":
                half = (num_envs + 1) // 2
                pool = ThreadPoolExecutor(min(threads_per_rank(), num_envs), "environments")
                halves = filter(None, (makers[:half], makers[half:]))
                self.parts = [ThreadsVectorEnv(each, pool) for each in halves]
            else:
                self.parts = [_SerialVectorEnv(makers, **kwargs)]
        except BaseException:
            self._close_prototype()
            raise
        ends = [*accumulate((part.num_envs for part in self.parts), initial=0)]
        self.turns = [slice(*columns) for columns in pairwise(ends)]
        self.recorded = [] if _recorder(self.prototype) is not None else None
        self.elapsed = np.zeros(num_envs, int)
        self.tells_success = False
        self._successes = []
        self.remember = False
        self._began, self._actions = (0, 0), []
        self.strayed = {}  # see `replay`
        self._seen = []  # checksums [n] of what `reset` and each step have shown
        self._shown = [None] * len(self.turns)  # of a step that not all turns have finished
        self._begun = [None] * len(self.turns)  # actions that have not been finished
        self._counts_epochs = self.prototype.has_wrapper_attr("add_epoch")
        self._epochs = None  # how many the environments have been told of, once they are reset
        self._epoch_ends = []  # in numbers of actions

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def reset(
        self, epoch: int = 0, step: int = 0, seeds: Sequence[int] | None = None
    ) -> np.ndarray:
        """Start all environments from their own seeds for this moment; returns obs `[n, obs_dim]`.

        Images are uint8 `[n, height, width, channels]` here and below, all else float32.
        seeds: others, one for each environment.
        """
        self._began, self._actions, self._epoch_ends = (epoch, step), [], []
        self._epochs = self._epochs or 0
        while self._epochs < epoch:
            self._tell_epoch()
        if seeds is None:
            seeds = [environment_seed(self.seed, i, epoch, step) for i in self.indices]
        self.elapsed[:] = 0
        self._successes, first = [], []
        for part, columns in zip(self.parts, self.turns, strict=True):
            obs, infos = part.reset(seed=seeds[columns])
            self.tells_success |= "is_success" in infos
            first.append(obs.astype(self.obs_dtype))
        obs = np.concatenate(first)
        self._seen = [_checksums(obs)] if self.remember else []
        return obs

    def step(self, act: np.ndarray) -> StepResult:
        """Step all environments with actions `[n, *act_shape]`.

        Returns obs `[n, obs_dim]`, rew, terminated and truncated `[n]`, and final_obs. Where an
        episode has ended, obs is already the first observation of the next one, and
        `final_obs[i]` the last of the old; None if environment i has lost this step.
        """
        for turn, columns in enumerate(self.turns):
            self.begin(turn, act[columns])
        return join([self.finish(turn) for turn in range(len(self.turns))])

    def steps(
        self,
        act: Callable[[np.ndarray, np.ndarray, slice], tuple[np.ndarray, np.ndarray | None]],
        obs: np.ndarray,
        noise: Iterable[np.ndarray],
    ) -> Iterator[Transition]:
        """Let a policy act, and yield one Transition of all environments for each of its steps.

        Args:
            act: `act(obs, noise, which)` gives actions, and values or None, for the environments
                `which`, a slice of this process's; an Actor.
            obs: What the environments show, `[n, *obs_shape]`.
            noise: For each step, `[n, *noise_shape]`. Where it ends early, the step that has been
                begun is still finished and yielded.

        A transition is yielded when the following step has begun already, so that environments
        elsewhere work while the caller stores it, and one half while the policy acts for the other.
        """
        turns = [
            self._act_in_turn(turn, act, obs, noise_of_turn)
            for turn, noise_of_turn in enumerate(tee(noise, len(self.turns)))
        ]
        for parts in zip(*turns, strict=True):
            if parts[0] is not None:
                yield parts[0] if len(parts) == 1 else Transition(*join(parts))

    def _act_in_turn(self, turn, act, obs, noise):
        """The transitions of one turn; None first, for every turn must have begun by then."""
        which = self.turns[turn]
        obs, begun = obs[which], None

        def finish():
            next_obs, rew, terminated, truncated, final_obs = self.finish(turn)
            seen, a, val = begun
            return Transition(seen, a, rew, terminated, truncated, next_obs, final_obs, val)

        for noise_t in noise:
            finished = begun and finish()
            if finished:
                obs = finished.next_obs  # critical: the policy must see what the step led to
            a, val = act(obs, noise_t[which], which)
            self.begin(turn, a)
            begun = obs, a, val
            yield finished
        if begun:
            yield finish()

    def begin(self, turn: int, act: np.ndarray) -> None:
        """Begin a step of the columns `turns[turn]`; every turn has one before any has the next."""
        self._begun[turn] = act
        self.parts[turn].step_async(self.action_spec.to_env(act))
        if self.remember and turn == len(self.turns) - 1:
            self._actions.append(np.concatenate(self._begun))

    def finish(self, turn: int) -> StepResult:
        """Wait for the end of the step that `begin` has begun; returns what `step` does."""
        part, first = self.parts[turn], self.turns[turn].start
        obs, rew, terminated, truncated, infos = part.step_wait()
        self.elapsed[self.turns[turn]] += 1
        final_obs = {}
        if "final_obs" in infos:
            last = infos["final_obs"]
            ended = np.flatnonzero(infos["_final_obs"])
            final_obs = {
                first + int(i): None if last[i] is None else np.array(last[i], self.obs_dtype)
                for i in ended
            }
            self.elapsed[[*final_obs]] = 0
            final_info = infos["final_info"]
            if RECORDED in infos:
                ret, length = infos[RECORDED]["r"], infos[RECORDED]["l"]
                over = np.flatnonzero(infos[f"_{RECORDED}"])
                self.recorded += [(float(ret[i]), int(length[i]), first + int(i)) for i in over]
            if "is_success" in final_info:
                success, told = final_info["is_success"], final_info["_is_success"]
                self._successes += [
                    (bool(success[i]), first + int(i)) for i in np.flatnonzero(told)
                ]
            self.tells_success |= "is_success" in final_info
        self.tells_success |= "is_success" in infos
        obs = obs.astype(self.obs_dtype)
        if self.remember:
            self._shown[turn] = _checksums(obs, rew.astype(float), terminated, truncated)
            if turn == len(self.turns) - 1:
                self._seen.append(np.concatenate(self._shown))
        return obs, rew, terminated, truncated, final_obs

    def take_successes(self) -> list[tuple[bool, int]]:
        """(success, environment of this process) of the episodes that have told, each once."""
        taken, self._successes = self._successes, []
        return taken

    def add_epoch(self) -> None:
        """An epoch is over."""
        if self.remember:
            self._epoch_ends.append(len(self._actions))
        if self._epochs is not None:
            self._tell_epoch()

    def _tell_epoch(self):
        self._epochs += 1
        if self._counts_epochs:
            for part in self.parts:
                part.call("add_epoch")

    def forget(self, steps: int) -> None:
        """Take the last steps out of what is remembered, as if they had not been taken."""
        if self.remember and steps:
            del self._actions[-steps:], self._seen[-steps:]

    def env_state(self, column: int) -> dict[str, np.ndarray]:
        """Where environment `column` of this process is, by how it came there."""
        actions = np.array([act[column] for act in self._actions], self.action_spec.dtype)
        ends = np.array(self._epoch_ends, int)
        seen = np.array([checksums[column] for checksums in self._seen], np.uint32)
        return dict(began=np.array(self._began), actions=actions, epoch_ends=ends, seen=seen)

    def set_env_state(self, column: int, state: Mapping[str, np.ndarray]) -> None:
        """Take a state back, for `replay`; of all columns."""
        self._began = tuple(int(number) for number in state["began"])
        self._epoch_ends = state.get("epoch_ends", np.empty(0, int)).tolist()
        if column == 0:
            self._actions = [
                np.empty((self.num_envs, *self.action_spec.shape), actions.dtype)
                for actions in state["actions"][:, None]
            ]
        for act, own in zip(self._actions, state["actions"], strict=True):
            act[column] = own
        seen = state.get("seen", np.empty(0, np.uint32))
        if column == 0:
            self._seen = [np.empty(self.num_envs, np.uint32) for _ in seen]
        for checksums, own in zip(self._seen, seen, strict=True):
            checksums[column] = own

    def replay(self, steps: int | None = None) -> np.ndarray:
        """Start again as at the last reset and take the actions that are remembered; returns obs.

        `strayed` then holds the environments that have not answered as they did before: their
        labels, and the number of the step that was the first to differ, 0 for the reset.

        steps: how many actions to take at most.
        """
        actions, epoch_ends, before = self._actions[:steps], self._epoch_ends, self._seen
        obs = self.reset(*self._began)
        for t, act in enumerate(actions):
            for _ in range(epoch_ends.count(t)):
                self.add_epoch()
            obs, *_ = self.step(act)
        for _ in range(epoch_ends.count(len(actions))):
            self.add_epoch()
        if self.recorded is not None:
            self.recorded.clear()  # these episodes have been counted
        self.take_successes()
        self.strayed = {}
        for step, checksums in enumerate(zip(before, self._seen, strict=False)):
            for column in np.flatnonzero(np.not_equal(*checksums)):
                self.strayed.setdefault(self.labels[column], step)
        return obs

    def noise(self, epoch: int, steps: int) -> np.ndarray:
        """Action noise for a whole epoch, `[steps, n, *noise_shape]`; the same at every call."""
        streams = [
            self.action_spec.draw_noise(np.random.default_rng([self.seed, i, epoch]), steps)
            for i in self.indices
        ]
        return np.stack(streams, axis=1)

    def minibatches(self, epoch: int, steps: int, passes: int, count: int) -> np.ndarray:
        """How to cut an epoch's `[steps, n]` data into `count` minibatches, `passes` times anew.

        Returns int32 `[passes, count, steps * n / count]`: rows of the data as one batch
        `[steps * n]`, in which step t of environment i is row t * n + i. Each minibatch holds
        equally many steps of every environment, in the order that the environment's own stream
        of random numbers gives them, so that minibatches do not depend on how environments are
        spread over processes either. The same at every call.
        """
        columns = []
        for column, i in enumerate(self.indices):
            rng = np.random.default_rng([self.seed, i, epoch, 1])  # not the stream of the noise
            times = rng.permuted(np.tile(np.arange(steps, dtype=np.int32), (passes, 1)), axis=1)
            rows = times * self.num_envs + column
            columns.append(rows.reshape(passes, count, steps // count))
        return np.concatenate(columns, axis=2)

    def generators(self) -> list[np.random.Generator]:
        """A generator for each environment, for what is drawn from its past while learning."""
        return [np.random.default_rng([self.seed, i, 0, 2]) for i in self.indices]

    def close(self) -> None:
        for part in self.parts:
            part.close()
        with suppress(Exception):  # it has taken no part in the training, which is over
            self._close_prototype()

    def _close_prototype(self):
        if self._closes_prototype:
            self.prototype.close()


class _SerialVectorEnv(SyncVectorEnv):
    """gymnasium's, with a step in two halves as the others have it; all is done in the second."""

    def step_async(self, actions):
        self._begun = actions

    def step_wait(self):
        return self.step(self._begun)


def _checksums(*arrays):
    """A number for each row of arrays `[n, ...]`: uint32 `[n]`."""
    rows = (b"".join(x.tobytes() for x in row) for row in zip(*arrays, strict=True))
    return np.array([zlib.crc32(row) for row in rows], np.uint32)


def join(parts: Sequence[tuple]) -> tuple:
    """One tuple from those of the turns, whose columns follow one another.

    Arrays are concatenated, dicts united; None stays None.
    """
    if len(parts) == 1:
        return parts[0]
    return tuple(_join(each) for each in zip(*parts, strict=True))


def _join(values):
    if isinstance(values[0], dict):
        return {key: value for each in values for key, value in each.items()}
    return None if values[0] is None else np.concatenate(values)


def lost(final_obs: Mapping[int, np.ndarray | None]) -> list[int]:
    """The environments that have lost a step, from the `final_obs` of `VectorEnv.step`."""
    return [i for i, last in final_obs.items() if last is None]


def environment_seed(seed: int, index: int, epoch: int = 0, step: int = 0) -> int:
    """The seed of environment `index` in a run with `seed`, if it is reset at this moment."""
    entropy = [seed, index, epoch, step] if epoch or step else [seed, index]
    return int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 1)


def _label(env, index):
    """What messages call an environment: `env` is one like it."""
    name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
    number = index if index < FIRST_TEST_ENV else index - FIRST_TEST_ENV
    kind = "environment" if index < FIRST_TEST_ENV else "test environment"
    return f"{kind} {number} ({name}, rank {proc_id()} on {socket.gethostname()})"


class _RecordedEpisodes(gym.Wrapper):
    """Tells in the info of `reset` what the episode before was, as it has been recorded.

    It was over, or it has been reset all the same: by a time limit, or because a wrapper has
    ended it early. Where neither is so, as where a game has lives left, it goes on. One that goes
    on for ever, because nothing ever resets it, is none: its parts are counted instead.
    """

    def __init__(self, env, recorder):
        super().__init__(env)
        self._recorder = recorder
        self._count = 0  # episodes that have been recorded to their ends, when it was reset last
        self._lives = 0  # resets since the episode that is recorded began
        self._part = 0.0, 0  # return and length since the last reset

    def step(self, action):
        result = self.env.step(action)
        ret, length = self._part
        self._part = ret + result[1], length + 1
        return result

    def reset(self, *, seed=None, options=None):
        recorder, part, self._part = self._recorder, self._part, (0.0, 0)
        begun = recorder.episode_start_time
        episode = recorder.episode_returns, recorder.episode_lengths
        obs, info = self.env.reset(seed=seed, options=options)

        self._lives += 1
        if recorder.episode_count > self._count:
            episode = recorder.return_queue[-1], recorder.length_queue[-1]
        elif recorder.episode_start_time == begun:  # it goes on
            return obs, info | (_told(part) if self._lives > MOST_LIVES else {})
        self._count, self._lives = recorder.episode_count, 0
        return obs, info | (_told(episode) if episode[1] else {})


def _told(episode):
    ret, length = episode
    return {RECORDED: {"r": float(ret), "l": int(length)}}


def _recorder(env):
    """gymnasium's RecordEpisodeStatistics among the wrappers of an environment, or None."""
    while isinstance(env, gym.Wrapper):
        if isinstance(env, gym.wrappers.RecordEpisodeStatistics):
            return env
        env = env.env
    return None


class EpisodeStatistics:
    """Returns and lengths of finished episodes; unfinished ones are carried into the next epoch.

    recorded: `VectorEnv.recorded`. If it is a list, it knows the episodes; otherwise they are
        counted here.
    """

    def __init__(self, num_envs: int, recorded: list[tuple[float, int, int]] | None = None):
        self.recorded = recorded
        self.ret = np.zeros(num_envs)
        self.len = np.zeros(num_envs, int)

    def restart(self) -> None:
        """Forget the unfinished episodes."""
        self.ret[:], self.len[:] = 0.0, 0
        if self.recorded is not None:
            self.recorded.clear()

    def env_state(self, column: int) -> dict[str, np.ndarray]:
        return dict(ret=self.ret[column], len=self.len[column])

    def set_env_state(self, column: int, state: Mapping[str, np.ndarray]) -> None:
        self.ret[column], self.len[column] = state["ret"], state["len"]

    def update(
        self, rew: np.ndarray, ends: np.ndarray, lost: np.ndarray | bool = False
    ) -> tuple[list[float], list[int]]:
        """Count an epoch's steps: rew `[T, n]`, ends and lost bool `[T, n]`.

        Returns the returns and the lengths of the episodes that ended, in order of environment, or
        as they have been recorded. An episode of which a step was lost is none.
        """
        if self.recorded is not None:
            taken, self.recorded[:] = [*self.recorded], []
            return [ret for ret, _, _ in taken], [length for _, length, _ in taken]
        ep_ret, ep_len = [], []
        lost = np.broadcast_to(lost, ends.shape)
        for env, piece in segments(ends):
            self.ret[env] += rew[piece, env].sum(dtype=float)
            self.len[env] += piece.stop - piece.start
            if ends[piece.stop - 1, env]:
                if not lost[piece.stop - 1, env]:
                    ep_ret.append(self.ret[env])
                    ep_len.append(self.len[env])
                self.ret[env], self.len[env] = 0.0, 0
        return ep_ret, ep_len
