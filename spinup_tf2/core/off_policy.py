"""The loop of the off-policy algorithms: act, store, update, evaluate, log, save."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.special import ndtr

from spinup_tf2.core.experience.replay_buffer import ReplayBuffer, batch_rows
from spinup_tf2.core.finite import check_info, check_step, check_variables
from spinup_tf2.core.nets.acting import Actor
from spinup_tf2.core.nets.bodies import count_variables
from spinup_tf2.core.nets.q_actor_critic import (
    MLPQActorCritic,
    QActorCritic,
    check_no_variable_in_both,
    make_q_actor_critic,
)
from spinup_tf2.core.optimize.update_block import UpdateBlock
from spinup_tf2.core.rollout.evaluation import (
    evaluate,
    log_successes,
    make_test_envs,
    own_test_episodes,
    score_of,
)
from spinup_tf2.core.rollout.vector_env import EpisodeStatistics, VectorEnv, lost
from spinup_tf2.core.startup import check_and_seed, opened_run, progress_bar, with_env_fn
from spinup_tf2.envs.spaces import ActionSpec, bounded_action_spec
from spinup_tf2.parallel.heartbeat import beat
from spinup_tf2.parallel.mpi import num_procs
from spinup_tf2.persistence.keeper import Keeper, Position
from spinup_tf2.utils.logx import EpochLogger
from spinup_tf2.utils.mpi_tf import check_params

XLA_PAYS_AFTER = 5000  # updates; below, it saves less time than it takes to compile


@contextmanager
def training(
    algorithm: str, arguments: Mapping[str, Any], num_q: int, stochastic: bool = False
) -> Iterator["Training"]:
    """Set up what every off-policy algorithm trains with, in the order of Spinning Up.

    algorithm: its name.
    arguments: all its arguments by name, as `locals()` gives them first thing.
    num_q: how many Q-functions it trains.
    stochastic: whether its policy is a distribution; if so, Discrete actions are supported as well.
    Raises UserError, before anything is written, for what cannot be used.
    """
    arguments = with_env_fn(arguments)
    args = check_and_seed(arguments)

    def make_action_spec(space):
        return bounded_action_spec(space, discrete=stochastic)

    settings = (args.num_envs, args.seed, args.max_ep_len, args.vectorization)
    kwargs = dict(make_action_spec=make_action_spec, env_retries=args.env_retries)
    with ExitStack() as stack:
        envs = stack.enter_context(VectorEnv(args.env_fn, *settings, **kwargs))
        env = envs.prototype

        def make_networks():
            spaces = (envs.observation_space, env.action_space)
            return make_q_actor_critic(
                args.actor_critic, *spaces, args.ac_kwargs, stochastic, num_q
            )

        ac, target = make_networks(), make_networks()
        check_no_variable_in_both(
            ac.variables, target.variables, "the networks and the target networks"
        )

        test_envs = stack.enter_context(
            make_test_envs(args, envs, make_action_spec=make_action_spec)
        )

        models = zip(["pi", *ac.q_names], [ac.pi, *ac.qs], strict=True)
        sizes = {name: count_variables(model) for name, model in models}
        sizes["total"] = count_variables(ac)
        keeper = stack.enter_context(opened_run(algorithm, arguments, envs, ac, sizes))
        yield Training(args, envs, test_envs, ac, target, keeper.logger, keeper)


@dataclass
class Training:
    """What an off-policy algorithm trains with; made by `training`.

    args: the algorithm's arguments, as attributes.
    envs: the environments. test_envs: those for evaluation; None if this rank has no part in it.
    ac: the actor-critic. target: another one, for the target networks.
    logger: an EpochLogger. keeper: writes checkpoints.
    """

    args: SimpleNamespace
    envs: VectorEnv
    test_envs: VectorEnv | None
    ac: QActorCritic
    target: QActorCritic
    logger: EpochLogger
    keeper: Keeper

    @property
    def jit_compile(self) -> bool:
        """Whether to compile updates with XLA: if it pays, and for networks that it surely can."""
        updates = self.args.epochs * self.args.steps_per_epoch - self.args.update_after
        return updates >= XLA_PAYS_AFTER and type(self.ac) is MLPQActorCritic

    def run(
        self,
        update: UpdateBlock,
        columns: Mapping[str, bool],
        *,
        noise: Sequence[str] = (),
        explore: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
    ) -> None:
        """Train until the last epoch is over.

        update: what trains on minibatches `[updates, batch, ...]`, as ReplayBuffer.sample returns
            them, and returns arrays to be logged.
        columns: the names of these and whether, beside the average, the standard deviation, the
            largest and the smallest value are logged.
        noise: names of the standard normal numbers that minibatches are to hold, `[updates, batch,
            act_dim]`.
        explore: `explore(act, noise)`, the action that is taken when the policy says `act`, with
            noise `[n, act_dim]`; None: the policy uses the noise itself, and `act` is taken.
        """
        args, envs, ac, logger, keeper = self.args, self.envs, self.ac, self.logger, self.keeper
        spec = envs.action_spec
        num_envs = envs.num_envs * num_procs()  # all there are
        buffer = ReplayBuffer(
            envs.observation_space.shape,
            spec.shape,
            spec.dtype,
            max(1, args.replay_size // num_envs),
            envs.generators(),
            obs_dtype=envs.obs_dtype,
        )
        noise_shapes = dict.fromkeys(noise, spec.noise_shape)
        to_test = own_test_episodes(args.num_test_episodes)
        act = Actor(ac)
        episodes = EpisodeStatistics(envs.num_envs, envs.recorded)
        steps = args.steps_per_epoch // num_envs
        start_steps = args.start_steps if args.init_from is None else -1  # trained networks can act
        look_every = max(1, args.update_every // num_envs)  # for a request to stop
        rew = np.zeros((steps, envs.num_envs))
        ends, lost_steps = np.zeros((2, steps, envs.num_envs), bool)
        variables = [*ac.variables, *self.target.variables, *update.variables]
        parts = dict(episodes=episodes, replay=buffer)

        def count_episodes(end):
            """Count those of this epoch's steps that have not been counted, before step `end`."""
            new = slice(at.step, end)
            ep_ret, ep_len = episodes.update(rew[new], ends[new], lost_steps[new])
            logger.store(EpRet=ep_ret, EpLen=ep_len)
            logger.store(SuccessRate=[success for success, _ in envs.take_successes()])

        with (
            keeper.attached(variables, parts, buffer, first_epoch=1) as at,
            progress_bar(args.epochs, logger, at.epoch) as bar,
        ):
            act.refresh()  # the weights may be those of a checkpoint
            obs, saved = None, True
            for epoch in range(at.epoch, args.epochs):
                act_noise = envs.noise(epoch, steps)
                for step in range(at.step, steps):
                    beat()
                    obs = keeper.observations(obs, epoch, step)
                    t = epoch * args.steps_per_epoch + step * num_envs  # interactions before
                    if t > start_steps:
                        a, _ = act(obs, act_noise[step])
                        if explore is not None:
                            a = explore(a, act_noise[step])
                    else:
                        a = uniform(spec, act_noise[step])
                    next_obs, rew[step], terminated, truncated, final_obs = envs.step(a)
                    check_step(envs, epoch + 1, step + 1, next_obs, rew[step], final_obs, variables)
                    ends[step], lost_steps[step] = terminated | truncated, False
                    lost_steps[step, lost(final_obs)] = True
                    buffer.store(obs, a, rew[step], terminated, next_obs, final_obs)
                    obs = next_obs  # critical: the policy must see what the step led to

                    for block in range(updates_due(t, args), updates_due(t + num_envs, args)):
                        first = block * args.update_every
                        numbers = range(first, first + args.update_every)
                        rows = batch_rows(args.batch_size, num_envs, envs.indices, numbers)
                        info = update(buffer.sample(rows, noise_shapes), first)
                        check_info(info, epoch + 1)
                        logger.store(**info)
                        act.refresh()
                    if (step + 1) % look_every == 0 and keeper.asked_to_stop():
                        count_episodes(step + 1)
                        keeper.stop(Position(epoch, step + 1))

                count_episodes(steps)
                check_variables(variables, epoch + 1)  # before anybody acts with them
                keeper.note_acting_policy()
                tests = evaluate(self.test_envs, act, to_test, epoch, keeper.interruption)
                if keeper.asked_to_stop():
                    keeper.stop(Position(epoch, steps))
                envs.add_epoch()
                logger.store(**tests)
                logger.store(**{key: [] for key in columns})  # before the first update: blank
                if (epoch + 1) % args.save_freq == 0 or epoch == args.epochs - 1 or not saved:
                    check_params(variables)
                    saved = keeper.save_policy()

                logger.log_tabular("Epoch", epoch + 1)
                logger.log_tabular("EpRet", with_min_and_max=True)
                logger.log_tabular("TestEpRet", with_min_and_max=True)
                logger.log_tabular("EpLen", average_only=True)
                logger.log_tabular("TestEpLen", average_only=True)
                rates = ("SuccessRate", "TestSuccessRate")
                log_successes(logger, rates, (envs, self.test_envs))
                logger.log_tabular("TotalEnvInteracts", (epoch + 1) * args.steps_per_epoch)
                for key, all_four in columns.items():
                    kwargs = {"with_min_and_max" if all_four else "average_only": True}
                    logger.log_tabular(key, **kwargs)
                logger.log_tabular("Time", keeper.seconds())
                score = score_of(logger.log_current_row, tested=args.num_test_episodes > 0)
                logger.dump_tabular()
                keeper.epoch_over(epoch, score)
                at.step = 0
                bar.update()


def updates_due(end: int, args: SimpleNamespace) -> int:
    """How many blocks of updates follow the interactions 0 to `end - 1`.

    One after each that is a multiple of update_every and not before update_after, as in Spinning
    Up, where interactions are counted one by one.
    """
    if end <= args.update_after:
        return 0
    return (end - 1) // args.update_every - (args.update_after - 1) // args.update_every


def uniform(spec: ActionSpec, noise: np.ndarray) -> np.ndarray:
    """Actions `[n, *act_shape]` of which each is as likely as another, from a policy's noise."""
    if spec.num_choices is not None:
        return noise.argmax(-1)
    return (2 * ndtr(noise) - 1).astype(spec.dtype)  # the normal distribution function
