"""The environments of one process, stepped together and reset automatically."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import tee
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from spinup_tf2.core.workers.episodes import Episodes, recorder_of
from spinup_tf2.core.workers.faults import label_of
from spinup_tf2.core.workers.randomness import Randomness
from spinup_tf2.core.workers.vector import make_groups
from spinup_tf2.envs.protocol import check_is_env
from spinup_tf2.envs.spaces import ActionSpec, action_spec, network_dtype, network_observation_space
from spinup_tf2.parallel.mpi import proc_id

FinalObs = Mapping[int, np.ndarray | None]


class Answer(NamedTuple):
    """What n environments answer to their actions.

    Attributes:
        obs: `[n, *obs_shape]`. Where an episode has ended, already the first one of the next.
        rew: `[n]`.
        terminated, truncated: Bool `[n]`.
        final_obs: {environment: last observation} of the episodes that have ended; None where the
            environment has failed and the step is lost.
    """

    obs: np.ndarray
    rew: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    final_obs: FinalObs


class VectorEnv:
    """`num_envs` environments that are stepped together and reset automatically.

    Environments are numbered across all MPI ranks; `indices` are the numbers of this process. All
    random numbers of an environment, and of the actions taken in it, depend only on the seed and
    its index (`randomness`), so that it does not matter how environments are spread over processes.

    An environment may define a method `add_epoch`, also beneath wrappers, in order to follow the
    progress of the training and become harder, for example. `VectorEnv.add_epoch` calls it at the
    end of each epoch, and `reset` makes up for missed calls when a run is resumed.

    Attributes:
        episodes: Statistics of the environments' episodes.
        elapsed: Number of steps in the current episode of each environment, int `[n]`.
        labels: Names of the environments for messages: index, kind, rank and host.
        log: ActionLog that records every reset, step and epoch; or None.
        prototype: An environment that is never stepped, for its spaces and wrappers.

    Args:
        env_fn: Function that creates a new environment in each call. It is called once more than
            there are environments, for the prototype.
        max_ep_len: A time limit on top of the environment's own.
        vectorization: How environments are stepped (`workers.vector.make_groups`).
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
            # Halves of the environments, each with the slice of those in it; only threads have two.
            self._groups = make_groups(
                *(env_fn, prototype, self.labels, self.randomness.environment_seeds()),
                *(max_ep_len, vectorization, env_retries),
            )
            for envs, _ in self._groups:
                stack.callback(envs.close)
            self._closing = stack.pop_all()
        self.episodes = Episodes(num_envs, recorded=recorder_of(prototype) is not None)
        self.elapsed = np.zeros(num_envs, int)
        self.log: Any = None
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
        """Reset all environments, and return their first observations `[n, *obs_shape]`.

        Args:
            epoch, step: Number of the epoch and of the step in it, from 0.
            seeds: A seed for each environment; None: derived from its index, epoch and step.
        """
        if self._counts_epochs:
            self._tell_epochs(epoch)
        seeds = self.randomness.environment_seeds(epoch, step) if seeds is None else seeds
        first: list[np.ndarray] = []
        for envs, which in self._groups:
            obs, infos = envs.reset(seed=[*seeds[which]])
            self.episodes.hear(infos)
            first.append(obs.astype(self.obs_dtype))
        self.episodes.clear()
        self.elapsed[:] = 0
        obs = np.concatenate(first)
        if self.log is not None:
            self.log.begin(epoch, step, obs)
        return obs

    def step(self, act: np.ndarray) -> Answer:
        """Step all environments with actions `[n, *act_shape]`."""
        for envs, which in self._groups:
            envs.step_async(self.action_spec.to_env(act[which]))
        answers = [self._answer(envs, act[which], which) for envs, which in self._groups]
        return answers[0] if len(answers) == 1 else _joined(answers)

    def _answer(self, envs, act, which):
        """Return the Answer of the environments `envs`, which have been given `act`."""
        obs, rew, terminated, truncated, infos = envs.step_wait()
        obs = obs.astype(self.obs_dtype)  # a copy
        final_obs: FinalObs = {}
        self.elapsed[which] += 1
        if infos:
            self.episodes.hear(infos, which.start)
            if "final_obs" in infos:
                ended, last = np.flatnonzero(infos["_final_obs"]), infos["final_obs"]
                self.elapsed[which][ended] = 0
                final_obs = {
                    which.start + i: None if last[i] is None else np.array(last[i], self.obs_dtype)
                    for i in ended.tolist()
                }
        if self.log is not None:
            self.log.add_step(which, act, obs, rew.astype(float), terminated, truncated)
        return Answer(obs, rew, terminated, truncated, final_obs)

    def steps(
        self, actor: Callable[..., tuple[np.ndarray, dict]], obs: np.ndarray, noise: Iterable
    ) -> Iterator[tuple[np.ndarray, np.ndarray, dict[str, np.ndarray], Answer]]:
        """Let an actor act, from `obs` on, with noise `[n, *noise_shape]` of each step.

        Yield `(obs, act, extras, answer)` of each step.
        """
        if len(self._groups) > 1 and getattr(actor, "stateless", False):
            yield from self._overlapping_steps(actor, obs, noise)
            return
        for of_step in noise:
            act, extras = actor(obs, of_step)
            answer = self.step(act)
            yield obs, act, extras, answer
            obs = answer.obs  # critical: the policy must see the result of this step

    def _overlapping_steps(self, actor, obs, noise):
        """Yield the same steps: one half of the environments works while the policy acts for the
        other.
        """

        def steps_of(envs, which, obs, noise):
            taken = None
            for of_step in noise:
                done = taken and (*taken, self._answer(envs, taken[1], which))
                obs = done[-1].obs if done else obs
                act, extras = actor(obs, of_step[which])
                envs.step_async(self.action_spec.to_env(act))
                taken = obs, act, extras
                yield done  # None at first: all halves must begin a step
            if taken:
                yield (*taken, self._answer(envs, taken[1], which))

        noises = tee(noise, len(self._groups))
        halves = [
            steps_of(envs, which, obs[which], own)
            for (envs, which), own in zip(self._groups, noises, strict=True)
        ]
        for parts in zip(*halves, strict=True):
            if parts[0] is not None:
                obs, act, extras, answers = zip(*parts, strict=True)
                joined = {key: np.concatenate([each[key] for each in extras]) for key in extras[0]}
                yield np.concatenate(obs), np.concatenate(act), joined, _joined(answers)

    def add_epoch(self) -> None:
        """Inform the environments and the log that an epoch is over."""
        if self.log is not None:
            self.log.add_epoch()
        if self._epochs is not None:
            self._tell_epochs(self._epochs + 1)

    def _tell_epochs(self, epochs):
        """Announce to the environments those of the first `epochs` epochs they have missed."""
        for _ in range(self._epochs or 0, epochs):
            for envs, _ in self._groups:
                envs.call("add_epoch")
        self._epochs = max(self._epochs or 0, epochs)


def _close_quietly(prototype):
    with suppress(Exception):  # nothing depends on it any more
        prototype.close()


def _joined(answers: Sequence[Answer]) -> Answer:
    """Join the answers of consecutive groups of environments."""
    obs, rew, terminated, truncated = (
        np.concatenate(each) for each in list(zip(*answers, strict=True))[:-1]
    )
    final_obs = {i: last for answer in answers for i, last in answer.final_obs.items()}
    return Answer(obs, rew, terminated, truncated, final_obs)


def lost(final_obs: FinalObs) -> list[int]:
    """Return the environments that have lost a step, given `Answer.final_obs`."""
    return [i for i, last in final_obs.items() if last is None]
