"""The clipped objective of PPO (Schulman et al. 2017, eq. 7).

    r = pi(a|s) / pi_old(a|s)
    L = -mean( min( r A, clip(r, 1 - eps, 1 + eps) A ) )

A good action (A > 0) is made more likely, but only up to r = 1 + eps; a bad one less likely, down
to r = 1 - eps. Beyond, there is nothing to gain. Work out on paper which of the two terms is the
minimum if a bad action has become more likely (A < 0, r > 1 + eps), and what the gradient is there.
"""

import numpy as np
import tensorflow as tf

from spinup_tf2.exercises.checking import calls, compare, expect_gradient, tensors


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
    # answer
    ratio = tf.exp(logp - logp_old)
    clipped = tf.clip_by_value(ratio, 1 - clip_ratio, 1 + clip_ratio)
    return -tf.reduce_mean(tf.minimum(ratio * adv, clipped * adv))


# ---------------------------------------------------------------- checks

_RNG = np.random.default_rng(3)
_LOGP_OLD = _RNG.normal(-1.0, 0.5, size=12).astype(np.float32)
_LOGP = _LOGP_OLD + _RNG.normal(0, 0.5, size=12).astype(np.float32)
_ADV = _RNG.normal(size=12).astype(np.float32)


def _one(ratio, adv):
    return np.float32([np.log(ratio) - 1]), np.float32([-1.0]), np.float32([adv]), 0.2


_CASES = {
    "the policy has not changed": (_LOGP_OLD, _LOGP_OLD, _ADV, 0.2),
    "a good action, ratio 1.5": _one(1.5, 2.0),
    "a good action, ratio 0.5": _one(0.5, 2.0),
    "a bad action, ratio 1.5": _one(1.5, -2.0),
    "a bad action, ratio 0.5": _one(0.5, -2.0),
    "12 actions": (_LOGP, _LOGP_OLD, _ADV, 0.2),
    "12 actions, clip_ratio 0.4": (_LOGP, _LOGP_OLD, _ADV, 0.4),
}


def _right(logp, logp_old, adv, clip_ratio):
    """Compute the loss one action at a time, by the four cases in the text."""
    total = 0.0
    for new, old, a in zip(logp, logp_old, adv, strict=True):
        ratio = np.exp(np.float64(new) - old)
        if a > 0:
            total += min(ratio, 1 + clip_ratio) * a
        else:
            total += max(ratio, 1 - clip_ratio) * a
    return -total / len(adv)


_MISTAKES = {
    "The minus is missing: optimizers minimize.": "return -tf => return tf",
    "You sum over the batch: take the mean.": "reduce_mean => reduce_sum",
    "You take the maximum of the two terms.": "minimum => maximum",
    "Without the minimum, a bad action is never corrected.": (
        "tf.minimum(ratio * adv, clipped * adv) => clipped * adv"
    ),
    "Nothing is clipped.": "tf.minimum(ratio * adv, clipped * adv) => ratio * adv",
    "The ratio is exp(logp - logp_old).": "tf.exp(logp - logp_old) => logp - logp_old",
    "The limits of the ratio are 1 - eps and 1 + eps.": (
        "1 - clip_ratio, 1 + clip_ratio => -clip_ratio, clip_ratio"
    ),
}


def check_value(student):
    compare(student, calls("clipped_loss", tensors), _CASES, _right, _MISTAKES)


def check_gradient(student):
    def answer(module, *args):
        logp, *others = tensors(args)
        return expect_gradient(lambda logp: module.clipped_loss(logp, *others), logp)[0]

    def slope(logp, logp_old, adv, eps):
        """-r A / batch, and 0 where there is nothing to gain."""
        ratio = np.exp(logp - logp_old)
        beyond = np.where(adv > 0, ratio > 1 + eps, ratio < 1 - eps)
        return np.where(beyond, 0.0, -ratio * adv / len(adv))

    compare(student, answer, _CASES, slope)
