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

import tensorflow as tf


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
    raise NotImplementedError


def backup(
    rew: tf.Tensor, terminated: tf.Tensor, next_q1: tf.Tensor, next_q2: tf.Tensor, gamma: float
) -> tf.Tensor:
    """Return y, through which no gradient flows. All are [batch]; terminated is float32, 1 or 0."""
    raise NotImplementedError


def q_loss(q1: tf.Tensor, q2: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Return L_Q, a scalar. The arguments are [batch]."""
    raise NotImplementedError


def pi_loss(q1_pi: tf.Tensor) -> tf.Tensor:
    """Return L_pi, a scalar. q1_pi is Q_1(s, pi(s)), [batch]."""
    raise NotImplementedError
