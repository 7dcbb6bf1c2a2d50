"""The training loop of the on-policy algorithms: collect, update, log, save."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from spinup_tf2.core.demonstrations import Demonstrations
from spinup_tf2.core.gradient_steps import GradientSteps
from spinup_tf2.core.nets.acting import Critic
from spinup_tf2.core.nets.actor_critic import ActorCritic
from spinup_tf2.core.nets.checks import class_for, make_actor_critic
from spinup_tf2.core.nets.layers import count_variables, first_weights
from spinup_tf2.core.nets.normalization import NormalizedActorCritic, RewardScaler
from spinup_tf2.core.nets.recurrent_acting import (
    Policy,
    RecurrentActor,
    SegmentBuffer,
    actor_for,
    check_memory,
)
from spinup_tf2.core.trajectories import Returns, TrajectoryBuffer
from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.training.finite import check_experience
from spinup_tf2.training.keeper import Part
from spinup_tf2.training.opening import environments, opened_run
from spinup_tf2.training.run import Run
from spinup_tf2.training.settings import Settings

Update = Callable[..., dict[str, float]]
Act = Policy | Demonstrations


class Phase(Protocol):
    """Hook that runs after the last update of each epoch.

    It stores values for `columns` with the logger; columns without a value are left blank.
    """

    @property
    def columns(self) -> Sequence[str]: ...

    def __call__(self) -> None: ...


@contextmanager
def opened(
    algorithm: str,
    settings: Settings,
    arguments: Mapping[str, Any],
    actor_critic: Callable[..., ActorCritic],
    ac_kwargs: dict | None,
    *,
    shared: bool | None = None,
    closed_forms: Sequence[str] = (),
    init: str = "torch",
    normalize_obs: bool = False,
    check: Callable[[ActorCritic, spaces.Box], Any] | None = None,
) -> Iterator[Run[ActorCritic]]:
    """Context manager that opens a run of an on-policy algorithm.

    No file is written before the environments and the networks have been created.

    Args:
        algorithm: Name of the algorithm.
        settings: The run's settings.
        arguments: The algorithm's arguments, for config.json: `dict(locals())`, evaluated in its
            first line.
        actor_critic, ac_kwargs: The function that creates the networks, and its arguments.
        shared: Whether policy and value function must share variables (True) or must not (False);
            None allows both.
        closed_forms: Quantities that the policy must have in closed form: 'entropy',
            'kl_divergence'.
        init: Weight initialization, if the settings name none.
        normalize_obs: The PPO argument of this name.
        check: Further check `check(ac, observation_space)`, which raises UserError for networks
            that the algorithm cannot use.

    Raises:
        UserError: An argument cannot be used; nothing has been written yet.
    """
    with environments(settings) as (envs, test_envs):
        observed, actions = envs.observation_space, envs.prototype.action_space
        if normalize_obs:
            closed_forms = [*closed_forms, "kl_divergence"]
        ac = make_actor_critic(actor_critic, observed, actions, ac_kwargs, shared, closed_forms)
        first_weights(ac, class_for(actor_critic, observed), settings.init, init)
        if check is not None:
            check(ac, observed)
        if ac.memory is not None:
            check_memory(ac.memory, settings, arguments)
        if normalize_obs:
            ac = NormalizedActorCritic(ac, observed, actions)
        sizes = dict(pi=count_variables(ac.pi), v=count_variables(ac.v))
        arguments = settings.recorded(arguments)
        with opened_run(algorithm, settings, arguments, envs, test_envs, ac, sizes) as run:
            yield run


def train(
    run: Run[ActorCritic],
    update: Update,
    gradient_steps: Sequence[GradientSteps],
    returns: Returns,
    *,
    n_steps: int | None = None,
    scaler: RewardScaler | None = None,
    state: Sequence[keras.Variable] = (),
    parts: Mapping[str, Part] | None = None,
    lr_schedule: str = "constant",
    recompute: bool = False,
    phase: Phase | None = None,
) -> None:
    """Train until the last epoch is over.

    Args:
        run: The open run.
        update: Function `update(batch) -> dict of scalars` that trains the actor-critic on one
            batch: the dict that TrajectoryBuffer.get returns, as tensors. The scalars are logged
            in the order of the returned dict.
        gradient_steps: The gradient steps that `update` uses; checkpoints hold the variables they
            train and the state of their optimizers.
        returns: Function that computes advantages and rewards-to-go; see TrajectoryBuffer.
        n_steps: Steps of each environment per batch; None: those of a whole epoch. With several
            updates per epoch, the mean of their scalars is logged.
        scaler: Reward scaler; None leaves rewards unscaled.
        state: Further variables on which updates depend and which `gradient_steps` do not train.
        parts: Further objects that keep state for each environment, by name.
        lr_schedule: 'constant', or 'linear' for learning rates that fall to 0 at the end.
        recompute: Whether `update` gets a second argument `recomputed`: a function that returns
            adv and ret of the batch, recomputed with the current value function.
        phase: Hook that runs after the last update of each epoch.
    """
    rollouts = Rollouts(run, returns, n_steps or run.settings.local_steps, scaler)
    if recompute:
        update = partial(update, recomputed=rollouts.recomputed)
    update = run.ac.with_update(update)
    modules = [run.ac, *(each.optimizer for each in gradient_steps)]
    scaling = scaler.statistics.variables if scaler else ()
    variables = [*(variable for each in modules for variable in each.variables), *scaling, *state]
    variables += [variable for each in gradient_steps for variable in each.variables]
    tests = run.settings.num_test_episodes > 0
    columns = dict.fromkeys(phase.columns if phase else (), False)
    present = {**(parts or {}), "scaler": scaler, "memory": rollouts.memory}
    run.begin(variables, present, saved_with_policy=scaling, columns=columns, tests=tests)
    for _ in run.epochs():
        for batch in rollouts():
            if lr_schedule == "linear":
                for each in gradient_steps:
                    each.decay(run.progress)
            run.record(update(tf.nest.map_structure(tf.constant, batch)))
        if phase is not None:
            phase()
        run.finish_epoch(rollouts.policy)


class Rollouts:
    """Collects the batches of an epoch; episodes continue from one epoch to the next.

    Args:
        run: The open run.
        returns: Function that computes advantages and rewards-to-go; see TrajectoryBuffer.
        n_steps: Steps of each environment per batch.
        scaler: Reward scaler; None leaves rewards unscaled.
    """

    def __init__(
        self, run: Run[ActorCritic], returns: Returns, n_steps: int, scaler: RewardScaler | None
    ):
        envs, settings, spec = run.envs, run.settings, run.envs.action_spec
        self.run, self.scaler = run, scaler
        self.policy, self.value = actor_for(run.ac, envs), Critic(run.ac.v)
        self.act: Act = self.policy
        if settings.behavior_policy is not None:
            self.act = Demonstrations(self.policy, settings.behavior_policy, envs)
        shapes = envs.observation_space.shape, spec.shape, spec.dtype
        self.memory = self.policy if isinstance(self.policy, RecurrentActor) else None
        make_buffer = partial(SegmentBuffer, self.memory) if self.memory else TrajectoryBuffer
        self.buffer = make_buffer(*shapes, n_steps, envs.num_envs, returns, envs.obs_dtype)
        self.obs: np.ndarray | None = None  # the latest observations; None before the first reset

    def __call__(self) -> Iterator[dict[str, np.ndarray]]:
        """Yield the batches of the current epoch, as TrajectoryBuffer.get returns them."""
        run, envs, buffer = self.run, self.run.envs, self.buffer
        steps, n_steps = run.settings.local_steps, buffer.size
        noise = envs.randomness.noise(run.epoch, steps)
        for start in range(run.first_step, steps, n_steps):
            run.progress = (run.epoch + start / steps) / run.settings.epochs
            run.ac.begin_batch()
            self.act.refresh()
            self.value.refresh()
            if start + n_steps == steps:
                run.best.note_acting()
            obs = run.observations(self.obs, start)
            batch_noise = run.until_stopped(noise[start : start + n_steps])
            self.obs = collect(envs, self.act, buffer, obs, batch_noise)
            if run.asked_to_stop():
                envs.forget(buffer.t)  # the batch will be collected again, by the same policy
                run.leave(start)
            seen = (buffer.obs, buffer.rew, buffer.final_obs, self.obs)
            check_experience(envs, run.logged_epoch, start, *seen, run.ac.variables)
            ends = buffer.terminated | buffer.truncated
            run.logger.store(**envs.episodes.count(buffer.rew, ends, buffer.lost))
            if self.scaler is not None:
                buffer.rew[:] = self.scaler(buffer.rew, ends, buffer.lost)
            batch = buffer.get(self.value, self.obs)
            run.logger.store(VVals=batch["val"])
            yield batch

    def recomputed(self) -> dict[str, np.ndarray]:
        """Return adv and ret of the latest batch, computed with the current value function.

        Both are `[T * n]`, or `[segments, steps]` with a memory.
        """
        self.value.refresh()
        if self.memory is not None:
            self.memory.refresh()  # it computes the values of a SegmentBuffer
        assert self.obs is not None  # a batch has been collected
        batch = self.buffer.get(self.value, self.obs, use_stored=False)
        return dict(adv=batch["adv"], ret=batch["ret"])


def collect(
    envs: VectorEnv, act: Act, buffer: TrajectoryBuffer, obs: np.ndarray, noise: Iterable
) -> np.ndarray:
    """Fill `buffer` with one step per item of `noise`, starting from `obs` `[n, ...]`.

    Returns:
        The observations after the last step, `[n, ...]`.
    """
    buffer.start()
    for step in envs.steps(act, obs, noise):
        buffer.store(*step[:-1])
        obs = step.next_obs  # the next batch begins here
    return obs
