"""Checks of the losses of DDPG, in which the student has to find the bug."""

import numpy as np
import tensorflow as tf

from spinup_tf2.exercises.checking import compare, expect

_OBS_DIM, _ACT_DIM, _GAMMA = 3, 2, 0.9
_RNG = np.random.default_rng(8)
_Q, _Q_TARGET = _RNG.normal(size=(2, _OBS_DIM + _ACT_DIM, 1)).astype(np.float32)
_PI, _PI_TARGET = _RNG.normal(size=(2, _OBS_DIM, _ACT_DIM)).astype(np.float32)


def _batch(size):
    return dict(
        obs=_RNG.normal(size=(size, _OBS_DIM)).astype(np.float32),
        act=_RNG.normal(size=(size, _ACT_DIM)).astype(np.float32),
        rew=_RNG.normal(size=size).astype(np.float32),
        next_obs=_RNG.normal(size=(size, _OBS_DIM)).astype(np.float32),
        terminated=np.float32(_RNG.random(size) < 0.3),
    )


CASES = {f"a batch of {size}": (_batch(size),) for size in (1, 4, 10)}


def _network(weights):
    """Return a network of a single dense layer with tanh, with the output [batch, n]."""
    return lambda x: tf.math.tanh(x @ weights)


def _tensors(batch):
    return {key: tf.constant(array) for key, array in batch.items()}


def _targets(batch):
    next_act = np.tanh(batch["next_obs"] @ _PI_TARGET)
    next_q = np.tanh(np.concatenate([batch["next_obs"], next_act], axis=1) @ _Q_TARGET)[:, 0]
    return batch["rew"], batch["terminated"], next_q


def _q(batch):
    return np.tanh(np.concatenate([batch["obs"], batch["act"]], axis=1) @ _Q)[:, 0]


def right(batch):
    """Compute the loss one transition at a time."""
    total = 0.0
    for r, over, next_q, q in zip(*_targets(batch), _q(batch), strict=True):
        total += (q - (r if over else r + _GAMMA * next_q)) ** 2
    return total / len(batch["rew"])


def _target(batch):
    rew, terminated, next_q = _targets(batch)
    return rew + _GAMMA * (1 - terminated) * next_q


def _only_error_mended(batch):
    """Compute the loss with a backup that is still [batch, batch]: each reward, each next value."""
    rew, terminated, next_q = _targets(batch)
    y = rew + _GAMMA * (1 - terminated) * next_q[:, None]
    return np.mean((_q(batch) - y) ** 2)


def _only_backup_mended(batch):
    return np.mean((_q(batch)[:, None] - _target(batch)) ** 2)


def _as_it_was(batch):
    rew, terminated, next_q = _targets(batch)
    y = rew + _GAMMA * (1 - terminated) * next_q[:, None]
    return np.mean((_q(batch)[:, None] - y) ** 2)


MISTAKES = {
    "The bug is still there. Print the shapes of rew, next_q and y.": _as_it_was,
    "y is right now, [batch]. But Q(s, a) is [batch, 1], so that the difference is "
    "[batch, batch].": _only_backup_mended,
    "Q(s, a) is right now, [batch]. But y is [batch, batch] still: look at how rew and next_q "
    "come together.": _only_error_mended,
    "You sum over the batch: take the mean.": lambda batch: right(batch) * len(batch["rew"]),
    "You return an error for each transition: take the mean.": lambda batch: (
        (_q(batch) - _target(batch)) ** 2
    ),
    "You take the square of the mean error, in which errors cancel out: take the mean of the "
    "squares.": lambda batch: np.mean(_q(batch) - _target(batch)) ** 2,
    "The future counts after termination as well: (1 - terminated) is lost.": lambda batch: np.mean(
        (_q(batch) - _targets(batch)[0] - _GAMMA * _targets(batch)[2]) ** 2
    ),
}


def shape_of_error(student):
    for size in (2, 7):
        answer = tuple(student.shape_of_error(size))
        expect(
            answer == (size, size),
            f"shape_of_error({size}) is {answer}. Run q_loss as it was, and print error.shape: rew "
            "is [batch], next_q is [batch, 1]. How does TensorFlow broadcast these?",
        )


def q_loss(student):
    def answer(batch):
        networks = _network(_Q), _network(_Q_TARGET), _network(_PI_TARGET)
        return student.q_loss(*networks, _tensors(batch), _GAMMA)

    compare(answer, CASES, right, MISTAKES)


def gradient_of_q_loss(student):
    weights = [tf.constant(w) for w in (_Q, _Q_TARGET, _PI_TARGET)]
    batch = _batch(6)
    with tf.GradientTape() as tape:
        tape.watch(weights)
        loss = student.q_loss(*map(_network, weights), _tensors(batch), _GAMMA)
    own, *of_targets = tape.gradient(loss, weights)
    expect(own is not None, "No gradient reaches Q: the stop_gradient belongs around y alone.")
    expect(
        all(each is None or not np.any(each) for each in of_targets),
        "The gradient flows into the target networks: y is a constant, inside stop_gradient.",
    )


def pi_loss(student):
    def mean_q(batch):
        act = np.tanh(batch["obs"] @ _PI)
        return np.tanh(np.concatenate([batch["obs"], act], axis=1) @ _Q).mean()

    compare(
        lambda batch: student.pi_loss(_network(_Q), _network(_PI), _tensors(batch)),
        CASES,
        lambda batch: -mean_q(batch),
        {
            "There was no bug in pi_loss: its minus is missing now, and the policy would learn to "
            "do its worst.": mean_q,
            "There was no bug in pi_loss: it was the mean, and is the sum now.": (
                lambda batch: -mean_q(batch) * len(batch["rew"])
            ),
        },
    )


def gradient_of_pi_loss(student):
    weights = tf.constant(_PI)
    with tf.GradientTape() as tape:
        tape.watch(weights)
        loss = student.pi_loss(_network(_Q), _network(weights), _tensors(_batch(6)))
    expect(
        tape.gradient(loss, weights) is not None,
        "There was no bug in pi_loss: no gradient reaches the policy through its action now. Leave "
        "out stop_gradient.",
    )


CHECKS = [shape_of_error, q_loss, gradient_of_q_loss, pi_loss, gradient_of_pi_loss]
