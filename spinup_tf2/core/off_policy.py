"""The training loop of the off-policy algorithms: act, store, update, evaluate, log, save."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras
import numpy as np
from scipy.special import ndtr

from spinup_tf2.core.nets.acting import Actor
from spinup_tf2.core.nets.checks import check_no_variable_in_both, class_for, make_q_actor_critic
from spinup_tf2.core.nets.layers import count_variables, first_weights
from spinup_tf2.core.nets.q_actor_critic import QActorCritic
from spinup_tf2.core.replay_buffer import ReplayBuffer, batch_rows
from spinup_tf2.core.update_block import UpdateBlock
from spinup_tf2.core.vector_env import lost
from spinup_tf2.envs.spaces import ActionSpec, bounded_action_spec
from spinup_tf2.errors import UserError
from spinup_tf2.parallel.mpi import beat, num_procs
from spinup_tf2.training.finite import check_step
from spinup_tf2.training.keeper import Part
from spinup_tf2.training.opening import environments, opened_run
from spinup_tf2.training.run import Run
from spinup_tf2.training.settings import Settings

XLA_PAYS_AFTER = 5000  # updates; with fewer, XLA saves less time than it takes to compile


@dataclass(frozen=True)
class Schedule:
    """When an off-policy algorithm acts at random, when it learns, and from how much data.

    The attributes are the arguments of the same names; `arguments.table` describes them.
    """

    replay_size: int
    batch_size: int
    start_steps: int
    update_after: int
    update_every: int

    def updates_due(self, end: int) -> int:
        """Return how many blocks of updates are due after the interactions 0 to `end - 1`.

        As in Spinning Up, which counts interactions one by one, a block follows each interaction
        whose number is a multiple of update_every and at least update_after.
        """
        if end <= self.update_after:
            return 0
        return (end - 1) // self.update_every - (self.update_after - 1) // self.update_every


@contextmanager
def opened(
    algorithm: str,
    settings: Settings,
    arguments: Mapping[str, Any],
    actor_critic: Callable[..., QActorCritic],
    ac_kwargs: dict | None,
    *,
    num_q: int,
    stochastic: bool = False,
) -> Iterator[tuple[Run[QActorCritic], QActorCritic]]:
    """Context manager that opens a run of an off-policy algorithm, and creates target networks.

    Args:
        algorithm: Name of the algorithm.
        settings: The run's settings.
        arguments: The algorithm's arguments, for config.json: `dict(locals())`, evaluated in its
            first line.
        actor_critic: Function that creates the networks.
        ac_kwargs: Arguments of `actor_critic`.
        num_q: How many Q-functions the algorithm trains.
        stochastic: Whether the policy is a distribution; only then are Discrete action spaces
            supported.

    Raises:
        UserError: An argument cannot be used; nothing has been written yet.
    """
    make_action_spec = partial(bounded_action_spec, discrete=stochastic)
    with environments(settings, make_action_spec) as (envs, test_envs):
        spaces = envs.observation_space, envs.prototype.action_space
        ac, target = (
            make_q_actor_critic(actor_critic, *spaces, ac_kwargs, stochastic, num_q)
            for _ in range(2)
        )
        check_no_variable_in_both(
            ac.variables, target.variables, "the networks and the target networks"
        )
        first_weights(ac, class_for(actor_critic, spaces[0]), settings.init, "torch")
        models = zip(["pi", *ac.q_names], [ac.pi, *ac.qs], strict=True)
        sizes = {name: count_variables(model) for name, model in models}
        sizes["total"] = count_variables(ac)
        arguments = settings.recorded(arguments)
        with opened_run(algorithm, settings, arguments, envs, test_envs, ac, sizes) as run:
            yield run, target


def pays_to_compile(run: Run[QActorCritic], schedule: Schedule) -> bool:
    """Return whether to compile updates with XLA: in long runs whose networks it can compile."""
    updates = run.settings.epochs * run.settings.steps_per_epoch - schedule.update_after
    return updates >= XLA_PAYS_AFTER and run.ac.jit_compile


def train(
    run: Run[QActorCritic],
    target: QActorCritic,
    update: UpdateBlock,
    schedule: Schedule,
    *,
    noise: Sequence[str] = (),
    explore: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
    with_min_and_max: Sequence[str] = (),
    average_only: Sequence[str] = (),
    state: Sequence[keras.Variable] = (),
    parts: Mapping[str, Part] | None = None,
) -> None:
    """Train until the last epoch is over.

    Args:
        run: The open run.
        target: The target networks.
        update: The block of updates. It is called with the minibatches `[updates, batch, ...]` that
            ReplayBuffer.sample returns and the number of the first update, and returns a dict of
            arrays to log.
        schedule: When to act at random and when to learn.
        noise: Names under which minibatches hold standard normal noise `[updates, batch,
            *noise_shape]`.
        explore: Function `explore(act, noise)` that returns the action to take where the policy
            chose `act`, given noise `[n, *noise_shape]`; None: the policy has used the noise itself
            and `act` is taken.
        with_min_and_max: Keys of the arrays that are logged with average, standard deviation,
            maximum and minimum.
        average_only: Keys of the arrays of which only the average is logged.
        state: Further variables that checkpoints hold.
        parts: Further objects that keep state for each environment, by name.
    """
    envs, settings, spec = run.envs, run.settings, run.envs.action_spec
    num_envs = envs.num_envs * num_procs()  # of all processes
    size = schedule.replay_size // num_envs
    shapes = envs.observation_space.shape, spec.shape, spec.dtype
    buffer = ReplayBuffer(*shapes, size, envs.randomness.generators(), obs_dtype=envs.obs_dtype)
    act = Actor(run.ac)
    episodes = EpisodesOfEpoch(run)
    update_blocks = UpdateBlocks(run, update, schedule, buffer, noise)
    start_steps = schedule.start_steps
    if settings.init_from is not None:
        start_steps = -1  # trained networks can act
    look_every = max(1, schedule.update_every // num_envs)  # steps between checks for a stop
    for theirs, ours in zip(target.variables, run.ac.variables, strict=True):
        theirs.assign(ours)  # including variables that are not trained
    variables = [*run.ac.variables, *target.variables, *update.variables, *state]
    columns = dict.fromkeys(with_min_and_max, True) | dict.fromkeys(average_only, False)
    run.begin(variables, parts, replay=buffer, columns=columns, tests=True, first_epoch=1)
    act.refresh()  # the weights may be those of a checkpoint
    if not schedule.updates_due(settings.epochs * settings.steps_per_epoch):
        run.logger.warn_once(
            f"nothing will be learned: the {settings.epochs * settings.steps_per_epoch} "
            f"interactions of this run end before the first update (update_after is "
            f"{schedule.update_after}, update_every {schedule.update_every})."
        )

    obs = None
    for epoch in run.epochs():
        act_noise = envs.randomness.noise(epoch, settings.local_steps)
        for step in range(run.first_step, settings.local_steps):
            beat()
            obs = run.observations(obs, step)
            t = epoch * settings.steps_per_epoch + step * num_envs  # interactions so far
            run.progress = t / (settings.epochs * settings.steps_per_epoch)
            if t > start_steps:
                a, _ = act(obs, act_noise[step])
                a = a if explore is None else explore(a, act_noise[step])
            else:
                a = uniform(spec, act_noise[step])
            next_obs, rew, terminated, truncated, final_obs = envs.step(a)
            check_step(envs, run.logged_epoch, step + 1, next_obs, rew, final_obs, variables)
            episodes.store(step, rew, terminated | truncated, lost(final_obs))
            buffer.store(obs, a, rew, terminated, next_obs, final_obs)
            obs = next_obs  # critical: the policy must see the result of this step
            for block in range(schedule.updates_due(t), schedule.updates_due(t + num_envs)):
                info = update_blocks(block)
                _check_columns(info, columns)
                run.record(info)
                act.refresh()
            if (step + 1) % look_every == 0 and run.asked_to_stop():
                episodes.log(step + 1)
                run.leave(step + 1)
        episodes.log(settings.local_steps)
        run.finish_epoch(act)


def _check_columns(info, columns):
    unknown = sorted(info.keys() - columns.keys())
    if unknown:
        raise UserError(
            f"An update has returned {' and '.join(unknown)} to be logged, and no column was "
            "declared for it; off_policy.train takes such names in with_min_and_max and "
            "average_only."
        )


class UpdateBlocks:
    """Samples the minibatches of a block of updates and performs the updates."""

    def __init__(
        self,
        run: Run[QActorCritic],
        update: UpdateBlock,
        schedule: Schedule,
        buffer: ReplayBuffer,
        noise: Sequence[str],
    ):
        envs = run.envs
        self.update, self.buffer = update, buffer
        self.length = schedule.update_every
        self.rows = partial(
            batch_rows, schedule.batch_size, envs.num_envs * num_procs(), envs.indices
        )
        self.noise = dict.fromkeys(noise, envs.action_spec.noise_shape)

    def __call__(self, number: int) -> dict[str, np.ndarray]:
        """Perform block `number`, counted from 0, and return the arrays to log."""
        first = number * self.length
        rows = self.rows(range(first, first + self.length))
        return self.update(self.buffer.sample(rows, self.noise), first)


class EpisodesOfEpoch:
    """Collects the rewards and episode ends of an epoch, and logs the episodes that ended."""

    def __init__(self, run: Run[QActorCritic]):
        envs, steps = run.envs, run.settings.local_steps
        self.run = run
        self.rew = np.zeros((steps, envs.num_envs))
        self.ends, self.lost = np.zeros((2, steps, envs.num_envs), bool)

    def store(self, step: int, rew: np.ndarray, ends: np.ndarray, lost_by: list[int]) -> None:
        """Store rewards and episode ends `[n]` of step `step` of the epoch.

        `lost_by` lists the environments that lost the step.
        """
        self.rew[step], self.ends[step], self.lost[step] = rew, ends, False
        self.lost[step, lost_by] = True

    def log(self, end: int) -> None:
        """Log the episodes that ended before step `end`.

        They are counted from the step at which the epoch began, or was resumed.
        """
        new = slice(self.run.first_step, end)
        episodes = self.run.envs.episodes
        self.run.logger.store(**episodes.count(self.rew[new], self.ends[new], self.lost[new]))


def noisy(act_noise: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Return `explore(act, noise)` that adds Gaussian noise and clips the result to [-1, 1].

    Args:
        act_noise: Standard deviation of the noise.
    """
    return lambda act, noise: np.clip(act + act_noise * noise, -1, 1)


def uniform(spec: ActionSpec, noise: np.ndarray) -> np.ndarray:
    """Return uniformly distributed actions `[n, *act_shape]`, computed from a policy's noise."""
    if spec.num_choices is not None:
        return noise.argmax(-1)
    # The cumulative distribution function of the normal makes the noise uniform in [0, 1].
    return (2 * ndtr(noise) - 1).astype(spec.dtype)
