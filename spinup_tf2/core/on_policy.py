"""The training loop of the on-policy algorithms: collect, update, log, save."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from spinup_tf2.arguments.rules import behavior_inputs
from spinup_tf2.core.gradient_steps import GradientSteps
from spinup_tf2.core.nets.acting import Actor
from spinup_tf2.core.nets.actor_critic import ActorCritic, BaseActorCritic
from spinup_tf2.core.nets.checks import class_for, make_actor_critic
from spinup_tf2.core.nets.layers import first_weights, initial_weights_from
from spinup_tf2.core.nets.normalization import NormalizedActorCritic, RewardScaler
from spinup_tf2.core.nets.recurrent_acting import RecurrentActor
from spinup_tf2.core.trajectories import Returns, TrajectoryBuffer
from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.errors import UserError

Fresh = Callable[[], Mapping[str, np.ndarray]]
Update = Callable[[dict[str, Any], Fresh], dict[str, float]]


def networks(
    actor_critic: Callable[..., ActorCritic],
    ac_kwargs: dict | None,
    envs: VectorEnv,
    init: str | None,
    *,
    default_init: str = "torch",
    shared: bool | None = None,
    closed_forms: Sequence[str] = (),
    normalize_obs: bool = False,
) -> ActorCritic:
    """Create an actor-critic, check it, and draw its initial weights: by the seed, on all ranks.

    Args:
        actor_critic, ac_kwargs: The function or class that creates the networks, and its arguments.
        envs: The environments.
        init, default_init: The initialization of weights; see `first_weights`.
        shared: Whether policy and value function must share variables (None: whether or not).
        closed_forms: What the policy must have in closed form: 'entropy', 'kl_divergence'.
        normalize_obs: Whether the networks see normalized observations.
    """
    spaces = envs.observation_space, envs.prototype.action_space
    with initial_weights_from(envs.randomness.seed):
        ac = make_actor_critic(actor_critic, *spaces, ac_kwargs, shared, closed_forms)
        first_weights(ac, class_for(actor_critic, envs.observation_space), init, default_init)
    return NormalizedActorCritic(ac, *spaces) if normalize_obs else ac


def actor_for(ac: BaseActorCritic, envs: VectorEnv) -> Actor | RecurrentActor:
    """Return what acts in `envs`, fast: an Actor, or with a memory a RecurrentActor."""
    return Actor(ac) if ac.memory is None else RecurrentActor(ac, envs)


def train(
    run: Any,
    actor: Actor | RecurrentActor,
    update: Update,
    returns: Returns,
    *,
    n_steps: int | None = None,
    scaler: RewardScaler | None = None,
    decay: Iterable[GradientSteps] = (),
) -> None:
    """Train until the last epoch is over.

    Args:
        run: The open run (`training.run.Run`). It owns epochs, rows of the log, saves and stops.
        actor: What acts in the environments, `actor_for(ac, envs)`.
        update: Function `update(batch, fresh) -> dict of scalars` that trains on a batch, and whose
            result is logged. The batch is a dict of tensors `[T * n, ...]`, with a memory
            `[segments, steps, ...]`: obs, act, adv, ret, val, valid. `fresh()` returns adv and ret
            with the value function as it is now.
        returns: Function that computes advantages and value targets, such as `estimates`.
        n_steps: Steps of each environment per batch; None: those of a whole epoch.
        scaler: Reward scaler; None leaves rewards unscaled.
        decay: GradientSteps whose learning rates fall linearly to 0.
    """
    rollouts = Rollouts(run, actor, returns, n_steps, scaler)
    for _ in run.epochs():
        for batch, fresh in rollouts():
            for each in decay:
                each.decay(run.progress)
            run.record(update(batch, fresh))
        run.finish_epoch()


class Rollouts:
    """Collects the batches of an epoch; episodes continue from one epoch to the next.

    The arguments are those of `train`.
    """

    def __init__(
        self,
        run: Any,
        actor: Actor | RecurrentActor,
        returns: Returns,
        n_steps: int | None = None,
        scaler: RewardScaler | None = None,
    ):
        envs, settings = run.envs, run.settings
        self.run, self.actor, self.returns, self.scaler = run, actor, returns, scaler
        self.critic = actor.critic()
        size = n_steps or settings.local_steps
        self.buffer = TrajectoryBuffer(size, act=envs.action_spec.dtype, rew=np.float32)
        self.behavior: Any = actor
        if settings.behavior_policy is not None:
            self.behavior = Demonstrations(actor, settings.behavior_policy, envs)
        self.obs: Any = None  # the latest observations; None before the first reset

    def __call__(self) -> Iterator[tuple[dict[str, Any], Fresh]]:
        """Yield `(batch, fresh)` for each batch of the current epoch; see `train`."""
        run, envs, buffer = self.run, self.run.envs, self.buffer
        steps = run.settings.local_steps
        noise = envs.randomness.noise(run.epoch, steps)  # of all steps, [T, n, ...]
        for start in range(run.first_step, steps, buffer.size):
            if isinstance(run.ac, NormalizedActorCritic):
                run.ac.normalizer.adopt()
            self.actor.refresh()
            self.critic.refresh()
            obs = run.observations(self.obs, start)  # of new episodes, when these are due
            of_batch = run.until_stopped(noise[start : start + buffer.size])
            self.obs = collect(envs, self.behavior, buffer, obs, of_batch)
            run.collected(self.actor, buffer, self.obs, start)  # checks, logs, stops if asked to
            if self.scaler is not None:
                rew = buffer.rows["rew"]
                rew[:] = self.scaler(rew, buffer.ends, buffer.lost)
            batch = self.batch()
            ret, val = batch["ret"], batch["val"]
            run.logger.store(VVals=val, Ret=ret, RetError=ret - val)
            yield tf.nest.map_structure(tf.constant, batch), self.fresh

    def batch(self, fresh: bool = False) -> dict[str, Any]:
        """Return the batch in the buffer, `[T * n, ...]`, or with a memory cut into segments."""
        return self.actor.batch(self.buffer.get(self.critic, self.obs, self.returns, fresh))

    def fresh(self) -> dict[str, np.ndarray]:
        """Return adv and ret of the latest batch, computed with the value function as it is now."""
        self.critic.refresh()
        batch = self.batch(fresh=True)
        return dict(adv=batch["adv"], ret=batch["ret"])


def collect(
    envs: VectorEnv,
    actor: Callable[..., tuple[np.ndarray, dict]],
    buffer: TrajectoryBuffer,
    obs: np.ndarray,
    noise: Iterable[np.ndarray],
) -> np.ndarray:
    """Fill `buffer` with one step per item of `noise`, starting from `obs` `[n, ...]`.

    Returns:
        The observations after the last step, `[n, ...]`.
    """
    buffer.start()
    for seen, act, extras, answer in envs.steps(actor, obs, noise):
        obs, rew, terminated, truncated, final_obs = answer
        ends = dict(terminated=terminated, truncated=truncated)
        buffer.store(final_obs, obs=seen, act=act, rew=rew, **ends, **extras)
    return obs


class Demonstrations:
    """An Actor in which actions that `behavior_policy` returns replace those of the policy.

    Args:
        actor: The policy.
        behavior_policy: Function of as many of these as it takes, for one environment: the number
            of the step in the episode, from 0; a copy of the observation, as a flat vector or an
            image and not normalized; a copy of the policy's action; the environment's number. It
            returns the action to take, or None for the policy's. Actions are in the form that the
            environment's `step` takes.
        envs: The environments in which to act.
    """

    def __init__(
        self, actor: Actor | RecurrentActor, behavior_policy: Callable[..., Any], envs: VectorEnv
    ):
        self.actor, self.behavior_policy, self.envs = actor, behavior_policy, envs
        self.inputs = behavior_inputs(behavior_policy)

    def __call__(
        self, obs: np.ndarray, noise: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return actions and what else to keep of the step, as an Actor does.

        Raises:
            UserError: An action of `behavior_policy` does not have the shape of the action space,
                is not in it (discrete actions), or holds numbers that are not finite.
        """
        act, extras = self.actor(obs, noise)
        act, own = act.copy(), self.envs.action_spec.to_env(act.copy())
        each = zip(self.envs.elapsed.tolist(), obs.copy(), own, self.envs.indices, strict=True)
        for i, given in enumerate(each):
            shown = self.behavior_policy(*given[: self.inputs])
            if shown is not None:
                act[i] = self._to_policy(shown)
        return act, extras

    def _to_policy(self, act):
        spec, act = self.envs.action_spec, np.asarray(act)
        if not spec.allows(act):
            raise UserError(
                f"behavior_policy returned {act.tolist()}, of shape {act.shape}; the action space "
                f"is {spec.space}. Return an action in it, or None to let the policy act."
            )
        return spec.from_env(act)
