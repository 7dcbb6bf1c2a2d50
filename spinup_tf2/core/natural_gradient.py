"""The pieces of a natural-gradient step: conjugate gradients, Fisher-vector products."""

from collections.abc import Callable, Iterable

import keras
import numpy as np
import tensorflow as tf

from spinup_tf2.core.gradient_steps import Loss, floats
from spinup_tf2.core.nets.layers import compiled
from spinup_tf2.parallel.mpi import broadcast_object
from spinup_tf2.parallel.tensors import (
    assign_params_from_flat,
    flat_concat,
    mpi_avg_grads,
    mpi_avg_scalars,
)


def conjugate_gradient(
    product: Callable[[np.ndarray], np.ndarray], b: np.ndarray, num_iters: int
) -> np.ndarray:
    """Solve H x = b by conjugate gradients from x = 0, in float64.

    See Nocedal & Wright (2006), algorithm 5.2. The iterations end early if the residual is
    negligible, so that b = 0 gives x = 0 (and not 0 / 0), or if the curvature is not positive.

    Args:
        product: Function `product(v) -> H v`, for a positive definite H.
        b: The right-hand side, `[n]`.
        num_iters: The maximum number of iterations.

    Returns:
        x, float64 `[n]`.
    """
    b = np.asarray(b, np.float64)
    x = np.zeros_like(b)
    residual, direction = b, b
    error = _of_rank_0(residual @ residual)
    smallest = 1e-10 * error  # products in float32 allow no better solution
    for _ in range(num_iters):
        if error <= smallest:
            break
        h_direction = product(direction)
        curvature = _of_rank_0(direction @ h_direction)
        if curvature <= 0:
            break
        alpha = error / curvature
        x = x + alpha * direction
        residual = residual - alpha * h_direction
        last_error, error = error, _of_rank_0(residual @ residual)
        direction = residual + error / last_error * direction
    return x


def _of_rank_0(number):
    # Processors of different kinds round differently, and all ranks must end at the same iteration.
    return broadcast_object(float(number))


class PolicyObjective:
    """A policy's loss and KL divergence as functions of its flattened parameters `[n]`.

    Each method runs one compiled function, whose results are averaged over MPI ranks. Because ranks
    hold equally many samples, these are the results for the whole batch, the same on all ranks.

    Args:
        loss: Function `loss(batch) -> (loss, info)` of tensors; info is a dict of scalars, in which
            'KL' is the mean KL divergence between the policy that acted and the current one.
        variables: The parameters of the policy.
    """

    def __init__(self, loss: Callable[[dict], Loss], variables: Iterable[keras.Variable]):
        self.loss = loss
        self.variables = list(variables)
        self._compiled_evaluate = compiled(self._evaluate)
        self._compiled_gradient = compiled(self._gradient)
        self._compiled_fisher_product = compiled(self._fisher_product)

    @property
    def params(self) -> np.ndarray:
        """All parameters, `[n]` in float32."""
        return flat_concat(self.variables).numpy()

    @params.setter
    def params(self, flat: np.ndarray) -> None:
        assign_params_from_flat(np.asarray(flat, np.float32), self.variables)

    def evaluate(self, batch: dict) -> dict[str, float]:
        """Return the loss's info."""
        return floats(self._compiled_evaluate(batch))

    def gradient(self, batch: dict) -> tuple[np.ndarray, dict[str, float]]:
        """Return the gradient of the loss `[n]` and the loss's info."""
        gradient, info = self._compiled_gradient(batch)
        return gradient.numpy(), floats(info)

    def fisher_product(self, batch: dict, vector: np.ndarray) -> np.ndarray:
        """Return F v `[n]`: the Hessian of the KL divergence in the parameters, times `vector`.

        As long as the policy is the one that acted, this is the Fisher information matrix.
        """
        return self._compiled_fisher_product(batch, tf.cast(vector, tf.float32)).numpy()

    def _evaluate(self, batch):
        return mpi_avg_scalars(self.loss(batch)[1])

    def _gradient(self, batch):
        with tf.GradientTape() as tape:
            loss, info = self.loss(batch)
        [gradient] = mpi_avg_grads([self._flat_gradient(tape, loss)])
        return gradient, mpi_avg_scalars(info)

    def _fisher_product(self, batch, vector):
        """Compute F v as the gradient of (gradient of KL) . v (Pearlmutter 1994), without F."""
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                _, info = self.loss(batch)
            slope = tf.tensordot(self._flat_gradient(inner, info["KL"]), vector, 1)
        return mpi_avg_grads([self._flat_gradient(outer, slope)])[0]

    def _flat_gradient(self, tape, y):
        """Return the flat gradient of y; it is zero for variables on which y does not depend."""
        variables = [v.value for v in self.variables]
        return flat_concat(tape.gradient(y, variables, unconnected_gradients="zero"))
