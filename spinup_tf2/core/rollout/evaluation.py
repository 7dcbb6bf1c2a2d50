"""How well a policy does without noise, in environments that serve nothing else."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np

from spinup_tf2.core.nets.acting import Actor
from spinup_tf2.core.rollout.randomness import FIRST_TEST_ENV
from spinup_tf2.core.rollout.vector_env import VectorEnv, lost
from spinup_tf2.parallel.heartbeat import beat
from spinup_tf2.parallel.interruption import Interruption
from spinup_tf2.parallel.mpi import mpi_op, num_procs, proc_id
from spinup_tf2.utils.logx import EpochLogger

NO_RESULTS = dict(TestEpRet=(), TestEpLen=(), TestSuccessRate=())


def own_test_episodes(num_test_episodes: int) -> range:
    """Numbers of the test episodes that this rank plays; ranks have nearly equal shares."""
    first, end = (rank * num_test_episodes // num_procs() for rank in (proc_id(), proc_id() + 1))
    return range(FIRST_TEST_ENV + first, FIRST_TEST_ENV + end)


def make_test_envs(
    make: Callable[..., VectorEnv], envs: VectorEnv, num_test_episodes: int
) -> AbstractContextManager[VectorEnv | None]:
    """Environments for this rank's share of the test episodes; None if it has none.

    They are as many as those that train; fewer where fewer need no more rounds.

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
    act: Actor,
    episodes: range | None = None,
    epoch: int = 0,
    interruption: Interruption | None = None,
) -> dict[str, list[float]]:
    """Test episodes without noise: TestEpRet, TestEpLen and TestSuccessRate.

    Episode i starts from the seed of environment i, wherever it takes place: the same in every
    evaluation, so that these differ by the policy. TestSuccessRate is empty where environments do
    not tell. An environment that fails (env_retries) plays another episode.

    Args:
        envs: None takes no part, and all are empty.
        episodes: Their numbers; None: one in each environment. As many as there are environments
            are played at the same time.
        epoch: The number of the epoch, from 0, that has been trained last. Environments that want
            to know (`add_epoch`) are told of those before it, as those that train have been.
        interruption: When it is requested, the episodes are left as they are.
    """
    if envs is None:
        return dict(NO_RESULTS)
    episodes = envs.indices if episodes is None else episodes
    results = []

    def stopped():
        return interruption is not None and interruption.requested

    for first in range(episodes.start, episodes.stop, envs.num_envs):
        if stopped():
            break
        # Where fewer are left than there are environments, what the others do is not looked at.
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
    results, successes = {}, {}
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


def log_successes(
    logger: EpochLogger, names: Sequence[str], envs: Iterable[VectorEnv | None]
) -> None:
    """Log success rates, where environments tell of successes. Collective.

    Whether there are such columns is settled by the first row: there are if any environment of any
    rank has told anything by then. What is told for the first time afterwards is not logged.

    Args:
        names: What successes have been stored under.
        envs: The environments of this rank.
    """
    told = any(each is not None and each.episodes.tells_success for each in envs)
    told = told or any(logger.stored()[name].size for name in names)  # before a stop
    if logger.first_row:
        logged = bool(mpi_op(float(told), "MAX"))
    else:
        logged = names[0] in logger.log_headers
    for name in names:
        if logged:
            logger.log_tabular(name, average_only=True)
        else:
            del logger.epoch_dict[name]
    if told and not logged:
        logger.warn_once(
            "An environment has told is_success for the first time after the first row of the log, "
            "which settles the columns; there is no SuccessRate. Make epochs long enough for an "
            "episode to end in the first one, or tell is_success in every step."
        )


def score_of(row: Mapping[str, Any], tested: bool) -> Sequence[float] | None:
    """What the policy of an epoch is judged by: (success rate, mean return); None if by nothing.

    Args:
        row: Of the log.
        tested: Whether test episodes count, or those of the training.
    """
    prefix = "Test" if tested else ""
    ret, success = row[f"Average{prefix}EpRet"], row.get(f"{prefix}SuccessRate", 0.0)
    known = [value for value in (success, ret) if value != "" and np.isfinite(value)]
    return [float(value) for value in known] if len(known) == 2 else None
