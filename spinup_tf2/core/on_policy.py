"""The loop of the on-policy algorithms: collect, update, log, save."""

import sys
import time
from collections.abc import Callable

import numpy as np
from tqdm import tqdm

from spinup_tf2.core.acting import Actor, Critic
from spinup_tf2.core.buffers import TrajectoryBuffer
from spinup_tf2.core.policies import ActorCritic
from spinup_tf2.core.vector_env import EpisodeStatistics, VectorEnv
from spinup_tf2.utils.logx import EpochLogger, Logger
from spinup_tf2.utils.mpi_tf import check_params
from spinup_tf2.utils.mpi_tools import num_procs, proc_id


def train(
    envs: VectorEnv,
    ac: ActorCritic,
    update: Callable[[dict[str, np.ndarray]], dict[str, float]],
    logger: EpochLogger,
    *,
    steps_per_epoch: int,
    epochs: int,
    gamma: float,
    lam: float,
    save_freq: int,
    save: Callable[[], object],
) -> None:
    """Train until the last epoch is over.

    envs: a VectorEnv; ac: an ActorCritic.
    update: `update(batch) -> dict of scalars`, which trains `ac` on one epoch's batch, as
        TrajectoryBuffer.get returns it; the dict is logged in its order.
    steps_per_epoch: of all environments of all MPI ranks together.
    save: called without arguments every `save_freq` epochs, and after the last.
    """
    local_steps = steps_per_epoch // (envs.num_envs * num_procs())
    spec = envs.action_spec
    buffer = TrajectoryBuffer(
        envs.observation_space.shape, spec.shape, spec.dtype, local_steps, envs.num_envs, gamma, lam
    )
    act, value = Actor(ac.pi), Critic(ac.v)
    episodes = EpisodeStatistics(envs.num_envs)
    start_time = time.time()

    obs = envs.reset()
    with progress_bar(epochs, logger) as bar:
        for epoch in range(epochs):
            act.refresh()
            value.refresh()
            obs = collect(envs, act, buffer, obs, envs.noise(epoch, local_steps))
            batch = buffer.get(value, obs)
            info = update(batch)

            if (epoch + 1) % save_freq == 0 or epoch == epochs - 1:
                check_params(ac.pi.trainable_variables + ac.v.trainable_variables)
                save()

            ep_ret, ep_len = episodes.update(buffer.rew, buffer.terminated | buffer.truncated)
            logger.store(EpRet=ep_ret, EpLen=ep_len, VVals=batch["val"])
            logger.log_tabular("Epoch", epoch)
            logger.log_tabular("EpRet", with_min_and_max=True)
            logger.log_tabular("EpLen", average_only=True)
            logger.log_tabular("VVals", with_min_and_max=True)
            logger.log_tabular("TotalEnvInteracts", (epoch + 1) * steps_per_epoch)
            for key, val in info.items():
                logger.log_tabular(key, val)
            logger.log_tabular("Time", time.time() - start_time)
            logger.dump_tabular()
            bar.update()


def collect(
    envs: VectorEnv,
    act: Callable[[np.ndarray, np.ndarray], np.ndarray],
    buffer: TrajectoryBuffer,
    obs: np.ndarray,
    noise: np.ndarray,
) -> np.ndarray:
    """Fill `buffer` with steps of `envs`, beginning at `obs` `[n, obs_dim]`; returns the next obs.

    noise: `[T, n, *noise_shape]`. Episodes go on from one epoch to the next.
    """
    buffer.start_epoch()
    for noise_t in noise:
        a = act(obs, noise_t)
        next_obs, rew, terminated, truncated, final_obs = envs.step(a)
        buffer.store(obs, a, rew, terminated, truncated, final_obs)
        obs = next_obs  # critical: the policy must see what the step led to
    return obs


def progress_bar(epochs: int, logger: Logger) -> tqdm:
    """A bar over epochs on rank 0's terminal; none where stderr is not one, or with `quiet`."""
    hidden = logger.quiet or proc_id() != 0 or not sys.stderr.isatty()
    return tqdm(total=epochs, unit="epoch", disable=hidden, dynamic_ncols=True)
