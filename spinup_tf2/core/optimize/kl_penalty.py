"""PPO's other objective: a penalty on the KL divergence, with a coefficient that adapts itself."""

from collections.abc import Callable

import keras
import tensorflow as tf

from spinup_tf2.core.nets.distributions import Distribution

Loss = tuple[tf.Tensor, dict[str, tf.Tensor]]


def penalty_loss(
    logp: tf.Tensor, logp_old: tf.Tensor, adv: tf.Tensor, kl: tf.Tensor, beta: float | tf.Tensor
) -> Loss:
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


class PenalizedObjective:
    """The penalised objective of a run: what `ppo.ClippedObjective` is for the clipped one.

    Args:
        beta: Coefficient of the penalty in the first epoch.
        target_kl: The divergence that it is adapted to.
    """

    stop = None  # all gradient steps are taken

    def __init__(self, beta: float, target_kl: float):
        self.target_kl = target_kl
        self.beta = keras.Variable(beta, dtype="float64", trainable=False)
        self.state = [self.beta]

    def of_old_policy(self, policy: Callable, batch: dict) -> dict:
        """What the loss needs of the policy that acted, and the present coefficient."""
        return dict(pi_old=policy(batch["obs"]), beta=tf.cast(self.beta, tf.float32))

    def loss(self, pi: Distribution, batch: dict) -> Loss:
        """What the policy pi(.|s) minimises."""
        logp, kl = pi.log_prob(batch["act"]), batch["pi_old"].kl_divergence(pi)
        return penalty_loss(logp, batch["logp"], batch["adv"], kl, batch["beta"])

    def columns(self, after: dict[str, float], steps: int) -> dict[str, float]:
        """What is logged of an update; adapts the coefficient for the next one."""
        beta = float(self.beta)
        self.beta.assign(adapted_beta(beta, after["KL"], self.target_kl))
        return dict(Beta=beta)
