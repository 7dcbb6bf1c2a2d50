"""The temperature loss of SAC (Haarnoja et al. 2018b).

SAC maximizes rewards plus alpha times the policy's entropy. Which alpha is right depends on how
large the rewards are, so alpha is learned: it should rise while the entropy of the policy,
-mean(log pi(a|s)), is below a target H, and fall while it is above. With log alpha as the variable,
so that alpha stays positive:

    L = -log(alpha) mean( log pi(a|s) + H )

The mean is a constant here: this loss trains alpha, and not the policy. Before you write it, work
out the sign of dL / d log(alpha) if the entropy is too low.
"""

import numpy as np
import tensorflow as tf

from spinup_tf2.exercises.checking import calls, compare, expect_constant, expect_gradient, tensors


def temperature_loss(log_alpha: tf.Tensor, logp: tf.Tensor, target_entropy: float) -> tf.Tensor:
    """Return L, a scalar.

    Args:
        log_alpha: log alpha, a scalar.
        logp: log pi(a|s) of actions of the policy, [batch].
        target_entropy: H.
    """
    # answer
    return -log_alpha * tf.stop_gradient(tf.reduce_mean(logp) + target_entropy)


# ---------------------------------------------------------------- checks

_LOGP = np.random.default_rng(10).normal(1.0, 1.0, size=9).astype(np.float32)
_CASES = {
    "alpha 1": (np.float32(0.0), _LOGP, -2.0),
    "entropy too low": (np.float32(-1.5), np.float32([4.0]), -3.0),
    "entropy too high": (np.float32(-1.5), np.float32([2.0]), -3.0),
    "9 actions, target -1": (np.float32(0.7), _LOGP, -1.0),
    "9 actions, target 0.5": (np.float32(-0.7), _LOGP, 0.5),
}


def _right_slope(log_alpha, logp, target_entropy):
    entropy = -sum(logp) / len(logp)
    return entropy - target_entropy


_MISTAKES = {
    "The minus is missing: alpha should rise while the entropy is low.": "-log_alpha => log_alpha",
    "The entropy is minus the mean of log pi: add the target.": "+ target => - target",
    "You multiply by alpha: here it is log(alpha).": "-log_alpha => -tf.exp(log_alpha)",
    "You sum over the batch: take the mean.": (
        "reduce_mean(logp) + target_entropy => reduce_sum(logp + target_entropy)"
    ),
    "log alpha is not in the loss.": "-log_alpha * => -",
}


def check_value(student):
    def right(log_alpha, *args):
        return log_alpha * _right_slope(log_alpha, *args)

    compare(student, calls("temperature_loss", tensors), _CASES, right, _MISTAKES)


def check_gradients(student):
    def answer(module, *args):
        log_alpha, logp, target = tensors(args)
        expect_constant(lambda logp: module.temperature_loss(log_alpha, logp, target), logp)
        return expect_gradient(
            lambda log_alpha: module.temperature_loss(log_alpha, logp, target), log_alpha
        )[0]

    compare(student, answer, _CASES, _right_slope)
