"""The targets and losses of TD3 (Fujimoto et al. 2018)."""

import numpy as np
import tensorflow as tf

from spinup_tf2.exercises.checking import calls, compare, expect, gradients, tensors


def smoothed_action(act, noise, sigma, noise_clip, limit):
    epsilon = tf.clip_by_value(sigma * noise, -noise_clip, noise_clip)
    return tf.clip_by_value(act + epsilon, -limit, limit)


def backup(rew, terminated, next_q1, next_q2, gamma):
    next_val = tf.minimum(next_q1, next_q2)
    return tf.stop_gradient(rew + gamma * (1 - terminated) * next_val)


def q_loss(q1, q2, y):
    return tf.reduce_mean((q1 - y) ** 2) + tf.reduce_mean((q2 - y) ** 2)


def pi_loss(q1_pi):
    return -tf.reduce_mean(q1_pi)


# ---------------------------------------------------------------- checks

_RNG = np.random.default_rng(9)


def _floats(*shape):
    return _RNG.normal(size=shape).astype(np.float32)


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


def check_smoothed_action(student):
    noise = "tf.clip_by_value(sigma * noise, -noise_clip, noise_clip)"
    action = "tf.clip_by_value(act + epsilon, -limit, limit)"
    mistakes = {
        "The noise is not clipped to [-c, c].": f"{noise} => sigma * noise",
        "The action is not clipped to [-limit, limit]: the environment knows no action beyond.": (
            f"{action} => act + epsilon"
        ),
        "Nothing is clipped, neither the noise nor the action.": (
            f"{noise} => sigma * noise\n{action} => act + epsilon"
        ),
        "The noise is not multiplied by sigma.": "sigma * noise => noise",
        "The noise is clipped before it is multiplied by sigma: c is the limit of sigma epsilon.": (
            "tf.clip_by_value(sigma * noise, => sigma * tf.clip_by_value(noise,"
        ),
        "The action is clipped to [-1, 1]: its limit is `limit`.": "-limit, limit => -1.0, 1.0",
        "The whole action is clipped to [-c, c]: that is the limit of the noise.": (
            f"{noise} => sigma * noise\n-limit, limit => -noise_clip, noise_clip"
        ),
        "There is no noise in the action.": "act + epsilon => act",
    }
    compare(student, calls("smoothed_action", tensors), _ACTIONS, _right_action, mistakes)


_STEPS = {
    "the episode continues": (*np.float32([[1], [0], [10], [20]]), 0.9),
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
    return [r if over else r + gamma * min(a, b) for r, over, a, b in steps]


def check_backup(student):
    minimum = "tf.minimum(next_q1, next_q2)"
    mistakes = {
        "You take the larger value: the smaller one is what keeps optimism away.": (
            "minimum => maximum"
        ),
        "You take the mean of the two values: take the smaller one.": (
            f"{minimum} => (next_q1 + next_q2) / 2"
        ),
        "You use the first target Q-function only: take the smaller value of both.": (
            f"{minimum} => next_q1"
        ),
        "You use the second target Q-function only: take the smaller value of both.": (
            f"{minimum} => next_q2"
        ),
        "You take the smallest value of the whole batch: the minimum is of the two values of each "
        "transition (tf.minimum).": f"{minimum} => tf.reduce_min([next_q1, next_q2])",
        "After termination nothing follows: the factor (1 - terminated) is missing.": (
            "(1 - terminated) * => "
        ),
        "The future counts where the episode has terminated, and only there: it is "
        "(1 - terminated).": "(1 - terminated) => terminated",
        "You forgot gamma.": "gamma * => ",
        "You drop the reward of the last step: it counts, only the future does not.": (
            "rew + => (1 - terminated) * rew +"
        ),
        "You discount the reward as well: it comes now.": "rew + => gamma * rew +",
    }
    compare(student, calls("backup", tensors), _STEPS, _right_backup, mistakes)


def check_backup_is_constant(student):
    rew, terminated, *values, gamma = tensors(_STEPS["20 random steps"])
    found = gradients(lambda *values: student.backup(rew, terminated, *values, gamma), *values)
    expect(
        all(each is None for each in found),
        "A gradient flows through y: it is a constant. Put tf.stop_gradient around it, or else the "
        "targets would be pulled towards the predictions.",
    )


_LOSSES = {
    "errors of 1 and 2": (np.float32([1.0]), np.float32([4.0]), np.float32([2.0])),
    "12 random steps": (_floats(12), _floats(12), _floats(12)),
}


def _right_q_loss(q1, q2, y):
    return sum((a - t) ** 2 + (b - t) ** 2 for a, b, t in zip(q1, q2, y, strict=True)) / len(y)


def check_q_loss(student):
    first, second = "tf.reduce_mean((q1 - y) ** 2)", "tf.reduce_mean((q2 - y) ** 2)"
    mistakes = {
        "Q_2 is not in the loss: it would never be trained.": f" + {second} => ",
        "Q_1 is not in the loss: it would never be trained.": f"{first} + => ",
        "You fit the smaller of Q_1 and Q_2: the minimum belongs into y, and each is fitted to "
        "y.": (f"{first} + {second} => tf.reduce_mean((tf.minimum(q1, q2) - y) ** 2)"),
        "You fit the mean of Q_1 and Q_2: each is fitted to y by itself.": (
            f"{first} + {second} => tf.reduce_mean(((q1 + q2) / 2 - y) ** 2)"
        ),
        "You take half of the sum of both losses: they are added.": (
            f"{first} + {second} => ({first} + {second}) / 2"
        ),
        "You sum over the batch: take the mean.": "reduce_mean => reduce_sum",
        "You return a number for each transition: take the mean.": "tf.reduce_mean => ",
        "The errors are not squared.": " ** 2 => ",
        "The sign is wrong: the loss is minimized, and errors should get smaller.": (
            f"{first} + {second} => -({first} + {second})"
        ),
    }
    compare(student, calls("q_loss", tensors), _LOSSES, _right_q_loss, mistakes)


def check_pi_loss(student):
    mistakes = {
        "The minus is missing: the policy would look for the worst action.": (
            "-tf.reduce_mean(q1_pi) => tf.reduce_mean(q1_pi)"
        ),
        "You sum over the batch: take the mean.": "-tf.reduce_mean(q1_pi) => -tf.reduce_sum(q1_pi)",
        "The minus is missing, and you sum over the batch: take the mean.": (
            "-tf.reduce_mean(q1_pi) => tf.reduce_sum(q1_pi)"
        ),
        "You return a number for each state: take the mean.": "-tf.reduce_mean(q1_pi) => -q1_pi",
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
    found = gradients(lambda q1, q2: student.q_loss(q1, q2, y), q1, q2)
    expect(
        all(each is not None for each in found),
        "The value of q_loss is right, but its gradient does not reach both Q-functions: y alone "
        "is a constant.",
    )
    expect(
        gradients(student.pi_loss, q1) != [None],
        "The value of pi_loss is right, but no gradient reaches Q_1(s, pi(s)), through which the "
        "policy learns: leave out stop_gradient.",
    )
