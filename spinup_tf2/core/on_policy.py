"""The loop of the on-policy algorithms: collect, update, log, save."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import keras
import numpy as np

from spinup_tf2.core.experience.trajectory_buffer import TrajectoryBuffer
from spinup_tf2.core.finite import check_experience, check_info, check_variables
from spinup_tf2.core.nets.acting import Actor, Critic
from spinup_tf2.core.nets.actor_critic import (
    ActorCritic,
    CNNActorCritic,
    MLPActorCritic,
    make_actor_critic,
)
from spinup_tf2.core.nets.bodies import count_variables, orthogonal_initialize
from spinup_tf2.core.nets.normalization import NormalizedActorCritic, RewardScaler
from spinup_tf2.core.optimize.gradient_steps import GradientSteps
from spinup_tf2.core.rollout.demonstrations import Demonstrations
from spinup_tf2.core.rollout.evaluation import (
    NO_RESULTS,
    evaluate,
    log_successes,
    make_test_envs,
    own_test_episodes,
    score_of,
)
from spinup_tf2.core.rollout.vector_env import EpisodeStatistics, VectorEnv
from spinup_tf2.core.startup import check_and_seed, opened_run, progress_bar, with_env_fn
from spinup_tf2.parallel.heartbeat import beat
from spinup_tf2.parallel.interruption import Interruption
from spinup_tf2.parallel.mpi import num_procs
from spinup_tf2.persistence.keeper import Keeper, Position
from spinup_tf2.utils.logx import EpochLogger
from spinup_tf2.utils.mpi_tf import check_params


@contextmanager
def training(
    algorithm: str,
    arguments: Mapping[str, Any],
    separate: bool = False,
    needs: Mapping[str, bool] | None = None,
) -> Iterator["Training"]:
    """Set up what every on-policy algorithm trains with, in the order of Spinning Up.

    algorithm: its name.
    arguments: all its arguments by name, as `locals()` gives them first thing.
    separate: whether the algorithm cannot train networks that share variables.
    needs: whether the policy must have an `entropy` or a `kl_divergence` in closed form.
    Raises UserError, before anything is written, for what cannot be used.
    """
    arguments = with_env_fn(arguments)
    args = check_and_seed(arguments)
    settings = (args.num_envs, args.seed, args.max_ep_len, args.vectorization)
    with (
        VectorEnv(args.env_fn, *settings, env_retries=args.env_retries) as envs,
        make_test_envs(args, envs) as test_envs,
    ):
        env = envs.prototype
        spaces = (envs.observation_space, env.action_space)
        closed_forms = [name for name, is_needed in (needs or {}).items() if is_needed]
        ac = make_actor_critic(args.actor_critic, *spaces, args.ac_kwargs, separate, closed_forms)
        orthogonal = arguments.get("orthogonal_init", False)
        if orthogonal is None:  # networks that the caller has made keep their weights
            orthogonal = type(ac) in (MLPActorCritic, CNNActorCritic)
        if orthogonal:
            orthogonal_initialize(ac.pi, output_gain=0.01)
            orthogonal_initialize(ac.v, output_gain=1.0)

        if arguments.get("normalize_obs"):
            ac = NormalizedActorCritic(ac, envs.observation_space, env.action_space)
        scaler = None
        if arguments.get("normalize_reward"):
            scaler = RewardScaler(envs.num_envs, args.gamma)

        sizes = dict(pi=count_variables(ac.pi), v=count_variables(ac.v))
        scaling = scaler.statistics.variables if scaler else ()
        with opened_run(algorithm, arguments, envs, ac, sizes, scaling) as keeper:
            yield Training(args, envs, test_envs, env, ac, keeper.logger, keeper, scaler)


@dataclass
class Training:
    """What an on-policy algorithm trains with; made by `training`.

    args: the algorithm's arguments, as attributes.
    envs, env: the environments, and one more that is never stepped.
    test_envs: those for evaluation; None if this rank has no part in it.
    ac: the actor-critic. logger: an EpochLogger. keeper: writes checkpoints.
    scaler: of rewards, None if they stay as they are.
    epoch: the number of the present epoch, from 0.
    progress: the share of the training that is over, 0 at first and never quite 1.
    """

    args: SimpleNamespace
    envs: VectorEnv
    test_envs: VectorEnv | None
    env: gym.Env
    ac: ActorCritic
    logger: EpochLogger
    keeper: Keeper
    scaler: RewardScaler | None
    epoch: int = 0
    progress: float = 0.0

    def run(
        self,
        update: Callable[[dict[str, np.ndarray]], dict[str, float]],
        steps: Sequence[GradientSteps],
        *,
        state: Sequence[keras.Variable] = (),
        n_steps: int | None = None,
        normalize_adv: bool = True,
        lam: float | Sequence[float] | None = None,
        coeff: Sequence[float] | None = None,
    ) -> None:
        """Train until the last epoch is over.

        update: `update(batch) -> dict of scalars`, which trains `ac` on one batch, as
            TrajectoryBuffer.get returns it; the dict is logged in its order.
        steps: the gradient steps that it takes, whose optimizers checkpoints must hold.
        state: other variables from which updates go on.
        n_steps: how many steps of each environment make a batch; None: those of a whole epoch.
            With several updates in an epoch, the mean of their scalars is logged.
        normalize_adv: whether a batch's advantages are shifted and scaled to mean 0 and standard
            deviation 1.
        lam, coeff: as TrajectoryBuffer takes them; None: the algorithm's argument lam.
        """
        args, envs, ac, logger, keeper = self.args, self.envs, self.ac, self.logger, self.keeper
        local_steps = args.steps_per_epoch // (envs.num_envs * num_procs())
        n_steps = n_steps or local_steps
        spec = envs.action_spec
        buffer = TrajectoryBuffer(
            envs.observation_space.shape,
            spec.shape,
            spec.dtype,
            n_steps,
            envs.num_envs,
            args.gamma,
            args.lam if lam is None else lam,
            obs_dtype=envs.obs_dtype,
            normalize_adv=normalize_adv,
            coeff=coeff,
        )
        normalized = isinstance(ac, NormalizedActorCritic)
        if normalized:
            update = ac.taking_in(update)
        act, value = Actor(ac), Critic(ac.v)
        acting = act
        if getattr(args, "behavior_policy", None) is not None:
            acting = Demonstrations(act, args.behavior_policy, envs)
        episodes = EpisodeStatistics(envs.num_envs, envs.recorded)
        modules = [ac, *(each.optimizer for each in steps)]
        if self.scaler is not None:
            modules.append(self.scaler.statistics)
        variables = [*(variable for each in modules for variable in each.variables), *state]
        parts = dict(episodes=episodes, scaler=self.scaler)

        with (
            keeper.attached(variables, parts) as at,
            progress_bar(args.epochs, logger, at.epoch) as bar,
        ):
            obs, saved = None, True
            for epoch in range(at.epoch, args.epochs):
                self.epoch = epoch
                noise = envs.noise(epoch, local_steps)
                for start in range(at.step, local_steps, n_steps):
                    self.progress = (epoch + start / local_steps) / args.epochs
                    if normalized:
                        ac.normalizer.adopt()
                    act.refresh()
                    value.refresh()
                    if start + n_steps == local_steps and not args.num_test_episodes:
                        keeper.note_acting_policy()
                    obs = keeper.observations(obs, epoch, start)
                    noise_t = until_stopped(noise[start : start + n_steps], keeper.interruption)
                    obs = collect(envs, acting, buffer, obs, noise_t)
                    if keeper.asked_to_stop():
                        envs.forget(buffer.t)  # it will be collected again, by the same policy
                        keeper.stop(Position(epoch, start, at.infos))

                    seen = (buffer.obs, buffer.rew, buffer.final_obs, obs)
                    check_experience(envs, epoch, start, *seen, ac.variables)
                    ends = buffer.terminated | buffer.truncated
                    ep_ret, ep_len = episodes.update(buffer.rew, ends, buffer.lost)
                    if self.scaler is not None:
                        buffer.rew[:] = self.scaler(buffer.rew, ends, buffer.lost)
                    batch = buffer.get(value, obs)
                    at.infos.append(update(batch))
                    check_info(at.infos[-1], epoch)
                    logger.store(EpRet=ep_ret, EpLen=ep_len, VVals=batch["val"])
                    logger.store(SuccessRate=[success for success, _ in envs.take_successes()])

                check_variables(variables, epoch)
                tested = args.num_test_episodes > 0
                if tested:
                    self._test(act, at, epoch, local_steps)
                envs.add_epoch()
                if (epoch + 1) % args.save_freq == 0 or epoch == args.epochs - 1 or not saved:
                    check_params(variables)
                    saved = keeper.save_policy()

                logger.log_tabular("Epoch", epoch)
                logger.log_tabular("EpRet", with_min_and_max=True)
                if tested:
                    logger.log_tabular("TestEpRet", with_min_and_max=True)
                logger.log_tabular("EpLen", average_only=True)
                if tested:
                    logger.log_tabular("TestEpLen", average_only=True)
                rates = ("SuccessRate", "TestSuccessRate") if tested else ("SuccessRate",)
                log_successes(logger, rates, (envs, self.test_envs))
                logger.log_tabular("VVals", with_min_and_max=True)
                logger.log_tabular("TotalEnvInteracts", (epoch + 1) * args.steps_per_epoch)
                for key, val in at.infos[0].items():
                    several = len(at.infos) > 1
                    mean = np.mean([info[key] for info in at.infos]) if several else val
                    logger.log_tabular(key, mean)
                logger.log_tabular("Time", keeper.seconds())
                score = score_of(logger.log_current_row, tested)
                logger.dump_tabular()
                keeper.epoch_over(epoch, score)
                at.step, at.infos = 0, []
                bar.update()

    def _test(self, act, at, epoch, local_steps):
        """Store how the policy does in the test episodes, if they are due in this epoch."""
        args, keeper = self.args, self.keeper
        results = NO_RESULTS
        if (epoch + 1) % args.test_freq == 0 or epoch == args.epochs - 1:
            act.refresh()
            keeper.note_acting_policy()
            episodes = own_test_episodes(args.num_test_episodes)
            results = evaluate(self.test_envs, act, episodes, epoch, keeper.interruption)
            if keeper.asked_to_stop():
                keeper.stop(Position(epoch, local_steps, at.infos))
        self.logger.store(**results)


def until_stopped(noise: np.ndarray, interruption: Interruption) -> Iterator[np.ndarray]:
    """The noise of each step, with a heartbeat, until the run is asked to stop."""
    for noise_t in noise:
        beat()
        if interruption.requested:
            return
        yield noise_t


def collect(
    envs: VectorEnv, act: Actor, buffer: TrajectoryBuffer, obs: np.ndarray, noise: Iterable
) -> np.ndarray:
    """Fill `buffer` with a step for each `noise`, from `obs` `[n, ...]` on; returns the next."""
    buffer.start_epoch()
    for step in envs.steps(act, obs, noise):
        obs, a, rew, terminated, truncated, next_obs, final_obs, val = step
        buffer.store(obs, a, rew, terminated, truncated, final_obs, val)
        obs = next_obs
    return obs
