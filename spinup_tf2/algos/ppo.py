"""Proximal policy optimization, with a clipped objective or a KL penalty (Schulman et al. 2017)."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import keras
import numpy as np
import tensorflow as tf

from spinup_tf2.arguments.docs import documented
from spinup_tf2.core import on_policy
from spinup_tf2.core.experience.ppo_buffer import PPOBuffer
from spinup_tf2.core.nets.actor_critic import ActorCritic, MLPActorCritic
from spinup_tf2.core.optimize.gradient_steps import GradientSteps, adam, take_steps
from spinup_tf2.core.optimize.losses import value_loss, value_regression

__all__ = ["PPOBuffer", "adapted_beta", "penalty_loss", "policy_loss", "ppo"]


def policy_loss(
    logp: tf.Tensor, logp_old: tf.Tensor, adv: tf.Tensor, clip_ratio: float
) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
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
) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Surrogate objective with a KL penalty, negated (Schulman et al. 2017, eq. 8).

    L = -E[r A] + beta E[KL(pi_old(.|s) || pi(.|s))],  r = pi(a|s) / pi_old(a|s)

    kl: `[batch]`, the divergences of the distributions themselves; the rest [batch], beta a scalar.
    """
    ratio = tf.exp(logp - logp_old)
    mean_kl = tf.reduce_mean(kl)
    loss = beta * mean_kl - tf.reduce_mean(ratio * adv)
    return loss, dict(KL=mean_kl, Entropy=-tf.reduce_mean(logp))


def adapted_beta(beta: float, kl: float, target_kl: float) -> float:
    """The coefficient of the penalty after an update that has led to divergence `kl` (section 4).

    Twice as large above KLmax = 1.5 target_kl, and half as large below KLmin = target_kl / 1.5.
    """
    if kl > 1.5 * target_kl:
        return 2 * beta
    if kl < target_kl / 1.5:
        return beta / 2
    return beta


