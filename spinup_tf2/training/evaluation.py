"""Evaluation of a policy without noise, in separate test environments."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from math import ceil

import numpy as np

from spinup_tf2.core.nets.acting import Actor
from spinup_tf2.core.nets.recurrent_acting import RecurrentActor
from spinup_tf2.core.vector_env import VectorEnv, lost
from spinup_tf2.core.workers.randomness import FIRST_TEST_ENV
from spinup_tf2.parallel.mpi import beat, num_procs, proc_id
from spinup_tf2.parallel.stopping import Interruption

NO_RESULTS: dict[str, list[float]] = dict(TestEpRet=[], TestEpLen=[], TestSuccessRate=[])


def own_test_episodes(num_test_episodes: int) -> range:
    """Return the numbers of this rank's test episodes; ranks have nearly equal shares."""
    first, end = (rank * num_test_episodes // num_procs() for rank in (proc_id(), proc_id() + 1))
    return range(FIRST_TEST_ENV + first, FIRST_TEST_ENV + end)


def make_test_envs(
    make: Callable[..., VectorEnv], envs: VectorEnv, num_test_episodes: int
) -> AbstractContextManager[VectorEnv | None]:
    """Create the environments for this rank's share of the test episodes; None if it has none.

    There are as many as training environments, or fewer if that takes no more rounds.

    Args:
        make: VectorEnv with the arguments that training and test environments have in common.
        envs: The training environments.
        num_test_episodes: Number of test episodes of all ranks together.
    """
    episodes = own_test_episodes(num_test_episodes)
    if not episodes:
        return nullcontext()
    rounds = ceil(len(episodes) / envs.num_envs)
    num_envs = ceil(len(episodes) / rounds)
    return make(num_envs=num_envs, first_env=episodes.start, prototype=envs.prototype)


def evaluate(
    envs: VectorEnv | None,
    act: Actor | RecurrentActor,
    episodes: range | None = None,
    epoch: int = 0,
    interruption: Interruption | None = None,
) -> dict[str, list[float]]:
    """Play test episodes without noise; return TestEpRet, TestEpLen and TestSuccessRate.

    Episode i starts from the seed of environment i, wherever it is played. The seeds are the same
    in every evaluation, so that only the policy makes a difference. TestSuccessRate is empty if
    environments report no success. An environment that fails (env_retries) plays another episode.

    Args:
        envs: The test environments; None: this rank plays no episodes, and all results are empty.
        act: The policy, as it acts in these environments.
        episodes: Numbers of the episodes; None: one in each environment. As many as there are
            environments are played at the same time.
        epoch: Number of the latest epoch of the training, from 0. Environments with a method
            `add_epoch` have it called for all epochs before, as in training.
        interruption: Once a stop is requested, the episodes are broken off.
    """
    if envs is None:
        return dict(NO_RESULTS)
    episodes = envs.indices if episodes is None else episodes
    act.refresh()
    results = []

    def stopped():
        return interruption is not None and interruption.requested

    for first in range(episodes.start, episodes.stop, envs.num_envs):
        if stopped():
            break
        # If there are more environments than episodes left, the surplus ones are ignored.
        numbers = range(first, first + envs.num_envs)
        obs = envs.reset(epoch, seeds=replace(envs.randomness, indices=numbers).environment_seeds())
        count = min(envs.num_envs, episodes.stop - first)
        results += _play(envs, act, obs, count, stopped)
    return dict(
        TestEpRet=[ret for ret, _, _ in results],
        TestEpLen=[length for _, length, _ in results],
        TestSuccessRate=[success for _, _, success in results if success is not None],
    )


def _play(envs, act, obs, count, stopped):
    """Play one episode in each of the first `count` environments.

    Args:
        envs: The environments.
        act: The policy.
        obs: The first observations of the episodes, `[n, ...]`.
        count: Number of episodes.
        stopped: Function that says whether to break off the episodes.

    Returns:
        (return, length, success) of each finished episode; success is None if it is not reported.
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
        else:  # not every end counts: a game may have lives left
            ended = envs.episodes.take_recorded()
        ret[failed], length[failed] = 0, 0  # these environments play another episode
        successes |= {i: success for success, i in envs.episodes.take_successes()}
        for episode_ret, episode_len, i in ended:
            if i < count:  # later episodes of the same environment do not count
                results.setdefault(i, (episode_ret, episode_len, successes.get(i)))
    return [results[i] for i in sorted(results)]
