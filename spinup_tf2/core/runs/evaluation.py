"""How well a policy does without noise, in environments that serve nothing else."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from math import ceil

import numpy as np

from spinup_tf2.core.rollout.memory import Policy
from spinup_tf2.core.rollout.randomness import FIRST_TEST_ENV
from spinup_tf2.core.rollout.vector_env import VectorEnv, lost
from spinup_tf2.parallel.heartbeat import beat
from spinup_tf2.parallel.interruption import Interruption
from spinup_tf2.parallel.mpi import num_procs, proc_id

NO_RESULTS: dict[str, list[float]] = dict(TestEpRet=[], TestEpLen=[], TestSuccessRate=[])


def own_test_episodes(num_test_episodes: int) -> range:
    """Numbers of the test episodes that this rank plays; ranks have nearly equal shares."""
    first, end = (rank * num_test_episodes // num_procs() for rank in (proc_id(), proc_id() + 1))
    return range(FIRST_TEST_ENV + first, FIRST_TEST_ENV + end)


def make_test_envs(
    make: Callable[..., VectorEnv], envs: VectorEnv, num_test_episodes: int
) -> AbstractContextManager[VectorEnv | None]:
    """Environments for this rank's share of the test episodes; None if it has none.

    As many as those that train, or fewer if these need no more rounds.

    Args:
        make: VectorEnv with the arguments that those that train have in common with these.
        envs: Those that train.
    """
    episodes = own_test_episodes(num_test_episodes)
    if not episodes:
        return nullcontext()
    rounds = ceil(len(episodes) / envs.num_envs)
    num_envs = ceil(len(episodes) / rounds)
    return make(num_envs=num_envs, first_env=episodes.start, prototype=envs.prototype)


def evaluate(
    envs: VectorEnv | None,
    act: Policy,
    episodes: range | None = None,
    epoch: int = 0,
    interruption: Interruption | None = None,
) -> dict[str, list[float]]:
    """Test episodes without noise: TestEpRet, TestEpLen and TestSuccessRate.

    Episode i starts from the seed of environment i, wherever it takes place: the same in every
    evaluation, so that these differ by the policy. TestSuccessRate is empty where environments do
    not tell. An environment that fails (env_retries) plays another episode.

    Args:
        envs: None: this rank plays no episodes, and all results are empty.
        episodes: Their numbers; None: one in each environment. As many as there are environments
            are played at the same time.
        epoch: The number of the epoch, from 0, that has been trained last. Environments that want
            to know (`add_epoch`) are told of those before it, as those that train have been.
        interruption: Once it is requested, the episodes are broken off.
    """
    if envs is None:
        return dict(NO_RESULTS)
    episodes = envs.indices if episodes is None else episodes
    act = act.acting_in(envs)
    results = []

    def stopped():
        return interruption is not None and interruption.requested

    for first in range(episodes.start, episodes.stop, envs.num_envs):
        if stopped():
            break
        # If fewer episodes are left than environments, the surplus environments are ignored.
        numbers = range(first, first + envs.num_envs)
        seeds = replace(envs.randomness, indices=numbers).environment_seeds()
        obs = envs.reset(epoch, seeds=seeds)
        count = min(envs.num_envs, episodes.stop - first)
        results += _play(envs, act, obs, count, stopped)
    return dict(
        TestEpRet=[ret for ret, _, _ in results],
        TestEpLen=[length for _, length, _ in results],
        TestSuccessRate=[success for _, _, success in results if success is not None],
    )


def _play(envs, act, obs, count, stopped):
    """(return, length, success) of the episode that begins in each of the first `count` of `envs`.

    `obs` is what they show. Success is None where it is not told.
    """
    noise = np.zeros((envs.num_envs, *envs.action_spec.noise_shape), np.float32)
    ret, length = np.zeros(envs.num_envs), np.zeros(envs.num_envs, int)
    results: dict[int, tuple] = {}
    successes: dict[int, bool] = {}
    while len(results) < count:
        beat()
        if stopped():
            break
        a, _ = act(obs, noise)
        obs, rew, _, _, final_obs = envs.step(a)
        ret += rew
        length += 1
        if not final_obs:
            continue
        failed = lost(final_obs)
        if envs.episodes.recorded is None:
            ended = [(ret[i], length[i], i) for i in set(final_obs).difference(failed)]
        else:  # not every end is one: a game may have lives left
            ended = envs.episodes.take_recorded()
        ret[failed], length[failed] = 0, 0  # these environments play another episode
        successes |= {i: success for success, i in envs.episodes.take_successes()}
        for episode_ret, episode_len, i in ended:
            if i < count:  # the episodes after it do not count
                results.setdefault(i, (episode_ret, episode_len, successes.get(i)))
    return [results[i] for i in sorted(results)]
