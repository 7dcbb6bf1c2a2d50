"""The targets and losses of TD3 (Fujimoto et al. 2018).

Three changes make DDPG reliable. Targets are computed with a noisy action, so that a narrow peak of
the Q-function cannot be exploited (eq. 14):

    a' = clip( pi'(s') + clip(sigma epsilon, -c, c), -limit, limit ),   epsilon ~ N(0, 1)

The smaller one of two target Q-functions counts, so that errors do not add up to optimism:

    y = R + gamma (1 - terminated) min(Q_1'(s', a'), Q_2'(s', a'))      a constant

And both Q-functions are fitted to the same y, while the policy follows the first:

    L_Q = mean((Q_1(s, a) - y)^2) + mean((Q_2(s, a) - y)^2)
    L_pi = -mean(Q_1(s, pi(s)))

The third change, that the policy learns less often, is not part of the losses.
"""

import numpy as np
import tensorflow as tf

from spinup_tf2.exercises.checking import calls, compare, expect_constant, expect_gradient, tensors


def smoothed_action(
    act: tf.Tensor, noise: tf.Tensor, sigma: float, noise_clip: float, limit: float
) -> tf.Tensor:
    """Return a', [batch, act_dim].

    Args:
        act: pi'(s'), [batch, act_dim].
        noise: epsilon, standard normal, [batch, act_dim].
        sigma, noise_clip: sigma and c.
        limit: Actions lie in [-limit, limit].
    """
    # answer
    epsilon = tf.clip_by_value(sigma * noise, -noise_clip, noise_clip)
    return tf.clip_by_value(act + epsilon, -limit, limit)


def backup(
    rew: tf.Tensor, terminated: tf.Tensor, next_q1: tf.Tensor, next_q2: tf.Tensor, gamma: float
) -> tf.Tensor:
    """Return y, through which no gradient flows. All are [batch]; terminated is float32, 1 or 0."""
    # answer
    next_val = tf.minimum(next_q1, next_q2)
    return tf.stop_gradient(rew + gamma * (1 - terminated) * next_val)


def q_loss(q1: tf.Tensor, q2: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Return L_Q, a scalar. The arguments are [batch]."""
    # answer
    return tf.reduce_mean((q1 - y) ** 2) + tf.reduce_mean((q2 - y) ** 2)


def pi_loss(q1_pi: tf.Tensor) -> tf.Tensor:
    """Return L_pi, a scalar. q1_pi is Q_1(s, pi(s)), [batch]."""
    # answer
    return -tf.reduce_mean(q1_pi)


# ---------------------------------------------------------------- checks

_RNG = np.random.default_rng(9)


def _floats(*shape):
    return _RNG.normal(size=shape).astype(np.float32)


_ACTIONS = {
    "no noise": (_floats(4, 2).clip(-1, 1), np.zeros((4, 2), np.float32), 0.2, 0.5, 1.0),
    "little noise, far from the limits": (0.1 * _floats(4, 2), 0.1 * _floats(4, 2), 0.2, 0.5, 1.0),
    "large noise": (0.1 * _floats(6, 2), 5 * _floats(6, 2), 0.2, 0.5, 1.0),
    "at the limits, which are -2 and 2": (*np.float32([[-2, 1.9, 2], [-1, 3, -9]]), 0.4, 0.6, 2.0),
}


def _right_action(act, noise, sigma, c, limit):
    return np.clip(act + np.clip(sigma * noise, -c, c), -limit, limit)


def check_smoothed_action(student):
    noise = "tf.clip_by_value(sigma * noise, -noise_clip, noise_clip)"
    action = "tf.clip_by_value(act + epsilon, -limit, limit)"
    mistakes = {
        "The noise is not clipped to [-c, c].": f"{noise} => sigma * noise",
        "The action is not clipped to [-limit, limit].": f"{action} => act + epsilon",
        "The noise is not multiplied by sigma.": "sigma * noise => noise",
        "c is the limit of sigma epsilon, not of epsilon.": (
            "tf.clip_by_value(sigma * noise, => sigma * tf.clip_by_value(noise,"
        ),
    }
    compare(student, calls("smoothed_action", tensors), _ACTIONS, _right_action, mistakes)


_STEPS = {
    "the episode continues": (*np.float32([[1], [0], [10], [20]]), 0.9),
    "terminated": (*np.float32([[1], [1], [10], [20]]), 0.9),
    "20 steps": (_floats(20), np.float32(_RNG.random(20) < 0.3), _floats(20), _floats(20), 0.97),
}


def _right_backup(rew, terminated, next_q1, next_q2, gamma):
    steps = zip(rew, terminated, next_q1, next_q2, strict=True)
    return [r if over else r + gamma * min(a, b) for r, over, a, b in steps]


def check_backup(student):
    minimum = "tf.minimum(next_q1, next_q2)"
    mistakes = {
        "You take the larger value, not the smaller.": "minimum => maximum",
        "You use the first target Q-function only.": f"{minimum} => next_q1",
        "You take the smallest value of the whole batch.": (
            f"{minimum} => tf.reduce_min([next_q1, next_q2])"
        ),
        "After termination nothing follows: (1 - terminated) is missing.": (
            "(1 - terminated) * => "
        ),
        "You forgot gamma.": "gamma * => ",
    }
    compare(student, calls("backup", tensors), _STEPS, _right_backup, mistakes)


def check_backup_is_constant(student):
    *inputs, gamma = tensors(_STEPS["20 steps"])
    expect_constant(lambda *inputs: student.backup(*inputs, gamma), *inputs)


_LOSSES = {
    "errors of 1 and 2": (np.float32([1.0]), np.float32([4.0]), np.float32([2.0])),
    "12 random steps": (_floats(12), _floats(12), _floats(12)),
}


def _right_q_loss(q1, q2, y):
    return sum((a - t) ** 2 + (b - t) ** 2 for a, b, t in zip(q1, q2, y, strict=True)) / len(y)


def check_q_loss(student):
    first, second = "tf.reduce_mean((q1 - y) ** 2)", "tf.reduce_mean((q2 - y) ** 2)"
    mistakes = {
        "Q_2 is not in the loss.": f" + {second} => ",
        "Q_1 and Q_2 are each fitted to y.": (
            f"{first} + {second} => tf.reduce_mean((tf.minimum(q1, q2) - y) ** 2)"
        ),
        "You sum over the batch: take the mean.": "reduce_mean => reduce_sum",
        "You return a number for each transition: take the mean.": "tf.reduce_mean => ",
    }
    compare(student, calls("q_loss", tensors), _LOSSES, _right_q_loss, mistakes)


def check_pi_loss(student):
    mistakes = {
        "The minus is missing.": "-tf.reduce_mean(q1_pi) => tf.reduce_mean(q1_pi)",
        "You sum over the batch: take the mean.": "-tf.reduce_mean(q1_pi) => -tf.reduce_sum(q1_pi)",
    }
    compare(
        student,
        calls("pi_loss", tensors),
        {"one state": (np.float32([3.0]),), "8 states": (_floats(8),)},
        lambda q1_pi: -sum(q1_pi) / len(q1_pi),
        mistakes,
    )


def check_gradients_of_losses(student):
    q1, q2, y = tensors(_LOSSES["12 random steps"])
    expect_gradient(lambda q1, q2: student.q_loss(q1, q2, y), q1, q2)
    expect_gradient(student.pi_loss, q1)
