"""The backup and the loss of DQN (Mnih et al. 2015) with double Q-learning (van Hasselt 2016).

A network gives the values of all actions at once. In the backup, the network that is trained, Q,
chooses the next action, and the target network, Q', says what it is worth:

    a* = argmax_a Q(s', a)
    y = R + gamma (1 - terminated) Q'(s', a*)      a constant

The loss is quadratic for small errors and linear for large ones, so that no transition pulls harder
than with slope 1:

    L = mean(h(Q(s, a) - y)),    h(x) = x^2 / 2 where |x| <= 1, otherwise |x| - 1/2
"""

import numpy as np
import tensorflow as tf

from spinup_tf2.exercises.checking import calls, compare, expect_constant, expect_gradient, tensors


def backup(
    rew: tf.Tensor, terminated: tf.Tensor, next_q: tf.Tensor, next_q_target: tf.Tensor, gamma: float
) -> tf.Tensor:
    """Return y, [batch], through which no gradient flows.

    Args:
        rew: Rewards, [batch].
        terminated: 1 or 0, float32, [batch].
        next_q, next_q_target: Q(s', a) and Q'(s', a) of all actions a, [batch, num_actions].
        gamma: Discount factor.
    """
    # answer
    best = tf.argmax(next_q, axis=-1)
    next_val = tf.gather(next_q_target, best, batch_dims=1)
    return tf.stop_gradient(rew + gamma * (1 - terminated) * next_val)


def q_loss(q: tf.Tensor, act: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Return L, a scalar.

    Args:
        q: Q(s, a) of all actions a, [batch, num_actions].
        act: The actions that were taken, whole numbers, [batch].
        y: The backups, [batch].
    """
    # answer
    error = tf.abs(tf.gather(q, act, batch_dims=1) - y)
    return tf.reduce_mean(tf.where(error <= 1, error**2 / 2, error - 0.5))


# ---------------------------------------------------------------- checks

_RNG = np.random.default_rng(11)


def _floats(*shape):
    return _RNG.normal(size=shape).astype(np.float32)


def _one(terminated):
    return np.float32([1]), np.float32([terminated]), np.float32([[5, 7]]), np.float32([[20, 10]])


_STEPS = {
    "the episode goes on": (*_one(0), 0.9),
    "terminated": (*_one(1), 0.9),
    "20 random steps": (
        *(_floats(20), np.float32(_RNG.random(20) < 0.3), _floats(20, 4), _floats(20, 4), 0.97),
    ),
}


def _right_backup(rew, terminated, next_q, next_q_target, gamma):
    steps = zip(rew, terminated, next_q, next_q_target, strict=True)
    return [
        r if over else r + gamma * theirs[max(range(len(ours)), key=lambda a: ours[a])]
        for r, over, ours, theirs in steps
    ]


def check_backup(student):
    mistakes = {
        "Q chooses the next action, not the target network.": (
            "tf.argmax(next_q, => tf.argmax(next_q_target,"
        ),
        "The value is that of the target network.": "tf.gather(next_q_target, => tf.gather(next_q,",
        "After termination nothing follows: (1 - terminated) is missing.": (
            "(1 - terminated) * => "
        ),
        "You forgot gamma.": "gamma * => ",
    }
    compare(student, calls("backup", tensors), _STEPS, _right_backup, mistakes)


def check_backup_is_constant(student):
    *inputs, gamma = tensors(_STEPS["20 random steps"])
    expect_constant(lambda *inputs: student.backup(*inputs, gamma), *inputs)


_LOSSES = {
    "a small error": (np.float32([[3.0, 1.5]]), np.array([1]), np.float32([1.0])),
    "a large error": (np.float32([[3.0, 9.0]]), np.array([0]), np.float32([-1.0])),
    "16 random steps": (2 * _floats(16, 3), _RNG.integers(3, size=16), _floats(16)),
}


def _right_loss(q, act, y):
    errors = [abs(values[a] - target) for values, a, target in zip(q, act, y, strict=True)]
    return sum(e**2 / 2 if e <= 1 else e - 0.5 for e in errors) / len(errors)


def check_q_loss(student):
    huber = "tf.where(error <= 1, error**2 / 2, error - 0.5)"
    mistakes = {
        "Beyond 1 the loss is linear.": f"{huber} => error**2 / 2",
        "The square is not halved.": "error**2 / 2 => error**2",
        "1/2 is missing where the loss is linear.": "error - 0.5 => error",
        "You return a number for each transition: take the mean.": "tf.reduce_mean => ",
    }
    compare(student, calls("q_loss", tensors), _LOSSES, _right_loss, mistakes)


def check_gradient_of_loss(student):
    q, act, y = tensors(_LOSSES["16 random steps"])
    expect_gradient(lambda q: student.q_loss(q, act, y), q)
