"""What an objective of PPO consists of; and the penalized one, whose coefficient adapts itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import keras
import tensorflow as tf

from spinup_tf2.core.compiled import compiled
from spinup_tf2.core.nets.distributions import Distribution
from spinup_tf2.core.optimize.losses import Loss


def log_prob(pi: Distribution, act: tf.Tensor) -> dict:
    """The log-probabilities of actions, as `logp`."""
    return dict(logp=pi.log_prob(act))


@dataclass(frozen=True)
class Objective:
    """The policy objective of a PPO run: its loss, when to stop, what it logs and remembers.

    Attributes:
        loss: `loss(pi, batch)`, what the policy pi(.|s) minimizes. The batch holds what
            `of_old_policy` has given.
        columns: `columns(after, steps)`, what is logged of an update, from the info of the loss
            `after` it and the number that is logged as StopIter. Adapts `state`, if there is any.
        stop: `stop(info)`, whether the steps end early; None: never.
        of_old_policy: `of_old_policy(pi, act)`, what the loss needs of the policy that acted.
        needs: What the policy must have in closed form.
        state: Variables from which updates go on.
    """

    loss: Callable[[Distribution, dict], Loss]
    columns: Callable[[dict[str, float], int], dict[str, float]]
    stop: Callable[[dict], bool] | None = None
    of_old_policy: Callable[[Distribution, tf.Tensor], dict] = log_prob
    needs: Sequence[str] = ()
    state: Sequence[keras.Variable] = ()

    def compiled_of_old_policy(self, pi: keras.Model) -> Callable[[tf.Tensor, tf.Tensor], dict]:
        """`of_old_policy` of a policy's network, as a compiled function of (obs, act)."""
        return compiled(lambda obs, act: self.of_old_policy(pi(obs), act))


def penalty_loss(
    logp: tf.Tensor, logp_old: tf.Tensor, adv: tf.Tensor, kl: tf.Tensor, beta: float | tf.Tensor
) -> Loss:
    """Surrogate objective with a KL penalty, negated (Schulman et al. 2017, eq. 8).

    L = -E[r A] + beta E[KL(pi_old(.|s) || pi(.|s))],  r = pi(a|s) / pi_old(a|s)

    Args:
        logp, logp_old, adv: `[batch]`.
        kl: `[batch]`, the divergences of the distributions themselves.
        beta: A scalar.
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


def penalized(initial_beta: float, target_kl: float | None) -> Objective:
    """The penalized objective of a run.

    Args:
        initial_beta: Coefficient of the penalty in the first update.
        target_kl: The divergence that it is adapted to.
    """
    beta = keras.Variable(initial_beta, dtype="float64", trainable=False)

    def of_old_policy(pi, act):
        return log_prob(pi, act) | dict(pi_old=pi, beta=tf.cast(beta, tf.float32))

    def loss(pi, batch):
        logp, kl = pi.log_prob(batch["act"]), batch["pi_old"].kl_divergence(pi)
        return penalty_loss(logp, batch["logp"], batch["adv"], kl, batch["beta"])

    def columns(after, steps):
        now = float(beta)
        beta.assign(adapted_beta(now, after["KL"], cast(float, target_kl)))
        return dict(Beta=now)

    return Objective(
        loss, columns, of_old_policy=of_old_policy, needs=["kl_divergence"], state=[beta]
    )
