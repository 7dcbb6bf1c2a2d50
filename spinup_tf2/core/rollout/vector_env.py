"""The environments of one process, stepped together."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from itertools import accumulate, pairwise, tee
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np

from spinup_tf2.core.rollout.episodes import Episodes, RecordedEpisodes, recorder_of
from spinup_tf2.core.rollout.faults import SupervisedEnv, label_of
from spinup_tf2.core.rollout.randomness import Randomness
from spinup_tf2.core.rollout.workers import make_groups
from spinup_tf2.envs.protocol import CheckedEnv, check_is_env
from spinup_tf2.envs.spaces import (
    ActionSpec,
    action_spec,
    flatten_observations,
    network_dtype,
    network_observation_space,
)
from spinup_tf2.errors import UserError
from spinup_tf2.parallel.mpi import proc_id

FinalObs = Mapping[int, np.ndarray | None]
StepResult = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, FinalObs]


class Transition(NamedTuple):
    """One step of n environments: arrays `[n, ...]`, and final_obs, as `VectorEnv.step` returns it.

    `val` is V(obs) `[n]` where acting has computed it anyway, else None.
    """

    obs: np.ndarray
    act: np.ndarray
    rew: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    final_obs: FinalObs
    val: np.ndarray | None
    next_obs: np.ndarray


class StepLog(Protocol):
    """What is told of every reset, step and epoch, such as an ActionLog."""

    def begin(self, epoch: int, step: int, obs: np.ndarray) -> None: ...

    def add_step(self, which: slice, act: np.ndarray, *answer: np.ndarray) -> None: ...

    def add_epoch(self) -> None: ...

    def forget(self, steps: int) -> None: ...


class VectorEnv:
    """`num_envs` environments that are stepped together and reset themselves.

    Environments are numbered over all MPI ranks: `indices` are those of this process. All that is
    random in an environment, and in what is done in it, depends on the seed and on its index
    alone (`randomness`). So it does not matter how environments are spread over processes.

    An environment with a method `add_epoch`, also below wrappers, is told how far the training is,
    so that it can become harder: `add_epoch` calls it at the end of each epoch, and `reset` for
    those that it has missed, where a run is resumed.

    Attributes:
        groups: Vector environments that are stepped separately, with `begin` and `finish`.
        episodes: What is known of their episodes.
        elapsed: How many steps the present episode of each environment has had, int `[n]`.
        labels: Names of the environments for messages: index, kind, rank and host.
        log: Is told of every reset, step and epoch; or None.
        prototype: An environment that is never stepped, for its spaces and wrappers.

    Args:
        env_fn: Makes one environment, another one in each call. It is called once more than there
            are environments, for the prototype.
        max_ep_len: A time limit on top of the environment's own.
        vectorization: How environments are stepped (`workers.make_groups`).
        first_env: Index of the first environment; by default this MPI rank's.
        make_action_spec: Gives the ActionSpec of the environment's action space.
        env_retries: How many times each environment is made anew after it has raised an exception;
            the step is lost, and nothing may be learned from it. An exception after that is raised
            as an EnvironmentFailure.
        prototype: That of another VectorEnv with the same env_fn, which closes it; None: one is
            made.
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
        self.num_envs, self.indices = num_envs, range(first_env, first_env + num_envs)
        with ExitStack() as stack:  # closes what has been made, if the rest cannot be
            if prototype is None:
                prototype = env_fn()
                check_is_env(prototype)
                stack.callback(_close_quietly, prototype)
            self.prototype = prototype
            self.observation_space = network_observation_space(prototype.observation_space)
            self.obs_dtype = network_dtype(self.observation_space)
            self.action_spec = make_action_spec(prototype.action_space)
            self.randomness = Randomness(seed, self.indices, self.action_spec)
            self.labels = [label_of(prototype, i) for i in self.indices]
            known = os.getpid(), id(prototype.unwrapped)
            make = partial(_make_env, env_fn, max_ep_len, known)
            makers = [
                partial(SupervisedEnv, make, label, env_retries, os.getpid(), first_seed)
                for label, first_seed in zip(
                    self.labels, self.randomness.environment_seeds(), strict=True
                )
            ]
            self.groups = make_groups(makers, self.labels, vectorization)
            for group in self.groups:
                stack.callback(group.close)
            self._closing = stack.pop_all()
        ends = accumulate((group.num_envs for group in self.groups), initial=0)
        self.group_slices = [slice(*each) for each in pairwise(ends)]
        self._begun: list = [None] * len(self.groups)  # actions of steps that are not finished
        self.episodes = Episodes(num_envs, recorded=recorder_of(prototype) is not None)
        self.elapsed = np.zeros(num_envs, int)
        self.log: StepLog | None = None
        self._counts_epochs = prototype.has_wrapper_attr("add_epoch")
        self._epochs = None  # how many those that count have been told of, once they are reset

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self) -> None:
        self._closing.close()

    def reset(
        self, epoch: int = 0, step: int = 0, seeds: Sequence[int] | None = None
    ) -> np.ndarray:
        """Start all environments from their own seeds for this moment; returns obs `[n, obs_dim]`.

        Images are uint8 `[n, height, width, channels]` here and below, all else float32.

        Args:
            seeds: Others, one for each environment.
        """
        if self._counts_epochs:
            self._tell_epochs(epoch)
        seeds = self.randomness.environment_seeds(epoch, step) if seeds is None else seeds
        first: list[np.ndarray] = []
        for group, which in zip(self.groups, self.group_slices, strict=True):
            obs, infos = group.reset(seed=[*seeds[which]])
            self.episodes.hear(infos)
            first.append(obs.astype(self.obs_dtype))
        self.episodes.clear()
        self.elapsed[:] = 0
        obs = np.concatenate(first)
        if self.log is not None:
            self.log.begin(epoch, step, obs)
        return obs

    def step(self, act: np.ndarray) -> StepResult:
        """Step all environments with actions `[n, *act_shape]`.

        Returns:
            obs `[n, obs_dim]`, rew, terminated and truncated `[n]`, and final_obs. Where an episode
            has ended, obs is already the first observation of the next one, and `final_obs[i]` the
            last of the old; None if the i-th environment has lost this step.
        """
        for group, which in enumerate(self.group_slices):
            self.begin(group, act[which])
        return join([self.finish(group) for group in range(len(self.groups))])

    def steps(
        self,
        act: Callable[[np.ndarray, np.ndarray, slice], tuple[np.ndarray, np.ndarray | None]],
        obs: np.ndarray,
        noise: Iterable[np.ndarray],
    ) -> Iterator[Transition]:
        """Let a policy act, and yield a Transition of all environments for each of its steps.

        The following step has begun by then: environments in other processes work while the caller
        stores it, and one group of environments while the policy acts for the other.

        Args:
            act: An Actor, called with `which` of the environments it acts for, a slice.
            obs: What the environments show, `[n, *obs_shape]`.
            noise: For each step, `[n, *noise_shape]`. Where it ends, what has begun is finished.
        """
        noises = tee(noise, len(self.groups))
        groups = [self._steps_of(k, act, obs, noises[k]) for k in range(len(noises))]
        for transitions in zip(*groups, strict=True):
            if transitions[0] is not None:
                yield join(transitions)

    def _steps_of(self, group, act, obs, noise):
        """The transitions of one group; None first, for every group must have begun by then."""
        which = self.group_slices[group]
        obs, taken = obs[which], None
        for noise_t in noise:
            transition = taken and self._transition(group, *taken)
            if transition:
                obs = transition.next_obs  # critical: the policy must see what the step led to
            a, val = act(obs, noise_t[which], which)
            self.begin(group, a)
            taken = obs, a, val
            yield transition
        if taken:
            yield self._transition(group, *taken)

    def _transition(self, group, obs, act, val):
        next_obs, rew, terminated, truncated, final_obs = self.finish(group)
        return Transition(obs, act, rew, terminated, truncated, final_obs, val, next_obs)

    def begin(self, group: int, act: np.ndarray) -> None:
        """Begin a step of one group of environments, those of `group_slices[group]`."""
        self._begun[group] = act
        self.groups[group].step_async(self.action_spec.to_env(act))

    def finish(self, group: int) -> StepResult:
        """Wait for the end of the step that `begin` has begun; returns what `step` does."""
        which, final_obs = self.group_slices[group], {}
        obs, rew, terminated, truncated, infos = self.groups[group].step_wait()
        obs = obs.astype(self.obs_dtype)  # a copy
        self.elapsed[which] += 1
        if infos:
            self.episodes.hear(infos, which.start)
        if "final_obs" in infos:
            ended, last = np.flatnonzero(infos["_final_obs"]), infos["final_obs"]
            self.elapsed[which][ended] = 0
            final_obs = {which.start + int(i): self._network_obs(last[i]) for i in ended}
        if self.log is not None:
            answer = obs, rew.astype(float), terminated, truncated
            self.log.add_step(which, self._begun[group], *answer)
        return obs, rew, terminated, truncated, final_obs

    def _network_obs(self, obs):
        return None if obs is None else np.array(obs, self.obs_dtype)

    def add_epoch(self) -> None:
        """Tell environments and log that an epoch is over."""
        if self.log is not None:
            self.log.add_epoch()
        if self._epochs is not None:
            self._tell_epochs(self._epochs + 1)

    def forget(self, steps: int) -> None:
        """Take the last steps out of the log, as if they had not been taken."""
        if self.log is not None:
            self.log.forget(steps)

    def _tell_epochs(self, epochs):
        """Tell environments about those of the first `epochs` epochs that they do not know of."""
        for _ in range(self._epochs or 0, epochs):
            for group in self.groups:
                group.call("add_epoch")
        self._epochs = max(self._epochs or 0, epochs)


