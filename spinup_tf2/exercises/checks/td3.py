"""Checks of TD3's targets and losses."""

import numpy as np
import tensorflow as tf

from spinup_tf2.exercises.checking import compare, expect

_RNG = np.random.default_rng(9)


def _floats(*shape):
    return _RNG.normal(size=shape).astype(np.float32)


def _tensors(args):
    return [tf.constant(arg) if isinstance(arg, np.ndarray) else arg for arg in args]


_ACTIONS = {
    "no noise": (_floats(4, 2).clip(-1, 1), np.zeros((4, 2), np.float32), 0.2, 0.5, 1.0),
    "little noise, far from the limits": (0.1 * _floats(4, 2), 0.1 * _floats(4, 2), 0.2, 0.5, 1.0),
    "large noise": (0.1 * _floats(6, 2), 5 * _floats(6, 2), 0.2, 0.5, 1.0),
    "at the limits, which are -2 and 2": (
        np.float32([[-2.0], [1.9], [2.0], [0.0]]),
        np.float32([[-1.0], [3.0], [-9.0], [9.0]]),
        0.4,
        0.6,
        2.0,
    ),
}


def _right_action(act, noise, sigma, c, limit):
    """Compute a' one number at a time."""
    result = np.zeros(act.shape)
    for index in np.ndindex(act.shape):
        epsilon = min(max(sigma * noise[index], -c), c)
        result[index] = min(max(act[index] + epsilon, -limit), limit)
    return result


_ACTION_MISTAKES = {
    "The noise is not clipped to [-c, c].": lambda act, noise, sigma, c, limit: np.clip(
        act + sigma * noise, -limit, limit
    ),
    "The action is not clipped to [-limit, limit]: the environment knows no action beyond.": (
        lambda act, noise, sigma, c, limit: act + np.clip(sigma * noise, -c, c)
    ),
    "Nothing is clipped, neither the noise nor the action.": lambda act, noise, sigma, c, limit: (
        act + sigma * noise
    ),
    "The noise is not multiplied by sigma.": lambda act, noise, sigma, c, limit: np.clip(
        act + np.clip(noise, -c, c), -limit, limit
    ),
    "The noise is clipped before it is multiplied by sigma: c is the limit of sigma epsilon.": (
        lambda act, noise, sigma, c, limit: np.clip(
            act + sigma * np.clip(noise, -c, c), -limit, limit
        )
    ),
    "The action is clipped to [-1, 1]: its limit is `limit`.": (
        lambda act, noise, sigma, c, limit: np.clip(act + np.clip(sigma * noise, -c, c), -1, 1)
    ),
    "The whole action is clipped to [-c, c]: that is the limit of the noise.": (
        lambda act, noise, sigma, c, limit: np.clip(act + sigma * noise, -c, c)
    ),
    "There is no noise in the action.": lambda act, noise, sigma, c, limit: np.clip(
        act, -limit, limit
    ),
}

_BACKUPS = {
    "the episode goes on": (*np.float32([[1], [0], [10], [20]]), 0.9),
    "terminated": (*np.float32([[1], [1], [10], [20]]), 0.9),
    "20 random steps": (
        _floats(20),
        np.float32(_RNG.random(20) < 0.3),
        _floats(20),
        _floats(20),
        0.97,
    ),
}


def _right_backup(rew, terminated, next_q1, next_q2, gamma):
    steps = zip(rew, terminated, next_q1, next_q2, strict=True)
    return np.array([r if over else r + gamma * min(a, b) for r, over, a, b in steps])


def _future(value):
    """Return y with another value of s'."""
    return lambda r, over, a, b, gamma: r + gamma * (1 - over) * value(a, b)


_BACKUP_MISTAKES = {
    "You take the larger value: the smaller one is what keeps optimism away.": _future(np.maximum),
    "You take the mean of the two values: take the smaller one.": _future(lambda a, b: (a + b) / 2),
    "You use the first target Q-function only: take the smaller value of both.": _future(
        lambda a, b: a
    ),
    "You use the second target Q-function only: take the smaller value of both.": _future(
        lambda a, b: b
    ),
    "You take the smallest value of the whole batch: the minimum is of the two values of each "
    "transition (tf.minimum).": _future(lambda a, b: min(a.min(), b.min())),
    "After termination nothing follows: the factor (1 - terminated) is missing.": (
        lambda r, over, a, b, gamma: r + gamma * np.minimum(a, b)
    ),
    "The future counts where the episode has terminated, and only there: it is (1 - terminated).": (
        lambda r, over, a, b, gamma: r + gamma * over * np.minimum(a, b)
    ),
    "You forgot gamma.": lambda r, over, a, b, gamma: r + (1 - over) * np.minimum(a, b),
    "You drop the reward of the last step: it counts, only the future does not.": (
        lambda r, over, a, b, gamma: (1 - over) * (r + gamma * np.minimum(a, b))
    ),
    "You discount the reward as well: it comes now.": lambda r, over, a, b, gamma: (
        gamma * (r + (1 - over) * np.minimum(a, b))
    ),
}

