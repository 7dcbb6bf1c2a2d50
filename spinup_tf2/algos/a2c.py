"""Synchronous advantage actor-critic over parallel environments (Mnih et al. 2016)."""

from collections.abc import Callable

import gymnasium as gym
import tensorflow as tf

from spinup_tf2.core import on_policy
from spinup_tf2.core.argument_docs import documented
from spinup_tf2.core.optimization import GradientSteps, rmsprop
from spinup_tf2.core.policies import ActorCritic, MLPActorCritic
from spinup_tf2.core.values import value_loss


def policy_loss(logp: tf.Tensor, adv: tf.Tensor) -> tf.Tensor:
    """Policy gradient, negated, for advantages that are constants. Both [batch].

    L = -E[log pi(a|s) A]
    """
    return -tf.reduce_mean(logp * tf.stop_gradient(adv))


@documented
def a2c(
    env_fn: Callable[[], gym.Env],
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
    num_envs: int = 16,
    n_steps: int = 5,
    lr_schedule: str = "constant",
    rms_init: float = 0.0,
    normalize_adv: bool = False,
    orthogonal_init: bool = True,
    vectorization: str = "sync",
) -> ActorCritic:
    """Synchronous Advantage Actor-Critic: an update after every few steps of many environments.

    Args:
        steps_per_epoch (int): Steps of interaction in each epoch, of all environments of all
            processes together: a multiple of their number times n_steps. An epoch is the time
            between two rows of the log, and holds several updates.

        epochs (int): Number of epochs. (Always at least 1.)

        lr (float): Learning rate of RMSprop, for policy and value function together.

        vf_coef (float): Weight of the value loss.

        ent_coef (float): Weight of the entropy bonus, which keeps the policy from becoming
            certain too early.

        max_grad_norm (float): A gradient of all parameters that is longer is shortened to this
            length. None: never.

        lam (float): Lambda of generalised advantage estimation. With 1 the advantage is the n-step
            return less the value.

        num_envs (int): Environments in each process.

        n_steps (int): Steps of each environment between two updates.

        lr_schedule (str): 'constant', or 'linear' for a learning rate that falls to 0.

        rms_init (float): Where RMSprop's running mean of squared gradients starts. 1, as in
            TensorFlow 1, makes the first steps small; 0, as in Keras, up to ten times larger than
            later ones.

        normalize_adv (bool): Whether to normalise the advantages of each update.

        orthogonal_init (bool): Whether to start from orthogonal kernels, as the published results
            did, instead of Glorot's.
    """
    with on_policy.training(dict(locals())) as training:
        ac = training.ac

        def loss(batch):
            pi, val = ac.pi_and_v(batch["obs"])
            loss_pi = policy_loss(pi.log_prob(batch["act"]), batch["adv"])
            loss_v, _ = value_loss(val, batch["ret"])
            entropy = tf.reduce_mean(pi.entropy())
            total = loss_pi + vf_coef * loss_v - ent_coef * entropy
            return total, dict(LossPi=loss_pi, LossV=loss_v, Entropy=entropy)

        optimizer = rmsprop(ac.trainable_variables, lr, rms_init, max_grad_norm)
        gradient_steps = GradientSteps(loss, ac.trainable_variables, optimizer, num_steps=1)

        def update(batch):
            if lr_schedule == "linear":
                optimizer.learning_rate = lr * (1 - training.progress)
            keys = ("obs", "act", "adv", "ret")
            info = gradient_steps.step({key: tf.constant(batch[key]) for key in keys})
            return {key: info[key] for key in ("LossPi", "LossV", "Entropy")}

        training.run(update, n_steps=n_steps, normalize_adv=normalize_adv)
    return ac
