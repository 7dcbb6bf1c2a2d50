"""Phasic policy gradient: PPO with an auxiliary phase for shared features (Cobbe et al. 2020)."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import keras
import numpy as np
import psutil
import tensorflow as tf
from gymnasium import spaces
from typing_extensions import Unpack

from spinup_tf2.algos.ppo import policy_loss
from spinup_tf2.arguments.table import OnPolicyOptions
from spinup_tf2.core.gradient_steps import (
    GradientSteps,
    Loss,
    Training,
    adam,
    loss_columns,
    value_loss,
)
from spinup_tf2.core.nets.actor_critic import ActorCritic, MLPActorCritic, unique
from spinup_tf2.core.nets.heads import FrozenPolicy, both, value_beside
from spinup_tf2.core.nets.layers import compiled
from spinup_tf2.core.nets.normalization import RewardScaler
from spinup_tf2.core.on_policy import Rollouts, actor_for, networks
from spinup_tf2.core.trajectories import estimates
from spinup_tf2.envs.spaces import network_dtype
from spinup_tf2.errors import UserError
from spinup_tf2.parallel.launched import local_ranks
from spinup_tf2.parallel.mpi import beat
from spinup_tf2.training.opening import environments, open_run
from spinup_tf2.training.settings import Settings, algorithm


def auxiliary_loss(
    kl: tf.Tensor, vals: Sequence[tf.Tensor], ret: tf.Tensor, beta_clone: float
) -> Loss:
    """Loss of the auxiliary phase (Cobbe et al. 2020, section 2.1).

    L = 1/2 E[(V_aux - ret)^2] + 1/2 E[(V - ret)^2] + beta_clone E[KL(pi_old(.|s) || pi(.|s))]

    Args:
        kl: KL divergences `[batch]` between the policy at the start of the phase and the current
            one.
        vals: V and V_aux, `[batch]` each; only V if policy and value function share one network.
        ret: Value targets `[batch]`.
        beta_clone: Weight of the KL divergence.
    """
    errors = [tf.reduce_mean(tf.square(val - ret)) for val in vals]
    mean_kl = tf.reduce_mean(kl)
    loss = 0.5 * tf.add_n(errors) + beta_clone * mean_kl
    return loss, dict(AuxLossV=errors[0], AuxLossVPi=errors[-1], AuxKL=mean_kl)


class PhaseMemory:
    """The observations and value targets of `size` batches of `[T, n]` steps.

    Checkpoints hold its contents.

    Args:
        size: Number of batches.
        steps: T, the number of steps of each environment in a batch.
        num_envs: n, the number of environments.
        space: Space of one observation, as the networks see it.

    Raises:
        UserError: The batches do not fit into free memory.
    """

    def __init__(self, size: int, steps: int, num_envs: int, space: spaces.Box):
        shape, dtype = (size * steps, num_envs), network_dtype(space)
        needed = math.prod((*shape, *space.shape)) * np.dtype(dtype).itemsize
        free = psutil.virtual_memory().available // local_ranks()
        if needed > free:  # it would be noticed when the last of the batches comes
            raise UserError(
                f"An auxiliary phase learns from {size} epochs, whose observations take "
                f"{needed / 1e9:.1f} GB of memory in each process; {free / 1e9:.1f} GB are free. "
                "Use a smaller n_pi, fewer steps_per_epoch, or smaller observations."
            )
        self.obs: np.ndarray = np.empty((*shape, *space.shape), dtype)
        self.ret = np.empty(shape, np.float32)
        self.count = 0  # steps of each environment

    @property
    def full(self) -> bool:
        """Whether all batches of a phase are stored."""
        return self.count == len(self.ret)

    def store(self, obs: np.ndarray, ret: np.ndarray) -> None:
        """Append observations `[T * n, ...]` and their value targets `[T * n]`."""
        steps = len(ret) // self.ret.shape[1]
        new = slice(self.count, self.count + steps)
        self.obs[new] = obs.reshape(steps, *self.obs.shape[1:])
        self.ret[new] = ret.reshape(steps, -1)
        self.count += steps

    def rows(self, index: np.ndarray) -> dict[str, np.ndarray]:
        """Return a dict of obs and ret: the rows `index` `[m]` of all batches, concatenated."""
        at = np.divmod(index, self.ret.shape[1])
        return dict(obs=self.obs[at], ret=self.ret[at])

    def env_state(self, i: int) -> dict[str, np.ndarray]:
        return dict(obs=self.obs[: self.count, i], ret=self.ret[: self.count, i])

    def set_env_state(self, i: int, state: Mapping[str, np.ndarray]) -> None:
        self.count = len(state["ret"])
        self.obs[: self.count, i], self.ret[: self.count, i] = state["obs"], state["ret"]


@algorithm()
def ppg(
    env_fn: Callable[[], gym.Env] | str,
    actor_critic: Callable[..., ActorCritic] = MLPActorCritic,
    ac_kwargs: dict | None = None,
    seed: int = 0,
    steps_per_epoch: int = 4000,
    epochs: int = 50,
    gamma: float = 0.999,
    clip_ratio: float = 0.2,
    pi_lr: float = 5e-4,
    vf_lr: float = 5e-4,
    train_pi_iters: int = 1,
    train_v_iters: int = 1,
    lam: float = 0.95,
    max_ep_len: int = 1000,
    logger_kwargs: dict | None = None,
    save_freq: int = 10,
    *,
    arch: str = "dual",
    n_pi: int = 8,
    train_aux_iters: int = 6,
    aux_lr: float = 5e-4,
    beta_clone: float = 1.0,
    minibatch_size: int | None = 400,
    aux_minibatch_size: int = 400,
    ent_coef: float = 0.01,
    vf_coef: float = 0.5,
    normalize_reward: bool = True,
    **options: Unpack[OnPolicyOptions],
) -> ActorCritic:
    """Phasic Policy Gradient: PPO with an auxiliary phase that trains the policy's features.

    In the policy phase, policy and value function are trained as by PPO. An auxiliary phase follows
    every n_pi epochs: the policy's network learns to predict values from all of these epochs, while
    the policy itself is kept as close as possible to what it was.

    With arch 'shared', both losses are trained together in the policy phase: train_pi_iters passes
    with learning rate pi_lr. train_v_iters and vf_lr have no meaning then.

    Args:
        clip_ratio (float): How far the policy may go in an update. The objective ends at
            probability ratios of 1 +- clip_ratio. (Usually 0.1 to 0.3.)
        train_pi_iters (int): Passes per epoch that train the policy.
        train_v_iters (int): Passes per epoch for the value function.
        arch (str): 'dual', 'shared' or 'detach' networks. 'dual': one network for the policy, with
            a value output for the auxiliary phase (whose initial weights are Glorot's, whatever
            init is), and one for the value function; 'shared', one for both; 'detach', one for
            both, of which the value loss trains only the value output in the policy phase.
        n_pi (int): Epochs in each policy phase. (32 in the paper, of 65,536 steps each.)
        train_aux_iters (int): Passes over the steps in an auxiliary phase. 0: there is none, and
            the algorithm is PPO.
        aux_lr (float): Learning rate in the auxiliary phase.
        beta_clone (float): Weight of the KL from the policy before it.
        aux_minibatch_size (int): Steps in a minibatch of the auxiliary phase. A multiple of the
            number of environments that divides n_pi times steps_per_epoch.
    """
    settings = Settings.of(locals())

    with environments(settings) as (envs, test_envs):
        ac = networks(
            *(actor_critic, ac_kwargs, envs, settings.init),
            shared=arch != "dual",
            closed_forms=["entropy"] * bool(ent_coef) + ["kl_divergence"] * bool(train_aux_iters),
        )
        log_prob = compiled(lambda obs, act: ac.pi(obs).log_prob(act))

        def policy_part(pi, batch):
            logp = pi.log_prob(batch["act"])
            loss, info = policy_loss(logp, batch["logp"], batch["adv"], clip_ratio)
            if ent_coef > 0:
                loss -= ent_coef * tf.reduce_mean(pi.entropy())
            return loss, dict(info, LossPi=loss)

        def pi_loss(batch):
            return policy_part(ac.pi(batch["obs"]), batch)

        def v_loss(batch):
            return value_loss(ac.v(batch["obs"]), batch["ret"])

        def joint_loss(batch):
            pi, val = ac.pi_and_v(batch["obs"])
            loss_pi, pi_info = policy_part(pi, batch)
            loss_v, v_info = value_loss(val, batch["ret"])
            return loss_pi + vf_coef * loss_v, pi_info | v_info

        if arch == "shared":
            steps = [GradientSteps(joint_loss, ac.trainable_variables, adam(pi_lr), train_pi_iters)]
        else:  # with 'detach', v is trained on features that the policy's steps change
            of_pi = {id(each) for each in ac.pi.trainable_variables}
            v_alone = [each for each in ac.v.trainable_variables if id(each) not in of_pi]
            steps = [
                GradientSteps(pi_loss, ac.pi.trainable_variables, adam(pi_lr), train_pi_iters),
                GradientSteps(v_loss, v_alone, adam(vf_lr), train_v_iters),
            ]
        training = Training(*steps)

        def policy_phase(batch):
            batch["logp"] = log_prob(batch["obs"], batch["act"])  # of the policy that acted
            minibatches = run.minibatches(minibatch_size, max(train_pi_iters, train_v_iters))
            before, after, _ = training(batch, minibatches)
            if train_aux_iters > 0:
                memory.store(batch["obs"].numpy(), batch["ret"].numpy())
            columns = dict(Entropy=before["Entropy"], KL=after["KL"], ClipFrac=after["ClipFrac"])
            return loss_columns(before, after) | columns

        actor = actor_for(ac, envs)
        scaler = RewardScaler(settings.num_envs, gamma) if normalize_reward else None
        state: dict[str, Any] = dict(actor=actor, steps=steps, scaler=scaler)
        columns = {}
        if train_aux_iters > 0:
            v_aux = value_beside(ac.pi) if arch == "dual" else ac.v
            frozen = FrozenPolicy(ac.pi)
            memory = PhaseMemory(n_pi, settings.local_steps, envs.num_envs, envs.observation_space)

            def phase_loss(batch):
                obs = batch["obs"]
                if arch == "dual":
                    pi, val_aux = both(ac.pi, v_aux, obs)
                    vals = [ac.v(obs), val_aux]
                else:
                    pi, *vals = ac.pi_and_v(obs)
                kl = frozen(obs).kl_divergence(pi)
                return auxiliary_loss(kl, vals, batch["ret"], beta_clone)

            variables = unique([*ac.trainable_variables, *v_aux.trainable_variables])
            aux_steps = GradientSteps(phase_loss, variables, adam(aux_lr), train_aux_iters)
            done = keras.Variable(0, dtype="int32", trainable=False)  # steps of this phase so far
            state |= dict(v_aux=v_aux, frozen=frozen, aux=aux_steps, done=done, phase=memory)
            columns = dict.fromkeys(("AuxLossV", "AuxLossVPi", "AuxKL"), False)

        def auxiliary_phase():
            """Learn from the epochs in memory. It can be stopped between any two steps, and
            continues there when the run is resumed.
            """
            if done == 0:
                frozen.freeze()
            minibatches = run.minibatches(aux_minibatch_size, train_aux_iters, n_pi, stream=3)
            assert minibatches is not None  # they have a size
            for index in np.concatenate(minibatches)[int(done) :]:
                if run.asked_to_stop():
                    run.leave(settings.local_steps)
                rows = {key: tf.constant(x) for key, x in memory.rows(index).items()}
                run.record(aux_steps.step(rows))
                done.assign(done + 1)
                beat()
            memory.count = 0
            done.assign(0)

        returns = partial(estimates, gamma=gamma, lam=lam, value_target="lambda_return")
        with open_run("ppg", settings, envs, test_envs, ac, state, columns) as run:
            rollouts = Rollouts(run, actor, returns, scaler=scaler)
            for _ in run.epochs():
                for batch, _ in rollouts():
                    run.record(policy_phase(batch))
                if train_aux_iters > 0 and memory.full:
                    auxiliary_phase()
                run.finish_epoch()
    return ac
