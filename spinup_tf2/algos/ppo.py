"""Proximal policy optimization, with a clipped objective or a KL penalty (Schulman et al. 2017)."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import gymnasium as gym
import keras
import tensorflow as tf
from typing_extensions import Unpack

from spinup_tf2.arguments.table import OnPolicyOptions
from spinup_tf2.core.gradient_steps import (
    GradientSteps,
    Loss,
    Training,
    adam,
    loss_columns,
    renewal,
    value_loss,
)
from spinup_tf2.core.nets.actor_critic import ActorCritic, MLPActorCritic
from spinup_tf2.core.nets.layers import compiled
from spinup_tf2.core.nets.normalization import NormalizedActorCritic, RewardScaler
from spinup_tf2.core.on_policy import actor_for, networks, train
from spinup_tf2.core.trajectories import PPOBuffer, estimates, mixed_estimates
from spinup_tf2.training.opening import environments, open_run
from spinup_tf2.training.settings import Settings, algorithm

__all__ = ["PPOBuffer", "adapted_beta", "penalty_loss", "policy_loss", "ppo"]


def policy_loss(logp: tf.Tensor, logp_old: tf.Tensor, adv: tf.Tensor, clip_ratio: float) -> Loss:
    """Clipped surrogate objective, negated (Schulman et al. 2017, eq. 7). All inputs [batch].

    L = -E[min(r A, clip(r, 1 - eps, 1 + eps) A)],  r = pi(a|s) / pi_old(a|s)
    """
    ratio = tf.exp(logp - logp_old)
    clipped = tf.clip_by_value(ratio, 1 - clip_ratio, 1 + clip_ratio)
    loss = -tf.reduce_mean(tf.minimum(ratio * adv, clipped * adv))
    info = dict(
        KL=tf.reduce_mean(logp_old - logp),  # estimates KL(pi_old || pi) from samples of pi_old
        Entropy=-tf.reduce_mean(logp),  # estimates the entropy, likewise
        ClipFrac=tf.reduce_mean(tf.cast(ratio != clipped, tf.float32)),
    )
    return loss, info


def penalty_loss(
    logp: tf.Tensor, logp_old: tf.Tensor, adv: tf.Tensor, kl: tf.Tensor, beta: float | tf.Tensor
) -> Loss:
    """Surrogate objective with a KL penalty, negated (Schulman et al. 2017, eq. 8).

    L = -E[r A] + beta E[KL(pi_old(.|s) || pi(.|s))],  r = pi(a|s) / pi_old(a|s)

    Args:
        logp, logp_old, adv: `[batch]`.
        kl: `[batch]`, the exact KL divergences of the distributions, not estimates from actions.
        beta: Coefficient of the penalty, a scalar.
    """
    ratio = tf.exp(logp - logp_old)
    mean_kl = tf.reduce_mean(kl)
    loss = beta * mean_kl - tf.reduce_mean(ratio * adv)
    return loss, dict(KL=mean_kl, Entropy=-tf.reduce_mean(logp))


def adapted_beta(beta: float, kl: float, target_kl: float) -> float:
    """Return the coefficient of the penalty after an update with KL divergence `kl` (section 4).

    It is doubled above KLmax = 1.5 target_kl, and halved below KLmin = target_kl / 1.5.
    """
    if kl > 1.5 * target_kl:
        return 2 * beta
    if kl < target_kl / 1.5:
        return beta / 2
    return beta


@algorithm()
def ppo(
    env_fn: Callable[[], gym.Env] | str,
    actor_critic: Callable[..., ActorCritic] = MLPActorCritic,
    ac_kwargs: dict | None = None,
    seed: int = 0,
    steps_per_epoch: int = 4000,
    epochs: int = 50,
    gamma: float = 0.99,
    clip_ratio: float = 0.2,
    pi_lr: float = 3e-4,
    vf_lr: float = 1e-3,
    train_pi_iters: int = 80,
    train_v_iters: int = 80,
    lam: float = 0.97,
    max_ep_len: int = 1000,
    target_kl: float | None = 0.01,
    logger_kwargs: dict | None = None,
    save_freq: int = 10,
    *,
    objective: str = "clip",
    beta: float = 1.0,
    lam1: float | None = None,
    lam2: float = 0.93,
    coeff: float | None = None,
    ent_coef: float = 0.0,
    minibatch_size: int | None = None,
    max_grad_norm: float | None = None,
    lr_schedule: str = "constant",
    vf_coef: float = 0.5,
    normalize_obs: bool = False,
    normalize_reward: bool = False,
    adv_normalization: str = "epoch",
    recompute_adv: bool = False,
    value_target: str = "rewards_to_go",
    **options: Unpack[OnPolicyOptions],
) -> ActorCritic:
    """Proximal Policy Optimization (by clipping), with early stopping based on approximate KL.

    Where policy and value function share parameters, their losses are added and trained together:
    train_pi_iters steps with learning rate pi_lr. train_v_iters and vf_lr have no meaning then.

    Args:
        clip_ratio (float): How far the policy may go in an update. The objective ends at
            probability ratios of 1 +- clip_ratio. (Usually 0.1 to 0.3.)
        train_pi_iters (int): Most gradient steps on the policy per epoch. Early stopping may end
            them sooner. With minibatches: of passes over the epoch's experience.
        train_v_iters (int): Gradient steps on the value per epoch. Or passes.
        target_kl (float): KL divergence that is right for an update. With objective 'clip', beyond
            1.5 times this the policy steps of the epoch end (None: never); with 'penalty', beta is
            adapted to it. (Usually small, 0.01 or 0.05.)
        objective (str): 'clip', or 'penalty' (beta times the KL). 'clip' takes away the reason to
            go far from the old policy; 'penalty' subtracts beta times the KL divergence, with no
            clipping and no early stopping.
    """
    settings = Settings.of(locals())
    penalty = objective == "penalty"
    closed_forms = ["kl_divergence"] if penalty or normalize_obs else []
    closed_forms += ["entropy"] if ent_coef > 0 else []
    with environments(settings) as (envs, test_envs):
        ac = networks(
            *(actor_critic, ac_kwargs, envs, settings.init),
            closed_forms=closed_forms,
            normalize_obs=normalize_obs,
        )
        coefficient = keras.Variable(beta, dtype="float64", trainable=False)  # is adapted

        @compiled
        def of_old_policy(obs, act):
            pi = ac.pi(obs)
            old = dict(logp=pi.log_prob(act))
            if penalty:
                old |= dict(pi_old=pi, beta=tf.cast(coefficient, tf.float32))
            return old

        def policy_part(pi, batch):
            logp = pi.log_prob(batch["act"])
            if penalty:
                kl = batch["pi_old"].kl_divergence(pi)
                loss, info = penalty_loss(logp, batch["logp"], batch["adv"], kl, batch["beta"])
            else:
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

        stop = None if penalty or target_kl is None else lambda info: info["KL"] > 1.5 * target_kl
        pi_adam, v_adam = adam(pi_lr, max_grad_norm), adam(vf_lr, max_grad_norm)
        if ac.shared:
            variables = ac.trainable_variables
            steps = [GradientSteps(joint_loss, variables, pi_adam, train_pi_iters, stop)]
        else:
            steps = [
                GradientSteps(pi_loss, ac.pi.trainable_variables, pi_adam, train_pi_iters, stop),
                GradientSteps(v_loss, ac.v.trainable_variables, v_adam, train_v_iters),
            ]
        training = Training(*steps)

        def update(batch, fresh):
            batch |= of_old_policy(batch["obs"], batch["act"])  # before any step is taken
            minibatches = run.minibatches(minibatch_size, max(train_pi_iters, train_v_iters))
            per_minibatch, renewed = adv_normalization == "minibatch", None
            if recompute_adv or per_minibatch:
                renewed = renewal(batch, fresh if recompute_adv else None, per_minibatch)
            before, after, iters = training(batch, minibatches, renewed)
            if iters < train_pi_iters:
                unit = "step" if minibatch_size is None else "pass"
                run.logger.log(f"Early stopping at {unit} {iters} due to reaching max kl.")
            columns = loss_columns(before, after) | dict(Entropy=before["Entropy"], KL=after["KL"])
            if penalty:
                columns["Beta"] = float(coefficient)
                kl_limit = cast(float, target_kl)  # None is refused
                coefficient.assign(adapted_beta(columns["Beta"], after["KL"], kl_limit))
                return columns
            stop_iter = min(iters, max(train_pi_iters - 1, 0))
            return columns | dict(ClipFrac=after["ClipFrac"], StopIter=stop_iter)

        if isinstance(ac, NormalizedActorCritic):
            update = ac.with_update(update)
        normalize = adv_normalization == "epoch"
        returns: Any = partial(
            estimates, gamma=gamma, lam=lam, value_target=value_target, normalize=normalize
        )
        if coeff is not None:
            lams = [lam if each is None else each for each in (lam1, lam2)]
            coeffs = (coeff, 1 - coeff)
            returns = partial(mixed_estimates, gamma=gamma, lams=lams, coeffs=coeffs)
        actor = actor_for(ac, envs)
        scaler = RewardScaler(settings.num_envs, gamma) if normalize_reward else None
        state = dict(actor=actor, steps=steps, scaler=scaler, beta=coefficient)
        with open_run("ppo", settings, envs, test_envs, ac, state) as run:
            if ac.shared:
                run.logger.log("Shared parameters: vf_lr and train_v_iters are not used.")
            decay = steps if lr_schedule == "linear" else ()
            train(run, actor, update, returns, scaler=scaler, decay=decay)
    return ac
