"""The clipped objective of PPO (Schulman et al. 2017, eq. 7).

    r = pi(a|s) / pi_old(a|s)
    L = -mean( min( r A, clip(r, 1 - eps, 1 + eps) A ) )

A good action (A > 0) is made more likely, but only up to r = 1 + eps; a bad one less likely, down
to r = 1 - eps. Beyond, there is nothing to gain. Work out on paper which of the two terms is the
minimum if a bad action has become more likely (A < 0, r > 1 + eps), and what the gradient is there.
"""

import tensorflow as tf


def clipped_loss(
    logp: tf.Tensor, logp_old: tf.Tensor, adv: tf.Tensor, clip_ratio: float
) -> tf.Tensor:
    """Return L, a scalar that is to be minimized.

    Args:
        logp: log pi(a|s) of the current policy, [batch].
        logp_old: log pi_old(a|s) of the policy that acted, [batch].
        adv: A, [batch].
        clip_ratio: eps.
    """
    raise NotImplementedError
