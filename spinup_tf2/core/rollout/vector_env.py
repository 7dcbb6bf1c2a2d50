"""The environments of one process, stepped together."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from itertools import accumulate, pairwise, tee
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np

from spinup_tf2.core.workers.episodes import Episodes, RecordedEpisodes, recorder_of
from spinup_tf2.core.workers.faults import SupervisedEnv, label_of
from spinup_tf2.core.workers.randomness import Randomness
from spinup_tf2.core.workers.vector import make_groups
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
    """One step of n environments: arrays `[n, ...]`, and final_obs as `VectorEnv.step` returns it.

    `val` is V(obs) `[n]` if acting has computed it anyway, else None.
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
    """Protocol of a log that records every reset, step and epoch, such as ActionLog."""

    def begin(self, epoch: int, step: int, obs: np.ndarray) -> None: ...

    def add_step(self, which: slice, act: np.ndarray, *answer: np.ndarray) -> None: ...

    def add_epoch(self) -> None: ...

    def forget(self, steps: int) -> None: ...


class VectorEnv:
    """`num_envs` environments that are stepped together and reset automatically.

    Environments are numbered across all MPI ranks; `indices` are the numbers of this process. All
    random numbers of an environment, and of the actions taken in it, depend only on the seed and
    its index (`randomness`), so that it does not matter how environments are spread over processes.

    An environment may define a method `add_epoch`, also beneath wrappers, in order to follow the
    progress of the training and become harder, for example. `VectorEnv.add_epoch` calls it at the
    end of each epoch, and `reset` makes up for missed calls when a run is resumed.

    Attributes:
        groups: Vector environments that are stepped separately, with `begin` and `finish`.
        episodes: Statistics of the environments' episodes.
        elapsed: Number of steps in the current episode of each environment, int `[n]`.
        labels: Names of the environments for messages: index, kind, rank and host.
        log: StepLog that records every reset, step and epoch; or None.
        prototype: An environment that is never stepped, for its spaces and wrappers.

    Args:
        env_fn: Function that creates a new environment in each call. It is called once more than
            there are environments, for the prototype.
        max_ep_len: A time limit on top of the environment's own.
        vectorization: How environments are stepped (`workers.make_groups`).
        first_env: Index of the first environment; by default that of this MPI rank.
        make_action_spec: Function that returns the ActionSpec of an action space.
        env_retries: How many times each environment is recreated after it has raised an exception;
            the failed step is lost, and nothing may be learned from it. A further exception is
            raised as an EnvironmentFailure.
        prototype: The prototype of another VectorEnv with the same env_fn, which will close it;
            None creates one.
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
        with ExitStack() as stack:  # closes what has been created if something fails
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
        self._epochs = None  # how many epochs have been announced; None before the first reset

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self) -> None:
        self._closing.close()

    def reset(
        self, epoch: int = 0, step: int = 0, seeds: Sequence[int] | None = None
    ) -> np.ndarray:
        """Reset all environments, and return their first observations `[n, obs_dim]`.

        Images are uint8 `[n, height, width, channels]` here and below; all else is float32.

        Args:
            epoch: Number of the epoch, from 0.
            step: How many steps of the epoch each environment has taken.
            seeds: A seed for each environment; by default they are derived from the run's seed, the
                environment's index, the epoch and the step.
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
            has ended, obs is already the first observation of the next one, and `final_obs[i]` is
            the last one of the old, or None if the i-th environment has lost this step.
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
        """Let a policy act, and yield the Transition of all environments for each step.

        By then the next step has begun: environments in other processes work while the caller
        stores the transition, and one group of environments works while the policy acts for the
        other.

        Args:
            act: An Actor; it is called with the slice of environments for which it acts.
            obs: The current observations, `[n, *obs_shape]`.
            noise: Noise `[n, *noise_shape]` of each step. When it is exhausted, the step that has
                begun is finished.
        """
        noises = tee(noise, len(self.groups))
        groups = [self._steps_of(k, act, obs, noises[k]) for k in range(len(noises))]
        for transitions in zip(*groups, strict=True):
            if transitions[0] is not None:
                yield join(transitions)

    def _steps_of(self, group, act, obs, noise):
        """Yield the transitions of one group, after a None: first, all groups must begin a step."""
        which = self.group_slices[group]
        obs, taken = obs[which], None
        for noise_t in noise:
            transition = taken and self._transition(group, *taken)
            if transition:
                obs = transition.next_obs  # critical: the policy must see the result of the step
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
        """Wait for the end of a step that `begin` has begun; return the same as `step`."""
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
        """Inform the environments and the log that an epoch is over."""
        if self.log is not None:
            self.log.add_epoch()
        if self._epochs is not None:
            self._tell_epochs(self._epochs + 1)

    def forget(self, steps: int) -> None:
        """Remove the last `steps` steps from the log, as if they had not been taken."""
        if self.log is not None:
            self.log.forget(steps)

    def _tell_epochs(self, epochs):
        """Announce to the environments those of the first `epochs` epochs they have missed."""
        for _ in range(self._epochs or 0, epochs):
            for group in self.groups:
                group.call("add_epoch")
        self._epochs = max(self._epochs or 0, epochs)


def _make_env(env_fn, max_ep_len, prototype):
    """Create one environment; `prototype` is the process id and the `id` of the prototype."""
    checked = CheckedEnv(env_fn(), max_ep_len)
    if (os.getpid(), id(checked.unwrapped)) == prototype:
        raise UserError(
            "env_fn returned the same environment twice. Each call must make a new one, such as "
            "lambda: gymnasium.make('CartPole-v1'): training and tests step them independently."
        )
    env = flatten_observations(checked)
    return env if recorder_of(env) is None else RecordedEpisodes(env)


def _close_quietly(prototype):
    with suppress(Exception):  # nothing depends on it any more
        prototype.close()


def join(results: Sequence[Any]) -> Any:
    """Join the StepResults or Transitions of consecutive groups of environments into one.

    Arrays are concatenated and dicts merged; None stays None.
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
    """Return the environments that have lost a step, given `final_obs` of `VectorEnv.step`."""
    return [i for i, last in final_obs.items() if last is None]
