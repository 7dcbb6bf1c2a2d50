"""The temperature loss of SAC (Haarnoja et al. 2018b).

SAC maximizes rewards plus alpha times the policy's entropy. Which alpha is right depends on how
large the rewards are, so alpha is learned: it should rise while the entropy of the policy,
-mean(log pi(a|s)), is below a target H, and fall while it is above. With log alpha as the variable,
so that alpha stays positive:

    L = -log(alpha) mean( log pi(a|s) + H )

The mean is a constant here: this loss trains alpha, and not the policy. Before you write it, work
out the sign of dL / d log(alpha) if the entropy is too low.
"""

import tensorflow as tf


def temperature_loss(log_alpha: tf.Tensor, logp: tf.Tensor, target_entropy: float) -> tf.Tensor:
    """Return L, a scalar.

    Args:
        log_alpha: log alpha, a scalar.
        logp: log pi(a|s) of actions of the policy, [batch].
        target_entropy: H.
    """
    raise NotImplementedError
