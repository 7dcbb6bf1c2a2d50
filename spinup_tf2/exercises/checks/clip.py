"""Checks of the clipped objective: its value and its gradient."""

import numpy as np
import tensorflow as tf

from spinup_tf2.exercises.checking import compare, expect

_RNG = np.random.default_rng(3)
_LOGP_OLD = _RNG.normal(-1.0, 0.5, size=12).astype(np.float32)
_LOGP = _LOGP_OLD + _RNG.normal(0, 0.5, size=12).astype(np.float32)
_ADV = _RNG.normal(size=12).astype(np.float32)


def _one(ratio, adv):
    return np.float32([np.log(ratio) - 1]), np.float32([-1.0]), np.float32([adv]), 0.2


CASES = {
    "the policy has not changed": (_LOGP_OLD, _LOGP_OLD, _ADV, 0.2),
    "a good action, ratio 1.5": _one(1.5, 2.0),
    "a good action, ratio 0.5": _one(0.5, 2.0),
    "a bad action, ratio 1.5": _one(1.5, -2.0),
    "a bad action, ratio 0.5": _one(0.5, -2.0),
    "12 actions": (_LOGP, _LOGP_OLD, _ADV, 0.2),
    "12 actions, clip_ratio 0.4": (_LOGP, _LOGP_OLD, _ADV, 0.4),
}


def right(logp, logp_old, adv, clip_ratio):
    """Compute the loss one action at a time, by the four cases in the text."""
    total = 0.0
    for new, old, a in zip(logp, logp_old, adv, strict=True):
        ratio = np.exp(np.float64(new) - old)
        if a > 0:
            total += min(ratio, 1 + clip_ratio) * a
        else:
            total += max(ratio, 1 - clip_ratio) * a
    return -total / len(adv)


def _terms(logp, logp_old, adv, eps):
    ratio = np.exp(logp - logp_old)
    return ratio * adv, np.clip(ratio, 1 - eps, 1 + eps) * adv


def _of_ratio(ratio_of):
    def mistaken(logp, logp_old, adv, eps):
        ratio = ratio_of(logp, logp_old)
        return -np.mean(np.minimum(ratio * adv, np.clip(ratio, 1 - eps, 1 + eps) * adv))

    return mistaken


def _clipped_to(low, high):
    def mistaken(logp, logp_old, adv, eps):
        ratio = np.exp(logp - logp_old)
        return -np.mean(np.minimum(ratio * adv, np.clip(ratio, low(eps), high(eps)) * adv))

    return mistaken


MISTAKES = {
    "The minus is missing: optimizers minimize, and this is to be maximized.": (
        lambda *args: -right(*args)
    ),
    "You sum over the batch: take the mean, or else the step depends on the batch size.": (
        lambda *args: right(*args) * len(args[0])
    ),
    "You return a number for each action: take the mean.": lambda *args: (
        -np.minimum(*_terms(*args))
    ),
    "You take the maximum of the two terms: the minimum is what takes away the reason to go far.": (
        lambda *args: -np.mean(np.maximum(*_terms(*args)))
    ),
    "You use the clipped term alone. Without the minimum a bad action that has become more likely "
    "is never corrected: its gradient is 0.": lambda *args: -np.mean(_terms(*args)[1]),
    "Nothing is clipped: this is the surrogate objective without its limits.": (
        lambda *args: -np.mean(_terms(*args)[0])
    ),
    "You use the difference of the logarithms for the ratio: r = exp(logp - logp_old).": _of_ratio(
        lambda new, old: new - old
    ),
    "You divide the logarithms: r = exp(logp - logp_old).": _of_ratio(lambda new, old: new / old),
    "Your ratio is upside down: the new policy is above, r = exp(logp - logp_old).": _of_ratio(
        lambda new, old: np.exp(old - new)
    ),
    "You clip the ratio to -eps and eps: its limits are 1 - eps and 1 + eps.": _clipped_to(
        lambda eps: -eps, lambda eps: eps
    ),
    "You clip the ratio from above only: a bad action is not made less likely without end.": (
        _clipped_to(lambda eps: -np.inf, lambda eps: 1 + eps)
    ),
    "You clip the ratio from below only: a good action is not made more likely without end.": (
        _clipped_to(lambda eps: 1 - eps, lambda eps: np.inf)
    ),
    "You clip the product r A: clip r, and multiply then.": (
        lambda logp, old, adv, eps: (
            -np.mean(
                np.minimum(
                    np.exp(logp - old) * adv, np.clip(np.exp(logp - old) * adv, 1 - eps, 1 + eps)
                )
            )
        )
    ),
    "You left out the advantage.": lambda logp, old, adv, eps: right(
        logp, old, np.ones_like(adv), eps
    ),
}


def _tensors(logp, logp_old, adv, clip_ratio):
    return tf.constant(logp), tf.constant(logp_old), tf.constant(adv), clip_ratio


def value(student):
    compare(lambda *args: student.clipped_loss(*_tensors(*args)), CASES, right, MISTAKES)


def gradient(student):
    def answer(*args):
        logp, *others = _tensors(*args)
        with tf.GradientTape() as tape:
            tape.watch(logp)
            loss = student.clipped_loss(logp, *others)
        found = tape.gradient(loss, logp)
        expect(
            found is not None,
            "The value is right, but no gradient reaches logp: leave out stop_gradient, and keep "
            "to TensorFlow's functions.",
        )
        return found

    def slope(logp, logp_old, adv, eps):
        """-r A / batch, and 0 where there is nothing to gain."""
        ratio = np.exp(logp - logp_old)
        beyond = np.where(adv > 0, ratio > 1 + eps, ratio < 1 - eps)
        return np.where(beyond, 0.0, -ratio * adv / len(adv))

    compare(answer, CASES, slope, {})


CHECKS = [value, gradient]
