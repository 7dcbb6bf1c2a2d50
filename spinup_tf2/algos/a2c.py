"""Synchronous advantage actor-critic over parallel environments (Mnih et al. 2016)."""

from collections.abc import Callable
from functools import partial

import gymnasium as gym
import tensorflow as tf
from typing_extensions import Unpack

from spinup_tf2.arguments.table import OnPolicyOptions
from spinup_tf2.core.gradient_steps import GradientSteps, Loss, rmsprop, value_loss
from spinup_tf2.core.nets.actor_critic import ActorCritic, MLPActorCritic
from spinup_tf2.core.on_policy import actor_for, networks, train
from spinup_tf2.core.trajectories import estimates
from spinup_tf2.training.opening import environments, open_run
from spinup_tf2.training.settings import Settings, algorithm


def policy_loss(logp: tf.Tensor, adv: tf.Tensor) -> Loss:
    """Policy gradient, negated, for advantages that are constants. Both [batch].

    L = -E[log pi(a|s) A]  (Mnih et al. 2016, section 4)
    """
    return -tf.reduce_mean(logp * adv), dict(Entropy=-tf.reduce_mean(logp))  # an estimate


@algorithm(num_envs=16)
def a2c(
    env_fn: Callable[[], gym.Env] | str,
    actor_critic: Callable[..., ActorCritic] = MLPActorCritic,
    ac_kwargs: dict | None = None,
    seed: int = 0,
    steps_per_epoch: int = 4000,
    epochs: int = 50,
    gamma: float = 0.99,
    lr: float = 7e-4,
    vf_coef: float = 0.5,
    ent_coef: float = 0.01,
    max_grad_norm: float | None = 0.5,
    lam: float = 1.0,
    max_ep_len: int = 1000,
    logger_kwargs: dict | None = None,
    save_freq: int = 10,
    *,
    n_steps: int = 5,
    lr_schedule: str = "constant",
    rms_decay: float = 0.99,
    rms_eps: float = 1e-5,
    rms_init: float = 0.0,
    normalize_adv: bool = False,
    **options: Unpack[OnPolicyOptions],
) -> ActorCritic:
    """Synchronous Advantage Actor-Critic: an update after every few steps of many environments.

    Args:
        steps_per_epoch (int): Steps in each epoch, of all environments. Of all processes: a
            multiple of their number times n_steps. An epoch is the time between two rows of the
            log, and holds several updates.
        epochs (int): Number of epochs. (Always at least 1.)
        lr (float): Learning rate of all networks together.
        vf_coef (float): Weight of the value loss.
        lam (float): Lambda of the advantage estimation (GAE). With 1 the advantage is the n-step
            return less the value. (Always between 0 and 1.)
        num_envs (int): Environments in each process.
        n_steps (int): Steps of each environment between two updates.
        rms_decay (float): Decay of RMSprop's mean of squares. The alpha of PyTorch's RMSprop.
            (Close to 1.)
        rms_eps (float): RMSprop's epsilon, under the root. It keeps the steps of parameters short
            whose gradients are smaller than its root; 1e-10 is nearly what Stable-Baselines3 does,
            which adds 1e-5 outside of the root.
        rms_init (float): Where RMSprop's mean of squares starts. From 0, as in Keras, the first
            steps are up to ten times larger than later ones; from 1, as in TensorFlow 1, they are
            small.
        normalize_adv (bool): Scale advantages in each update. To mean 0 and standard deviation 1.
    """
    settings = Settings.of(locals())
    closed_forms = ["entropy"] if ent_coef > 0 else []
    with environments(settings) as (envs, test_envs):
        ac = networks(
            *(actor_critic, ac_kwargs, envs, settings.init),
            default_init="orthogonal",
            closed_forms=closed_forms,
        )

        def loss(batch):
            pi, val = ac.pi_and_v(batch["obs"])
            loss_pi, info = policy_loss(pi.log_prob(batch["act"]), batch["adv"])
            loss_v, _ = value_loss(val, batch["ret"])
            total = loss_pi + vf_coef * loss_v
            if ent_coef > 0:
                total -= ent_coef * tf.reduce_mean(pi.entropy())
            return total, dict(LossPi=loss_pi, LossV=loss_v, **info)

        optimizer = rmsprop(
            *(ac.trainable_variables, lr, rms_decay, rms_eps, rms_init, max_grad_norm)
        )
        steps = GradientSteps(loss, ac.trainable_variables, optimizer)

        def update(batch, fresh):
            return steps.step(batch)

        returns = partial(estimates, gamma=gamma, lam=lam, normalize=normalize_adv)
        actor = actor_for(ac, envs)
        state = dict(actor=actor, steps=steps)
        with open_run("a2c", settings, envs, test_envs, ac, state) as run:
            decay = [steps] if lr_schedule == "linear" else ()
            train(run, actor, update, returns, n_steps=n_steps, decay=decay)
    return ac
