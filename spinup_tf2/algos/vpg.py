"""Vanilla policy gradient with generalised advantage estimation (Schulman et al. 2016)."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import tensorflow as tf

from spinup_tf2.arguments.docs import documented
from spinup_tf2.core import on_policy
from spinup_tf2.core.nets.actor_critic import ActorCritic, MLPActorCritic
from spinup_tf2.core.optimize.gradient_steps import GradientSteps, adam, loss_columns
from spinup_tf2.core.optimize.losses import value_regression


def policy_loss(
    logp: tf.Tensor, logp_old: tf.Tensor, adv: tf.Tensor
) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """What has the policy gradient as its gradient, negated. All inputs [batch].

    L = -E[log pi(a|s) A]  (Sutton et al. 2000, with an advantage in the place of Q)

    Only its gradient has a meaning, and only where pi is the policy that has acted. logp_old, of
    that policy, does not enter the loss.
    """
    loss = -tf.reduce_mean(logp * adv)
    # Both are estimates from the actions of pi_old, the second of KL(pi_old || pi).
    return loss, dict(Entropy=-tf.reduce_mean(logp), KL=tf.reduce_mean(logp_old - logp))


@documented
def vpg(
    env_fn: Callable[[], gym.Env] | str,
    actor_critic: Callable[..., ActorCritic] = MLPActorCritic,
    ac_kwargs: dict | None = None,
    seed: int = 0,
    steps_per_epoch: int = 4000,
    epochs: int = 50,
    gamma: float = 0.99,
    pi_lr: float = 3e-4,
    vf_lr: float = 1e-3,
    train_v_iters: int = 80,
    lam: float = 0.97,
    max_ep_len: int = 1000,
    logger_kwargs: dict | None = None,
    save_freq: int = 10,
    *,
    num_envs: int = 1,
    vectorization: str = "sync",
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
    """Vanilla Policy Gradient, with generalised advantage estimates: one policy step per epoch.

    Args:
        pi_lr (float): Learning rate of the policy, which takes a single step in each epoch.
    """
    with on_policy.training("vpg", dict(locals()), separate=True) as training:
        ac = training.ac

        def pi_loss(batch):
            logp = ac.pi(batch["obs"]).log_prob(batch["act"])
            return policy_loss(logp, batch["logp"], batch["adv"])

        pi_step = GradientSteps(pi_loss, ac.pi.trainable_variables, adam(pi_lr), num_steps=1)
        v_steps = value_regression(ac.v, vf_lr, train_v_iters)
        log_prob = tf.function(lambda obs, act: ac.pi(obs).log_prob(act))

        def update(batch):
            batch = {key: tf.constant(array) for key, array in batch.items()}
            batch["logp"] = log_prob(batch["obs"], batch["act"])  # of the policy that acted
            pi_before, pi_after, _ = pi_step(batch)
            v_before, v_after, _ = v_steps(batch)
            return loss_columns(pi_before, pi_after, v_before, v_after) | dict(
                Entropy=pi_before["Entropy"],
                KL=pi_after["KL"],
            )

        training.run(update, [pi_step, v_steps])
    return ac