def _make_env(env_fn, max_ep_len, prototype):
    """One environment; `prototype` is the process and the identity of another one."""
    checked = CheckedEnv(env_fn(), max_ep_len)
    if (os.getpid(), id(checked.unwrapped)) == prototype:
        raise UserError(
            "env_fn returned the same environment twice. Each call must make a new one, such as "
            "lambda: gymnasium.make('CartPole-v1'): training and tests step them independently."
        )
    env = flatten_observations(checked)
    return env if recorder_of(env) is None else RecordedEpisodes(env)


def _close_quietly(prototype):
    with suppress(Exception):  # it has taken no part in the training, which is over
        prototype.close()


def join(results: Sequence[Any]) -> Any:
    """One StepResult or Transition from those of groups, whose environments follow one another.

    Arrays are concatenated, dicts united; None stays None.
    """
    if len(results) == 1:
        return results[0]
    joined = [_join(each) for each in zip(*results, strict=True)]
    return Transition(*joined) if isinstance(results[0], Transition) else tuple(joined)


def _join(values):
    if isinstance(values[0], dict):
        return {key: value for each in values for key, value in each.items()}
    return None if values[0] is None else np.concatenate(values)


def lost(final_obs: FinalObs) -> list[int]:
    """The environments that have lost a step, from the `final_obs` of `VectorEnv.step`."""
    return [i for i, last in final_obs.items() if last is None]
