"""Checks of SAC's temperature loss: its value and its gradients."""

import numpy as np
import tensorflow as tf

from spinup_tf2.exercises.checking import compare, expect

_LOGP = np.random.default_rng(10).normal(1.0, 1.0, size=9).astype(np.float32)
CASES = {
    "alpha 1": (np.float32(0.0), _LOGP, -2.0),
    "entropy too low": (np.float32(-1.5), np.float32([4.0]), -3.0),
    "entropy too high": (np.float32(-1.5), np.float32([2.0]), -3.0),
    "9 actions, target -1": (np.float32(0.7), _LOGP, -1.0),
    "9 actions, target 0.5": (np.float32(-0.7), _LOGP, 0.5),
}


def right(log_alpha, logp, target_entropy):
    entropy = -sum(logp) / len(logp)
    return log_alpha * (entropy - target_entropy)


MISTAKES = {
    "The minus is missing: alpha would fall while the entropy is too low, and the policy would be "
    "sure of itself sooner and sooner.": lambda *args: -right(*args),
    "You subtract the target: it is log pi + H, because the entropy is minus the mean of log pi.": (
        lambda log_alpha, logp, target: -log_alpha * (np.mean(logp) - target)
    ),
    "You take log pi for the entropy, which is minus its mean.": lambda log_alpha, logp, target: (
        log_alpha * (np.mean(logp) - target)
    ),
    "You multiply by alpha: here it is log(alpha).": lambda log_alpha, logp, target: (
        -np.exp(log_alpha) * (np.mean(logp) + target)
    ),
    "The target entropy is missing.": lambda log_alpha, logp, target: -log_alpha * np.mean(logp),
    "You sum over the batch: take the mean.": lambda log_alpha, logp, target: (
        -log_alpha * np.sum(logp + target)
    ),
    "You sum log pi over the batch: take its mean.": lambda log_alpha, logp, target: (
        -log_alpha * (np.sum(logp) + target)
    ),
    "You return a number for each action: take the mean.": lambda log_alpha, logp, target: (
        -log_alpha * (logp + target)
    ),
    "log alpha is not in the loss: nothing would be learned.": lambda log_alpha, logp, target: (
        -(np.mean(logp) + target)
    ),
}


def _tensors(log_alpha, logp, target_entropy):
    return tf.constant(log_alpha), tf.constant(logp), target_entropy


def value(student):
    compare(lambda *args: student.temperature_loss(*_tensors(*args)), CASES, right, MISTAKES)


def gradients(student):
    def gradient(*args):
        log_alpha, logp, target = _tensors(*args)
        with tf.GradientTape() as tape:
            tape.watch([log_alpha, logp])
            loss = student.temperature_loss(log_alpha, logp, target)
        of_alpha, of_logp = tape.gradient(loss, [log_alpha, logp])
        expect(
            of_alpha is not None,
            "No gradient reaches log_alpha: stop_gradient belongs around the mean alone.",
        )
        expect(
            of_logp is None or not np.any(of_logp),
            "A gradient reaches the policy through logp: put tf.stop_gradient around the mean. As "
            "it is, this loss would train the policy, too.",
        )
        return of_alpha

    compare(
        gradient,
        CASES,
        lambda log_alpha, logp, target: -sum(logp) / len(logp) - target,
        {},
    )


CHECKS = [value, gradients]
