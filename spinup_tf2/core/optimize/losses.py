"""What value functions and Q-functions are fitted to."""

import keras
import tensorflow as tf

from spinup_tf2.core.optimize.gradient_steps import GradientSteps, Variables, adam

# A scalar to minimize, and what is logged of it.
Loss = tuple[tf.Tensor, dict[str, tf.Tensor]]


def value_loss(val: tf.Tensor, ret: tf.Tensor) -> Loss:
    """Mean squared error of the values against their targets. Both [batch].

    L = E[(ret - V(s))^2]
    """
    loss = tf.reduce_mean(tf.square(ret - val))
    return loss, dict(LossV=loss)


def bellman_backup(
    rew: tf.Tensor, terminated: tf.Tensor, next_val: tf.Tensor, gamma: float
) -> tf.Tensor:
    """What a Q-function is fitted to, as a constant: R + gamma (1 - terminated) V(s'). All [batch].

    Only a terminal state ends the sum: a time limit does not.
    """
    return tf.stop_gradient(rew + gamma * tf.where(terminated, 0.0, next_val))


def value_regression(
    v: keras.Model,
    learning_rate: float,
    num_steps: int,
    max_grad_norm: float | None = None,
    variables: Variables | None = None,
) -> GradientSteps:
    """`num_steps` of Adam on the value loss; called with a batch of obs and ret.

    Args:
        variables: Those of `v` that are trained; None: all.
    """
    return GradientSteps(
        lambda batch: value_loss(v(batch["obs"]), batch["ret"]),
        v.trainable_variables if variables is None else variables,
        adam(learning_rate, max_grad_norm),
        num_steps,
    )
