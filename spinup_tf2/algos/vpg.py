"""Vanilla policy gradient with generalized advantage estimation (Schulman et al. 2016)."""

from collections.abc import Callable
from functools import partial

import gymnasium as gym
import tensorflow as tf
from typing_extensions import Unpack

from spinup_tf2.arguments.table import OnPolicyOptions
from spinup_tf2.core.gradient_steps import (
    GradientSteps,
    Loss,
    Training,
    adam,
    loss_columns,
    value_loss,
)
from spinup_tf2.core.nets.actor_critic import ActorCritic, MLPActorCritic
from spinup_tf2.core.nets.layers import compiled
from spinup_tf2.core.on_policy import actor_for, networks, train
from spinup_tf2.core.trajectories import estimates
from spinup_tf2.training.opening import environments, open_run
from spinup_tf2.training.settings import Settings, algorithm


def policy_loss(logp: tf.Tensor, logp_old: tf.Tensor, adv: tf.Tensor) -> Loss:
    """A loss whose gradient is minus the policy gradient. All inputs have shape [batch].

    L = -E[log pi(a|s) A]  (Sutton et al. 2000, with an advantage in place of Q)

    The value of the loss has no meaning. Its gradient is minus the policy gradient only as long as
    pi is the policy that chose the actions. logp_old, the log-probabilities under that policy, is
    used for the logged KL divergence, not for the loss.
    """
    loss = -tf.reduce_mean(logp * adv)
    # Estimates of the entropy and of KL(pi_old || pi) from the actions of pi_old.
    entropy, kl = -tf.reduce_mean(logp), tf.reduce_mean(logp_old - logp)
    return loss, dict(LossPi=loss, Entropy=entropy, KL=kl)


@algorithm()
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
    **options: Unpack[OnPolicyOptions],
) -> ActorCritic:
    """Vanilla Policy Gradient, with generalized advantage estimates: one policy step per epoch.

    Args:
        pi_lr (float): Learning rate of the policy. It takes a single step in each epoch.
    """
    settings = Settings.of(locals())
    with environments(settings) as (envs, test_envs):
        ac = networks(actor_critic, ac_kwargs, envs, settings.init, shared=False)

        def pi_loss(batch):
            logp = ac.pi(batch["obs"]).log_prob(batch["act"])
            return policy_loss(logp, batch["logp"], batch["adv"])

        def v_loss(batch):
            return value_loss(ac.v(batch["obs"]), batch["ret"])

        steps = [
            GradientSteps(pi_loss, ac.pi.trainable_variables, adam(pi_lr), num_steps=1),
            GradientSteps(v_loss, ac.v.trainable_variables, adam(vf_lr), train_v_iters),
        ]
        training = Training(*steps)
        log_prob = compiled(lambda obs, act: ac.pi(obs).log_prob(act))

        def update(batch, fresh):
            batch["logp"] = log_prob(batch["obs"], batch["act"])  # of the policy that acted
            before, after, _ = training(batch)
            return loss_columns(before, after) | dict(Entropy=before["Entropy"], KL=after["KL"])

        returns = partial(estimates, gamma=gamma, lam=lam)
        actor = actor_for(ac, envs)
        state = dict(actor=actor, steps=steps)
        with open_run("vpg", settings, envs, test_envs, ac, state) as run:
            train(run, actor, update, returns)
    return ac
