"""The backup and the loss of DQN (Mnih et al. 2015) with double Q-learning (van Hasselt 2016).

A network gives the values of all actions at once. In the backup, the network that is trained, Q,
chooses the next action, and the target network, Q', says what it is worth:

    a* = argmax_a Q(s', a)
    y = R + gamma (1 - terminated) Q'(s', a*)      a constant

The loss is quadratic for small errors and linear for large ones, so that no transition pulls harder
than with slope 1:

    L = mean(h(Q(s, a) - y)),    h(x) = x^2 / 2 where |x| <= 1, otherwise |x| - 1/2
"""

import tensorflow as tf


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
    raise NotImplementedError


def q_loss(q: tf.Tensor, act: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Return L, a scalar.

    Args:
        q: Q(s, a) of all actions a, [batch, num_actions].
        act: The actions that were taken, whole numbers, [batch].
        y: The backups, [batch].
    """
    raise NotImplementedError
