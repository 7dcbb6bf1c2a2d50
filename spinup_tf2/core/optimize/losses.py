"""Losses and targets of value functions and Q-functions."""

import keras
import tensorflow as tf

from spinup_tf2.core.gradient_steps import GradientSteps, Variables, adam

# A scalar to minimize, and the info to log.
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
    """Return the target of a Q-function, R + gamma (1 - terminated) V(s'). All [batch].

    No gradient flows through it. Only a terminal state ends the sum; a time limit does not.
    """
    return tf.stop_gradient(rew + gamma * tf.where(terminated, 0.0, next_val))


def value_regression(
    v: keras.Model,
    learning_rate: float,
    num_steps: int,
    max_grad_norm: float | None = None,
    variables: Variables | None = None,
) -> GradientSteps:
    """Return GradientSteps that fit `v` to ret of a batch: `num_steps` of Adam on the value loss.

    Args:
        v: The value function.
        learning_rate: Adam's learning rate.
        num_steps: Number of steps, or of passes if there are minibatches.
        max_grad_norm: Global norm to which longer gradients are clipped; None: no clipping.
        variables: The variables of `v` to train; None: all.
    """
    return GradientSteps(
        lambda batch: value_loss(v(batch["obs"]), batch["ret"]),
        v.trainable_variables if variables is None else variables,
        adam(learning_rate, max_grad_norm),
        num_steps,
    )
