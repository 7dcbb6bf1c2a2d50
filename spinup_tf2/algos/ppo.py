"""Proximal policy optimization, with the clipped objective (Schulman et al. 2017)."""

from collections.abc import Callable

import gymnasium as gym
import tensorflow as tf

from spinup_tf2.core import on_policy
from spinup_tf2.core.argument_docs import documented
from spinup_tf2.core.optimization import GradientSteps, adam
from spinup_tf2.core.policies import ActorCritic, MLPActorCritic
from spinup_tf2.core.values import value_regression


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


@documented
def ppo(
    env_fn: Callable[[], gym.Env],
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
    target_kl: float = 0.01,
    logger_kwargs: dict | None = None,
    save_freq: int = 10,
    *,
    num_envs: int = 1,
    vectorization: str = "sync",
) -> ActorCritic:
    """Proximal Policy Optimization (by clipping), with early stopping based on approximate KL.

    Args:
        clip_ratio (float): How far the new policy may go from the old one while profiting from
            it: the objective does not reward a probability ratio outside 1 - clip_ratio to
            1 + clip_ratio. (Usually small, 0.1 to 0.3.)

        train_pi_iters (int): The most gradient steps on the policy in each epoch; early stopping
            may take fewer.

        target_kl (float): Roughly what KL divergence between old and new policy is right for an
            update; beyond 1.5 times this the policy steps of the epoch end. (Usually small, 0.01
            or 0.05.)
    """
    with on_policy.training(dict(locals())) as training:
        ac, logger = training.ac, training.logger

        def pi_loss(batch):
            logp = ac.pi(batch["obs"]).log_prob(batch["act"])
            return policy_loss(logp, batch["logp"], batch["adv"], clip_ratio)

        pi_steps = GradientSteps(
            pi_loss,
            ac.pi.trainable_variables,
            adam(pi_lr),
            train_pi_iters,
            stop=lambda info: info["KL"] > 1.5 * target_kl,
        )
        v_steps = value_regression(ac.v, vf_lr, train_v_iters)
        log_prob = tf.function(lambda obs, act: ac.pi(obs).log_prob(act))

        def update(batch):
            obs, act, adv, ret = (tf.constant(batch[key]) for key in ("obs", "act", "adv", "ret"))
            logp = log_prob(obs, act)  # of the policy that acted
            pi_before, pi_after, steps = pi_steps(dict(obs=obs, act=act, adv=adv, logp=logp))
            if steps < train_pi_iters:
                logger.log(f"Early stopping at step {steps} due to reaching max kl.")
            v_before, v_after, _ = v_steps(dict(obs=obs, ret=ret))
            return dict(
                LossPi=pi_before["Loss"],
                LossV=v_before["Loss"],
                DeltaLossPi=pi_after["Loss"] - pi_before["Loss"],
                DeltaLossV=v_after["Loss"] - v_before["Loss"],
                Entropy=pi_before["Entropy"],
                KL=pi_after["KL"],
                ClipFrac=pi_after["ClipFrac"],
                StopIter=min(steps, train_pi_iters - 1),
            )

        training.run(update)
    return ac
