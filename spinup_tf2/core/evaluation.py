"""How well a policy does without noise, in environments that serve nothing else."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np

from spinup_tf2.core.acting import Actor
from spinup_tf2.core.vector_env import FIRST_TEST_ENV, VectorEnv, lost
from spinup_tf2.utils.interruption import Interruption
from spinup_tf2.utils.mpi_tools import num_procs, proc_id
from spinup_tf2.utils.watchdog import beat

GIVE_UP_AFTER = 100  # ends of an episode, of which none has been recorded as the end of a game

NO_RESULTS = dict(TestEpRet=(), TestEpLen=(), TestSuccessRate=())


def make_test_envs(args: SimpleNamespace, **kwargs: Any) -> AbstractContextManager:
    """The environments of this rank's share of `num_test_episodes`; None if it has none.

    Each episode takes place in an environment of its own.
    args: the algorithm's arguments. kwargs: more arguments of VectorEnv.
    """
    first = proc_id() * args.num_test_episodes // num_procs()
    end = (proc_id() + 1) * args.num_test_episodes // num_procs()
    if end == first:
        return nullcontext()
    return VectorEnv(
        args.env_fn,
        end - first,
        args.seed,
        args.max_ep_len,
        args.vectorization,
        FIRST_TEST_ENV + first,
        env_retries=args.env_retries,
        **kwargs,
    )


def evaluate(
    envs: VectorEnv | None, act: Actor, interruption: Interruption | None = None
) -> dict[str, list[float]]:
    """One episode in each environment, without noise: TestEpRet, TestEpLen and TestSuccessRate.

    Environments start from their own seeds every time, so that evaluations differ by the policy.
    TestSuccessRate is empty where environments do not tell. An environment that fails (env_retries)
    plays another episode.
    envs: None takes no part, and all are empty.
    interruption: when it is requested, the episodes are left as they are.
    """
    if envs is None:
        return dict(NO_RESULTS)
    obs = envs.reset()
    if envs.recorded is not None:
        envs.recorded.clear()
    noise = np.zeros((envs.num_envs, *envs.action_spec.noise_shape), np.float32)
    ret, length = np.zeros(envs.num_envs), np.zeros(envs.num_envs, int)
    first, unrecorded = {}, {i: [] for i in range(envs.num_envs)}
    successes = {}
    while len(first) < envs.num_envs:
        beat()
        if interruption is not None and interruption.requested:
            break
        a, _ = act(obs, noise)
        obs, rew, _, _, final_obs = envs.step(a)
        ret += rew
        length += 1
        failed = lost(final_obs)
        ends = set(final_obs).difference(failed)
        ended = [(ret[i], length[i], i) for i in sorted(ends)]
        ret[failed], length[failed] = 0, 0  # these environments play another episode
        if envs.recorded is not None:
            for episode in ended:
                unrecorded[episode[-1]].append(episode)
            # Where a wrapper resets the environment before it is over, nothing is ever recorded.
            hopeless = [ends[0] for ends in unrecorded.values() if len(ends) >= GIVE_UP_AFTER]
            ended, envs.recorded[:] = [*envs.recorded, *hopeless], []
        for episode_ret, episode_len, i in ended:
            first.setdefault(i, (episode_ret, episode_len))  # the episodes after it do not count
        for success, i in envs.take_successes():
            successes.setdefault(i, success)
    return dict(
        TestEpRet=[episode_ret for episode_ret, _ in first.values()],
        TestEpLen=[episode_len for _, episode_len in first.values()],
        TestSuccessRate=[successes[i] for i in first if envs.tells_success],
    )


def score_of(row: Mapping[str, Any], tested: bool) -> Sequence[float] | None:
    """What the policy of an epoch is judged by: (success rate, mean return); None if by nothing.

    row: of the log. tested: whether test episodes count, or those of the training.
    """
    prefix = "Test" if tested else ""
    ret, success = row[f"Average{prefix}EpRet"], row.get(f"{prefix}SuccessRate", 0.0)
    known = [value for value in (success, ret) if value != "" and np.isfinite(value)]
    return [float(value) for value in known] if len(known) == 2 else None