@documented
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
    num_envs: int = 1,
    vectorization: str = "sync",
    objective: str = "clip",
    beta: float = 1.0,
    lam1: float | None = None,
    lam2: float = 0.93,
    coeff: float | None = None,
    ent_coef: float = 0.0,
    minibatch_size: int | None = None,
    max_grad_norm: float | None = None,
    lr_schedule: str = "constant",
    orthogonal_init: bool = False,
    vf_coef: float = 0.5,
    normalize_obs: bool = False,
    normalize_reward: bool = False,
    behavior_policy: Callable[[int, np.ndarray], Any] | None = None,
    num_test_episodes: int = 0,
    test_freq: int = 1,
    init_from: str | None = None,
    resume: bool = False,
    checkpoint_freq: int = 1,
    keep_checkpoints: int = 2,
    deterministic_resume: bool = False,
    env_retries: int = 0,
    stall_timeout: float | None = 600,
) -> ActorCritic:
    """Proximal Policy Optimization (by clipping), with early stopping based on approximate KL.

    Where policy and value function share parameters, their losses are added and trained together:
    train_pi_iters steps with learning rate pi_lr. train_v_iters and vf_lr have no meaning then.

    Args:
        clip_ratio (float): How far the new policy may go from the old one while profiting from
            it: the objective does not reward a probability ratio outside 1 - clip_ratio to
            1 + clip_ratio. (Usually small, 0.1 to 0.3.)

        train_pi_iters (int): The most gradient steps on the policy in each epoch; early stopping
            may take fewer. With minibatches: the most passes over the epoch's experience.

        train_v_iters (int): Gradient steps on the value function in each epoch; with minibatches,
            passes over the epoch's experience.

        target_kl (float): Roughly what KL divergence between old and new policy is right for an
            update. With objective 'clip', beyond 1.5 times this the policy steps of the epoch end;
            with 'penalty', beta is adapted to it. (Usually small, 0.01 or 0.05.) None: with 'clip',
            no early stopping, and no time spent to look at the KL divergence on the way.

        objective (str): What keeps the new policy near the old one: 'clip' takes away the reason
            to go far, 'penalty' subtracts beta times the KL divergence. With 'penalty' there is no
            early stopping, and clip_ratio has no meaning.

        beta (float): For objective 'penalty', the coefficient of the penalty in the first epoch.
            It doubles after an update beyond 1.5 times target_kl, and halves after one below
            target_kl / 1.5.

        lam1 (float): With coeff, the lambda of the first advantage estimate. None: lam.

        lam2 (float): With coeff, the lambda of the second.

        coeff (float): The advantage is coeff times the estimate with lam1 plus 1 - coeff times
            the one with lam2, each normalised before. (Between 0 and 1.) None: only lam counts.

        minibatch_size (int): Steps of all processes in each minibatch. A multiple of the number
            of environments that divides steps_per_epoch. None: each gradient step uses them all.

        vf_coef (float): Weight of the value loss, where it is added to the policy's.

        normalize_obs (bool): Whether the networks see observations shifted and scaled to mean 0
            and variance 1 by running statistics, and clipped at 10. The statistics are saved with
            the policy. They change between epochs, each time so little that the policy moves by a
            KL divergence of at most 0.001.

        normalize_reward (bool): Whether rewards are divided by the running standard deviation of
            the discounted returns, and clipped at 10. What is logged as EpRet stays as it is.
    """
    with on_policy.training(
        "ppo",
        dict(locals()),
        needs=dict(entropy=ent_coef != 0, kl_divergence=objective == "penalty" or normalize_obs),
    ) as training:
        ac, logger = training.ac, training.logger

        def policy_part(pi, batch):
            """What the policy pi(.|s) minimises."""
            logp = pi.log_prob(batch["act"])
            if objective == "clip":
                loss, info = policy_loss(logp, batch["logp"], batch["adv"], clip_ratio)
            else:
                kl = batch["pi_old"].kl_divergence(pi)
                loss, info = penalty_loss(logp, batch["logp"], batch["adv"], kl, batch["beta"])
            if ent_coef > 0:
                loss -= ent_coef * tf.reduce_mean(pi.entropy())
            return loss, dict(info, LossPi=loss)

        def pi_loss(batch):
            return policy_part(ac.pi(batch["obs"]), batch)

        def joint_loss(batch):
            pi, val = ac.pi_and_v(batch["obs"])
            loss_pi, pi_info = policy_part(pi, batch)
            loss_v, v_info = value_loss(val, batch["ret"])
            return loss_pi + vf_coef * loss_v, pi_info | v_info

        def steps_on(loss, variables):
            stop = None
            if objective == "clip" and target_kl is not None:
                stop = lambda info: info["KL"] > 1.5 * target_kl  # noqa: E731
            return GradientSteps(loss, variables, adam(pi_lr, max_grad_norm), train_pi_iters, stop)

        if ac.shared:
            logger.log("Shared parameters: vf_lr and train_v_iters are not used.")
            training_steps = [steps_on(joint_loss, ac.trainable_variables)]
        else:
            training_steps = [
                steps_on(pi_loss, ac.pi.trainable_variables),
                value_regression(ac.v, vf_lr, train_v_iters, max_grad_norm),
            ]
        adaptive_beta = keras.Variable(beta, dtype="float64", trainable=False)
        policy = tf.function(lambda obs: ac.pi(obs))
        log_prob = tf.function(lambda obs, act: ac.pi(obs).log_prob(act))

        def minibatches(batch):
            """Which rows of the batch each gradient step uses; None: all."""
            if minibatch_size is None:
                return None
            local_steps, passes = len(batch["obs"]) // num_envs, max(train_pi_iters, train_v_iters)
            count = steps_per_epoch // minibatch_size
            return training.envs.minibatches(training.epoch, local_steps, passes, count)

        def update(batch):
            if lr_schedule == "linear":
                for each in training_steps:
                    each.decay(training.progress)
            batch = {key: tf.constant(array) for key, array in batch.items()}
            batch["logp"] = log_prob(batch["obs"], batch["act"])  # of the policy that acted
            if objective == "penalty":
                batch |= dict(pi_old=policy(batch["obs"]), beta=tf.cast(adaptive_beta, tf.float32))
            before, after, iters = take_steps(training_steps, batch, minibatches(batch))
            columns = dict(
                LossPi=before["LossPi"],
                LossV=before["LossV"],
                DeltaLossPi=after["LossPi"] - before["LossPi"],
                DeltaLossV=after["LossV"] - before["LossV"],
                Entropy=before["Entropy"],
                KL=after["KL"],
            )
            if objective == "penalty":
                columns["Beta"] = float(adaptive_beta)
                adaptive_beta.assign(adapted_beta(columns["Beta"], after["KL"], target_kl))
                return columns
            if iters < train_pi_iters:
                unit = "step" if minibatch_size is None else "pass"
                logger.log(f"Early stopping at {unit} {iters} due to reaching max kl.")
            stop_iter = min(iters, max(train_pi_iters - 1, 0))
            return columns | dict(ClipFrac=after["ClipFrac"], StopIter=stop_iter)

        mixture = {}
        if coeff is not None:
            lams = (lam if lam1 is None else lam1, lam2)
            mixture = dict(lam=lams, coeff=(coeff, 1 - coeff))
        training.run(update, training_steps, state=[adaptive_beta], **mixture)
    return ac
