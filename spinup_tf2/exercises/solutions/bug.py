"""A DDPG that does not learn, fixed: the Q-functions' values lose their axis of length 1."""

from collections.abc import Callable

import tensorflow as tf

Policy = Callable[[tf.Tensor], tf.Tensor]
QFunction = Callable[[tf.Tensor], tf.Tensor]


def shape_of_error(batch_size: int) -> tuple[int, ...]:
    # [batch] and [batch, 1] broadcast to [batch, batch]: each reward meets each next value. The
    # mean over it fits every Q(s, a) to the mean of all targets.
    return batch_size, batch_size


def q_loss(
    q: QFunction, q_target: QFunction, pi_target: Policy, batch: dict[str, tf.Tensor], gamma: float
) -> tf.Tensor:
    next_act = pi_target(batch["next_obs"])
    next_q = q_target(tf.concat([batch["next_obs"], next_act], axis=-1))[:, 0]
    y = tf.stop_gradient(batch["rew"] + gamma * (1 - batch["terminated"]) * next_q)
    error = q(tf.concat([batch["obs"], batch["act"]], axis=-1))[:, 0] - y
    return tf.reduce_mean(error**2)


def pi_loss(q: QFunction, pi: Policy, batch: dict[str, tf.Tensor]) -> tf.Tensor:
    return -tf.reduce_mean(q(tf.concat([batch["obs"], pi(batch["obs"])], axis=-1)))