_LOSSES = {
    "errors of 1 and 2": (np.float32([1.0]), np.float32([4.0]), np.float32([2.0])),
    "12 random steps": (_floats(12), _floats(12), _floats(12)),
}


def _right_q_loss(q1, q2, y):
    return sum((a - t) ** 2 + (b - t) ** 2 for a, b, t in zip(q1, q2, y, strict=True)) / len(y)


_Q_LOSS_MISTAKES = {
    "Q_2 is not in the loss: it would never be trained.": lambda q1, q2, y: np.mean((q1 - y) ** 2),
    "Q_1 is not in the loss: it would never be trained.": lambda q1, q2, y: np.mean((q2 - y) ** 2),
    "You fit the smaller of Q_1 and Q_2: the minimum belongs into y, and each is fitted to y.": (
        lambda q1, q2, y: np.mean((np.minimum(q1, q2) - y) ** 2)
    ),
    "You fit the mean of Q_1 and Q_2: each is fitted to y by itself.": lambda q1, q2, y: np.mean(
        ((q1 + q2) / 2 - y) ** 2
    ),
    "You take half of the sum of both losses: they are added.": lambda *args: (
        _right_q_loss(*args) / 2
    ),
    "You sum over the batch: take the mean.": lambda *args: _right_q_loss(*args) * len(args[2]),
    "You return a number for each transition: take the mean.": lambda q1, q2, y: (
        (q1 - y) ** 2 + (q2 - y) ** 2
    ),
    "The errors are not squared.": lambda q1, q2, y: np.mean(q1 - y) + np.mean(q2 - y),
    "The sign is wrong: the loss is minimized, and errors should get smaller.": lambda *args: (
        -_right_q_loss(*args)
    ),
}


def smoothed_action(student):
    compare(
        lambda *args: student.smoothed_action(*_tensors(args)),
        _ACTIONS,
        _right_action,
        _ACTION_MISTAKES,
    )


def backup(student):
    compare(
        lambda *args: student.backup(*_tensors(args)), _BACKUPS, _right_backup, _BACKUP_MISTAKES
    )


def backup_is_constant(student):
    rew, terminated, *values, gamma = _tensors(_BACKUPS["20 random steps"])
    with tf.GradientTape() as tape:
        tape.watch(values)
        y = student.backup(rew, terminated, *values, gamma)
    expect(
        all(each is None for each in tape.gradient(y, values)),
        "A gradient flows through y: it is a constant. Put tf.stop_gradient around it, or else the "
        "targets would be pulled towards the predictions.",
    )


def q_loss(student):
    compare(lambda *args: student.q_loss(*_tensors(args)), _LOSSES, _right_q_loss, _Q_LOSS_MISTAKES)


def pi_loss(student):
    compare(
        lambda q1_pi: student.pi_loss(tf.constant(q1_pi)),
        {"one state": (np.float32([3.0]),), "8 states": (_floats(8),)},
        lambda q1_pi: -sum(q1_pi) / len(q1_pi),
        {
            "The minus is missing: the policy would look for the worst action.": np.mean,
            "You sum over the batch: take the mean.": lambda q1_pi: -np.sum(q1_pi),
            "The minus is missing, and you sum over the batch: take the mean.": np.sum,
            "You return a number for each state: take the mean.": lambda q1_pi: -q1_pi,
        },
    )


def gradients_of_losses(student):
    q1, q2, y = map(tf.constant, _LOSSES["12 random steps"])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([q1, q2])
        losses = student.q_loss(q1, q2, y), student.pi_loss(q1)
    expect(
        all(each is not None for each in tape.gradient(losses[0], [q1, q2])),
        "The value of q_loss is right, but its gradient does not reach both Q-functions: y alone "
        "is a constant.",
    )
    expect(
        tape.gradient(losses[1], q1) is not None,
        "The value of pi_loss is right, but no gradient reaches Q_1(s, pi(s)), through which the "
        "policy learns: leave out stop_gradient.",
    )


CHECKS = [smoothed_action, backup, backup_is_constant, q_loss, pi_loss, gradients_of_losses]
