"""A DDPG that does not learn, and does not complain.

Below are the losses of DDPG (Lillicrap et al. 2016). They run, they are finite, they fall. But the
agent learns next to nothing. Find the bug, and fix it. There is exactly one.

    y = R + gamma (1 - terminated) Q'(s', pi'(s'))      a constant, with the target networks
    L_Q = mean((Q(s, a) - y)^2)
    L_pi = -mean(Q(s, pi(s)))

Print shapes. Before you change anything, fill in `shape_of_error`.
"""

from collections.abc import Callable

import tensorflow as tf

# A policy: observations [batch, obs_dim] to actions [batch, act_dim].
Policy = Callable[[tf.Tensor], tf.Tensor]
# A Q-function: a dense network that takes observation and action side by side,
# [batch, obs_dim + act_dim], to [batch, 1].
QFunction = Callable[[tf.Tensor], tf.Tensor]


def shape_of_error(batch_size: int) -> tuple[int, ...]:
    """Return the shape of `error` in q_loss as it stands, before the bug is fixed."""
    raise NotImplementedError


def q_loss(
    q: QFunction, q_target: QFunction, pi_target: Policy, batch: dict[str, tf.Tensor], gamma: float
) -> tf.Tensor:
    """L_Q, of a batch of obs and next_obs [batch, obs_dim], act [batch, act_dim], rew and
    terminated [batch]. All are float32; terminated is 1 or 0.
    """
    next_act = pi_target(batch["next_obs"])
    next_q = q_target(tf.concat([batch["next_obs"], next_act], axis=-1))
    y = tf.stop_gradient(batch["rew"] + gamma * (1 - batch["terminated"]) * next_q)
    error = q(tf.concat([batch["obs"], batch["act"]], axis=-1)) - y
    return tf.reduce_mean(error**2)


def pi_loss(q: QFunction, pi: Policy, batch: dict[str, tf.Tensor]) -> tf.Tensor:
    """L_pi."""
    return -tf.reduce_mean(q(tf.concat([batch["obs"], pi(batch["obs"])], axis=-1)))
