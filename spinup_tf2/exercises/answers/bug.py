"""A DDPG that does not learn, and does not complain.

Below are the losses of DDPG (Lillicrap et al. 2016). They run, they are finite, they fall. But the
agent learns next to nothing. Find the bug, and fix it. There is exactly one.

    y = R + gamma (1 - terminated) Q'(s', pi'(s'))      a constant, with the target networks
    L_Q = mean((Q(s, a) - y)^2)
    L_pi = -mean(Q(s, pi(s)))

Print shapes. Before you change anything, fill in `shape_of_error`.
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from spinup_tf2.exercises.checking import compare, expect, expect_constant, expect_gradient

# A policy: observations [batch, obs_dim] to actions [batch, act_dim].
Policy = Callable[[tf.Tensor], tf.Tensor]
# A Q-function: a dense network that takes observation and action side by side,
# [batch, obs_dim + act_dim], to [batch, 1].
QFunction = Callable[[tf.Tensor], tf.Tensor]


def shape_of_error(batch_size: int) -> tuple[int, ...]:
    """Return the shape of `error` in q_loss as it stands, before the bug is fixed."""
    # answer
    # [batch] and [batch, 1] broadcast to [batch, batch]: each reward meets each next value. The
    # mean over it fits every Q(s, a) to the mean of all targets.
    return batch_size, batch_size


def q_loss(
    q: QFunction, q_target: QFunction, pi_target: Policy, batch: dict[str, tf.Tensor], gamma: float
) -> tf.Tensor:
    """L_Q, of a batch of obs and next_obs [batch, obs_dim], act [batch, act_dim], rew and
    terminated [batch]. All are float32; terminated is 1 or 0.
    """
    next_act = pi_target(batch["next_obs"])
    next_q = q_target(tf.concat([batch["next_obs"], next_act], axis=-1))[:, 0]
    y = tf.stop_gradient(batch["rew"] + gamma * (1 - batch["terminated"]) * next_q)
    error = q(tf.concat([batch["obs"], batch["act"]], axis=-1))[:, 0] - y
    return tf.reduce_mean(error**2)


def pi_loss(q: QFunction, pi: Policy, batch: dict[str, tf.Tensor]) -> tf.Tensor:
    """L_pi."""
    return -tf.reduce_mean(q(tf.concat([batch["obs"], pi(batch["obs"])], axis=-1)))


# ---------------------------------------------------------------- checks

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


_CASES = {f"a batch of {size}": (_batch(size),) for size in (1, 4, 10)}


def _network(weights):
    """Return a network of a single dense layer with tanh, with the output [batch, n]."""
    return lambda x: tf.math.tanh(x @ weights)


def _tensors(batch):
    return {key: tf.constant(array) for key, array in batch.items()}


def _value(obs, act, weights):
    return np.tanh(np.concatenate([obs, act], axis=1) @ weights)[:, 0]


def _right_q_loss(batch):
    """Compute the loss one transition at a time."""
    q = _value(batch["obs"], batch["act"], _Q)
    next_q = _value(batch["next_obs"], np.tanh(batch["next_obs"] @ _PI_TARGET), _Q_TARGET)
    total = 0.0
    for i, r in enumerate(batch["rew"]):
        total += (q[i] - (r if batch["terminated"][i] else r + _GAMMA * next_q[i])) ** 2
    return total / len(q)


def check_shape_of_error(student):
    for size in (2, 7):
        answer = tuple(student.shape_of_error(size))
        expect(
            answer == (size, size),
            f"shape_of_error({size}) is {answer}. Run q_loss as it was, and print error.shape: rew "
            "is [batch], next_q is [batch, 1]. How does TensorFlow broadcast these?",
        )


def check_q_loss(student):
    def answer(module, batch):
        networks = map(_network, (_Q, _Q_TARGET, _PI_TARGET))
        return module.q_loss(*networks, _tensors(batch), _GAMMA)

    mistakes = {
        "The bug is still there. Print the shapes of rew, next_q and y.": "[:, 0] => ",
        "y is right now, [batch], but Q(s, a) is [batch, 1].": "[:, 0] - y =>  - y",
        "Q(s, a) is right now, [batch], but y is [batch, batch].": (
            "next_act], axis=-1))[:, 0] => next_act], axis=-1))"
        ),
        "You sum over the batch: take the mean.": "reduce_mean(error => reduce_sum(error",
        "The future counts after termination as well.": '(1 - batch["terminated"]) * => ',
    }
    compare(student, answer, _CASES, _right_q_loss, mistakes)


def check_gradient_of_q_loss(student):
    batch = _tensors(_batch(6))
    q, *targets = map(tf.constant, (_Q, _Q_TARGET, _PI_TARGET))

    def loss(*weights):
        return student.q_loss(*map(_network, weights), batch, _GAMMA)

    expect_gradient(lambda q: loss(q, *targets), q)
    expect_constant(lambda *targets: loss(q, *targets), *targets)


def check_pi_loss(student):
    mistakes = {"There was no bug in pi_loss: its minus is missing now.": "return -tf => return tf"}
    compare(
        student,
        lambda module, batch: module.pi_loss(_network(_Q), _network(_PI), _tensors(batch)),
        _CASES,
        lambda batch: -_value(batch["obs"], np.tanh(batch["obs"] @ _PI), _Q).mean(),
        mistakes,
    )


def check_gradient_of_pi_loss(student):
    batch = _tensors(_batch(6))
    q = _network(_Q)
    expect_gradient(lambda pi: student.pi_loss(q, _network(pi), batch), tf.constant(_PI))
