"""How several gradient steps are compiled, and averaged over MPI ranks."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import keras
import numpy as np
import tensorflow as tf

from spinup_tf2.core.nets import distributions
from spinup_tf2.core.nets.distributions import Distribution
from spinup_tf2.parallel.mpi import mpi_avg, num_procs
from spinup_tf2.utils.mpi_tf import flat_concat, split_flat

Batch = TypeVar("Batch", tf.Tensor, Distribution, dict)


def adam(learning_rate: float, max_grad_norm: float | None = None) -> keras.optimizers.Adam:
    """Adam as Spinning Up uses it: epsilon 1e-8 (Keras' default is 1e-7).

    max_grad_norm: gradients with a longer global norm are shortened to it.
    """
    return keras.optimizers.Adam(float(learning_rate), epsilon=1e-8, global_clipnorm=max_grad_norm)


def rmsprop(
    variables: Iterable[keras.Variable],
    learning_rate: float,
    epsilon: float = 1e-5,
    init: float = 0.0,
    max_grad_norm: float | None = None,
) -> keras.optimizers.RMSprop:
    """RMSprop as A2C uses it: rho 0.99, and epsilon under the square root.

    epsilon: added to the running mean of squared gradients, before the root is taken.
    init: where the running mean of squared gradients starts.
    max_grad_norm: gradients with a longer global norm are shortened to it.
    """
    optimizer = keras.optimizers.RMSprop(
        float(learning_rate), rho=0.99, epsilon=float(epsilon), global_clipnorm=max_grad_norm
    )
    optimizer.build(list(variables))
    for variable in optimizer.variables:
        if variable.name.endswith("velocity"):
            variable.assign(tf.fill(variable.shape, float(init)))
    return optimizer


def rows(batch: Batch, index: tf.Tensor) -> Batch:
    """The rows `index` `[m]` of a batch: a tensor, a distribution, or a dict of these.

    A scalar belongs to all rows and stays as it is.
    """
    if isinstance(batch, dict):
        return {key: rows(x, index) for key, x in batch.items()}
    if isinstance(batch, Distribution):
        return distributions.rows(batch, index)
    return tf.gather(batch, index) if batch.shape.rank > 0 else batch


def gradients(
    loss: Callable[[Batch], tuple[tf.Tensor, dict[str, tf.Tensor]]],
    batch: Batch,
    variables: Iterable[keras.Variable],
) -> tuple[list[tf.Tensor], tf.Tensor, dict[str, tf.Tensor]]:
    """Gradients of a loss with respect to variables, zero for those that it does not use.

    loss: a function `loss(batch) -> (loss, info)`. Returns `(gradients, loss, info)`.
    """
    with tf.GradientTape() as tape:
        value, info = loss(batch)
    sources = [variable.value for variable in variables]
    zero = tf.UnconnectedGradients.ZERO
    return tape.gradient(value, sources, unconnected_gradients=zero), value, info


class GradientSteps:
    """`num_steps` gradient steps on one batch, stopped early on request.

        before, after, steps = gradient_steps(batch)

    loss: a function `loss(batch) -> (loss, info)` of tensors; info is a dict of scalars.
    variables: what is trained.
    optimizer: a Keras optimizer.
    stop: `stop(info) -> bool`, asked before each step; True ends the steps (None: never).

        before, after, passes = gradient_steps(batch, minibatches)

    minibatches: `[num_steps or more, count, size]`, numbers of rows of the batch. Now `num_steps`
        counts passes over the batch, each of which takes a step on each of its `count` minibatches.
        `stop` is asked before each pass, with the info of the whole batch: from a minibatch, KL
        divergences as small as those that matter cannot be told from noise.

    In one process all steps are one compiled call. With several MPI ranks, each step is a compiled
    piece that computes gradients, one Allreduce of gradients and info in a single flat vector (a
    call to MPI cannot sit inside a compiled function), and a compiled piece that applies them.
    Ranks hold equally many samples, so that the average over ranks is the gradient of the whole
    batch, and all ranks take the same steps and stop at the same one.
    """

    def __init__(
        self,
        loss: Callable[[dict[str, tf.Tensor]], tuple[tf.Tensor, dict[str, tf.Tensor]]],
        variables: Iterable[keras.Variable],
        optimizer: keras.optimizers.Optimizer,
        num_steps: int,
        stop: Callable[[dict], bool] | None = None,
    ):
        self.loss = loss
        self.variables = list(variables)
        self.optimizer = optimizer
        self.num_steps = num_steps
        self.stop = stop
        optimizer.build(self.variables)
        self.learning_rate = float(optimizer.learning_rate)
        # One compiled function each, bound to this object.
        self._compiled_steps = tf.function(self._steps)
        self._compiled_passes = tf.function(self._passes)
        self._compiled_step = tf.function(self._step)
        self._compiled_evaluate = tf.function(self._evaluate)
        self._compiled_gradients = tf.function(self._flat_gradients_and_info)
        self._compiled_apply = tf.function(self._apply_flat)

    def __call__(
        self, batch: dict, minibatches: np.ndarray | None = None
    ) -> tuple[dict[str, float], dict[str, float], int]:
        """Take the steps on `batch`, a dict of tensors and distributions.

        Returns `(before, after, steps)`: loss (as 'Loss') and info as floats, averaged over ranks,
        before the first and after the last step, and how many steps (or passes) were taken.
        """
        one_process = num_procs() == 1
        if minibatches is None:
            run = self._compiled_steps if one_process else self._steps_over_ranks
            before, after, steps = run(batch)
        else:
            run = self._compiled_passes if one_process else self._passes_over_ranks
            before, after, steps = run(batch, tf.constant(minibatches))
        return _floats(before), _floats(after), int(steps)

    def decay(self, progress: float) -> None:
        """Make the learning rate its initial value times 1 - progress."""
        self.optimizer.learning_rate = self.learning_rate * (1 - progress)

    def step(self, batch: dict[str, tf.Tensor]) -> dict[str, float]:
        """Take a single step; returns loss (as 'Loss') and info from before it.

        Nothing but the gradient is computed: what counts where batches are small and many.
        """
        run = self._compiled_step if num_procs() == 1 else self._step_over_ranks
        return _floats(run(batch))

    def _stops(self, info):
        return self.stop is not None and self.stop(info)

    def _evaluate(self, batch):
        loss, info = self.loss(batch)
        return {"Loss": loss, **info}

    def _gradients(self, batch):
        grads, loss, info = gradients(self.loss, batch, self.variables)
        return grads, {"Loss": loss, **info}

    def _steps(self, batch):
        """All steps in one graph."""
        before = self._evaluate(batch)
        steps, stopped = tf.constant(0), tf.constant(False)
        while steps < self.num_steps and not stopped:
            grads, info = self._gradients(batch)
            stopped = tf.convert_to_tensor(self._stops(info))
            if not stopped:
                self.optimizer.apply(grads, self.variables)
                steps += 1
        return before, self._evaluate(batch), steps

    def _passes(self, batch, minibatches):
        """All passes in one graph."""
        before = info = self._evaluate(batch)
        passes = tf.constant(0)
        while passes < self.num_steps and not tf.convert_to_tensor(self._stops(info)):
            for index in minibatches[passes]:
                self._step(rows(batch, index))
            if self.stop is not None:
                info = self._evaluate(batch)
            passes += 1
        return before, self._evaluate(batch) if self.stop is None else info, passes

    def _step(self, batch):
        grads, info = self._gradients(batch)
        self.optimizer.apply(grads, self.variables)
        return info

    def _steps_over_ranks(self, batch):
        """The same steps, with one Allreduce in each."""
        before = self._evaluate_over_ranks(batch)
        steps = 0
        while steps < self.num_steps:
            flat, info = self._averaged_gradients(batch)
            if self._stops(info):
                break
            self._compiled_apply(flat)
            steps += 1
        return before, self._evaluate_over_ranks(batch), steps

    def _passes_over_ranks(self, batch, minibatches):
        before = info = self._evaluate_over_ranks(batch)
        passes = 0
        while passes < self.num_steps and not self._stops(info):
            for index in minibatches[passes]:
                flat, _ = self._averaged_gradients(batch, index)
                self._compiled_apply(flat)
            if self.stop is not None:
                info = self._evaluate_over_ranks(batch)
            passes += 1
        return before, self._evaluate_over_ranks(batch) if self.stop is None else info, passes

    def _step_over_ranks(self, batch):
        flat, info = self._averaged_gradients(batch)
        self._compiled_apply(flat)
        return info

    def _averaged_gradients(self, batch, index=None):
        flat, info = self._compiled_gradients(batch, index)
        averaged = mpi_avg(tf.concat([flat, tf.stack(list(info.values()))], 0).numpy())
        return averaged[: len(flat)], dict(zip(info, averaged[len(flat) :], strict=True))

    def _evaluate_over_ranks(self, batch):
        return {k: mpi_avg(float(x)) for k, x in self._compiled_evaluate(batch).items()}

    def _flat_gradients_and_info(self, batch, index):
        grads, info = self._gradients(batch if index is None else rows(batch, index))
        return flat_concat(grads), info

    def _apply_flat(self, flat):
        self.optimizer.apply(split_flat(flat, self.variables), self.variables)


def take_steps(
    gradient_steps: Iterable[GradientSteps], batch: dict, minibatches: np.ndarray | None = None
) -> tuple[dict[str, float], dict[str, float], int]:
    """Several GradientSteps on one batch, one after the other.

    Returns `(before, after, steps)` of GradientSteps, with the info of all in one dict, and `steps`
    of the first.
    """
    results = [steps(batch, minibatches) for steps in gradient_steps]
    before, after = ({k: x for r in results for k, x in r[i].items()} for i in (0, 1))
    return before, after, results[0][2]


def loss_columns(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """What an update did to the losses of policy and value function, as it is logged.

    Args:
        before, after: LossPi and LossV.
    """
    return dict(
        LossPi=before["LossPi"],
        LossV=before["LossV"],
        DeltaLossPi=after["LossPi"] - before["LossPi"],
        DeltaLossV=after["LossV"] - before["LossV"],
    )


def _floats(info):
    return {key: float(value) for key, value in info.items()}
