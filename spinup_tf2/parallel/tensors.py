"""Parameters and gradients across MPI ranks; with one process, there is no communication."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from spinup_tf2.parallel.mpi import broadcast, mpi_avg, mpi_op, num_procs


def flat_concat(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Concatenate all elements of a list of tensors into one vector."""
    return tf.concat([tf.reshape(x, [-1]) for x in tensors], axis=0)


def split_flat(flat: np.ndarray | tf.Tensor, like: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Split a vector into a list of tensors shaped like those in `like`; inverse of flat_concat."""
    parts = tf.split(flat, [int(np.prod(x.shape)) for x in like])
    return [tf.reshape(part, x.shape) for part, x in zip(parts, like, strict=True)]


def assign_params_from_flat(flat: np.ndarray | tf.Tensor, params: Sequence[keras.Variable]) -> None:
    """Write a vector into a list of variables."""
    for param, value in zip(params, split_flat(flat, params), strict=True):
        param.assign(value)


def sync_params(params: Sequence[keras.Variable]) -> None:
    """Give every rank the parameters of rank 0."""
    if num_procs() > 1:
        _order()  # created now, because doing so during compilation would cause a second one
        flat = flat_concat(params).numpy()
        broadcast(flat)
        assign_params_from_flat(flat, params)


def check_params(params: Sequence[keras.Variable], tolerance: float = 1e-4) -> None:
    """Check that variables are the same on all ranks, as data-parallel training requires.

    Processors of different kinds may round differently: if variables differ by no more than
    `tolerance` (relative to values above 1), all are replaced by those of rank 0. Larger
    differences mean that the ranks no longer train the same policy. Collective.

    `finite.check_variables` checks whether they are finite; here, NaN or an infinity only counts as
    a difference if rank 0 has another value.

    Args:
        params: All variables that ranks have in common, including the state of optimizers and
            variables that are not trained.
        tolerance: The largest difference, absolute or relative to values above 1.

    Raises:
        RuntimeError: On every rank, if the variables of any rank differ by more.
    """
    if num_procs() == 1:
        return
    # Counts and statistics are not float32; float64 holds all of them exactly.
    flat = np.concatenate([np.ravel(param).astype(np.float64) for param in params])
    root = flat.copy()
    broadcast(root)
    same = (flat == root) | (np.isnan(flat) & np.isnan(root))
    with np.errstate(invalid="ignore"):
        distance = np.where(same, 0, np.abs(flat - root) / np.maximum(1, np.abs(root)))
    distance[np.isnan(distance)] = np.inf
    difference = float(mpi_op(float(distance.max(initial=0)), "MAX"))
    if difference > tolerance:
        raise RuntimeError(
            f"The parameters of the MPI ranks differ by up to {difference:g}. Every rank must take "
            "the same gradient steps: average gradients with mpi_avg_grads, and seed initializers "
            "alike or call sync_params once."
        )
    if difference > 0:
        ends = np.cumsum([param.numpy().size for param in params])
        for param, value in zip(params, np.split(root, ends[:-1]), strict=True):
            param.assign(value.reshape(param.shape).astype(param.numpy().dtype))


def mpi_avg_grads(grads: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Average gradients, or other tensors of one dtype, over all ranks. Collective.

    It takes one Allreduce of a flat vector. It also works in a compiled function, which calls back
    to Python, except with XLA.
    """
    grads = list(grads)
    if num_procs() == 1 or not grads:
        return grads
    flat, order = flat_concat(grads), _order()
    average, turn = tf.numpy_function(
        lambda x, turn: (mpi_avg(x), turn), [flat, order], [flat.dtype, order.dtype]
    )
    order.assign(turn)
    average.set_shape(flat.shape)  # numpy_function does not know it
    return split_flat(average, grads)


def mpi_avg_scalars(scalars: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Average a dict of scalars over all ranks in float64, in one message; see mpi_avg_grads."""
    averages = mpi_avg_grads([tf.cast(x, tf.float64) for x in scalars.values()])
    return dict(zip(scalars, averages, strict=True))


@cache
def _order():
    """Return a variable that is read before each message and written after it.

    All ranks must send their messages in the same order, and TensorFlow keeps the order in which a
    variable is used.
    """
    with tf.init_scope():
        return tf.Variable(0, trainable=False)


class MpiAdamOptimizer(keras.optimizers.Adam):
    """Adam with Spinning Up's epsilon, whose `apply` first averages gradients over all ranks.

        optimizer = MpiAdamOptimizer(learning_rate=1e-3)
        optimizer.apply(tape.gradient(loss, variables), variables)

    It also works in a compiled function, except with XLA.
    """

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule = 1e-3,
        epsilon: float = 1e-8,
        **kwargs: Any,
    ):
        super().__init__(learning_rate=learning_rate, epsilon=epsilon, **kwargs)

    def apply(
        self,
        grads: Iterable[tf.Tensor],
        trainable_variables: Sequence[keras.Variable] | None = None,
    ) -> None:
        return super().apply(mpi_avg_grads(grads), trainable_variables)
