"""Gradient steps: a single one, and a loop of several that is compiled as a whole."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.optimizers import Optimizer

from spinup_tf2.core.nets import distributions
from spinup_tf2.core.nets.compiled import compiled
from spinup_tf2.core.nets.distributions import Distribution
from spinup_tf2.core.nets.recurrent import Sequences
from spinup_tf2.utils.logx import number_in
from spinup_tf2.utils.mpi_tf import mpi_avg_grads, mpi_avg_scalars

do_not_convert = tf.autograph.experimental.do_not_convert  # for calls in AutoGraph's loops

Batch = dict[str, tf.Tensor | Distribution | Sequences]
Info = dict[str, tf.Tensor]
Floats = dict[str, float]
LossFunction = Callable[[Batch], tuple[tf.Tensor, Info]]
Variables = Iterable[keras.Variable]
Steps = tuple[Floats, Floats, int]  # info before, info after, number of steps or passes


def adam(learning_rate: float, max_grad_norm: float | None = None) -> keras.optimizers.Adam:
    """Return Adam with Spinning Up's epsilon, clipping global gradient norms to max_grad_norm."""
    return keras.optimizers.Adam(float(learning_rate), epsilon=1e-8, global_clipnorm=max_grad_norm)


def rmsprop(
    variables: Variables,
    learning_rate: float,
    epsilon: float = 1e-5,
    init: float = 0.0,
    max_grad_norm: float | None = None,
) -> keras.optimizers.RMSprop:
    """Return RMSprop as A2C uses it: with rho 0.99, and epsilon under the square root.

    Args:
        variables: The variables to train.
        learning_rate: The learning rate.
        epsilon: Added to the running mean of squared gradients before the root is taken.
        init: Initial value of the running mean of squared gradients.
        max_grad_norm: Global norm to which longer gradients are clipped; None: no clipping.
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
    """Return the rows `index` `[m]` of a batch; scalars belong to all rows and are kept.

    With a memory, a row is a segment.
    """

    def rows_of(x):
        if isinstance(x, Distribution):
            return distributions.rows(x, index)
        if isinstance(x, Sequences):
            return Sequences(*map(rows_of, x))
        return tf.gather(x, index) if x.shape.rank > 0 else x

    return {key: rows_of(x) for key, x in batch.items()}


class GradientStep:
    """One step of an optimizer on a loss, as a part of a compiled function.

    With several MPI ranks, it is one step on all of their batches together, and a collective call.
    Ranks hold equally many samples, so that the mean of their gradients is that of the whole.

    Args:
        loss: Function `loss(batch) -> (loss, info)` of tensors; info is a dict of scalars to log.
        variables: The variables to train.
        optimizer: A Keras optimizer.
    """

    def __init__(self, loss: LossFunction, variables: Variables, optimizer: Optimizer):
        self.loss, self.variables, self.optimizer = loss, list(variables), optimizer
        optimizer.build(self.variables)

    def __call__(self, batch: Batch) -> Info:
        """Take the step; return the loss's info, averaged over ranks."""
        [(grads, info)] = gradients_of([self], batch)
        self.apply(grads)
        return info

    @do_not_convert
    def evaluate(self, batch: Batch) -> Info:
        """Return the loss's info, averaged over ranks in float64, without taking a step."""
        return mpi_avg_scalars(self.loss(batch)[1])

    def _gradients(self, batch, index=None):
        # For this rank's samples; zero for variables that the loss does not use.
        batch = batch if index is None else rows(batch, index)
        with tf.GradientTape() as tape:
            loss, info = self.loss(batch)
        sources = [variable.value for variable in self.variables]
        return tape.gradient(loss, sources, unconnected_gradients="zero"), info

    @do_not_convert
    def apply(self, grads: list[tf.Tensor]) -> None:
        """Let the optimizer update the variables."""
        self.optimizer.apply(grads, self.variables)


@do_not_convert
def gradients_of(
    steps: Sequence[GradientStep], batch: Batch, index: tf.Tensor | None = None
) -> list[tuple[list, Info]]:
    """Return gradients and info of several steps, averaged over ranks in a single message."""
    parts = [step._gradients(batch, index) for step in steps]
    numbers = [
        number
        for grads, info in parts
        for number in (*grads, *(tf.cast(x, tf.float32) for x in info.values()))
    ]
    averaged = iter(mpi_avg_grads(numbers))
    return [
        ([next(averaged) for _ in grads], {key: next(averaged) for key in info})
        for grads, info in parts
    ]


class GradientSteps:
    """Several gradient steps on one batch, with optional early stopping.

        before, after, steps = gradient_steps(batch)
        before, after, passes = gradient_steps(batch, minibatches)

    Without minibatches, each step is taken on the whole batch. With them, `num_steps` counts passes
    over the batch, each of which takes a step on each of its minibatches. `before` and `after` are
    the loss's info as floats, averaged over ranks.

    The whole loop is one compiled call. All MPI ranks stop at the same step.

    Args:
        loss: Function `loss(batch) -> (loss, info)` of tensors; info is a dict of scalars.
        variables: The variables to train.
        optimizer: A Keras optimizer.
        num_steps: The maximum number of steps, or passes.
        stop: Function `stop(info) -> bool` that is called before each step or pass with the info of
            the whole batch (in a minibatch, the small KL divergences that matter are lost in the
            noise); True ends the steps. None: they never end early, and no time is spent on this.

    Attributes:
        compiled_passes: The compiled loops, by the GradientSteps that are taken side by side.
    """

    def __init__(
        self,
        loss: LossFunction,
        variables: Variables,
        optimizer: Optimizer,
        num_steps: int,
        stop: Callable[[dict], bool] | None = None,
    ):
        self.num_steps, self.stop = num_steps, stop
        self._step = GradientStep(loss, variables, optimizer)
        self.variables, self.optimizer = self._step.variables, optimizer
        self.learning_rate = float(optimizer.learning_rate)
        self._compiled_step = compiled(self._step.__call__)
        self._compiled_info = compiled(self._step.evaluate)
        self.compiled_passes: dict[tuple[GradientSteps, ...], Callable] = {}

    def __call__(self, batch: Batch, minibatches: np.ndarray | None = None) -> Steps:
        """Take the steps; `minibatches` `[passes, count, size]` holds row numbers of the batch."""
        return self.beside((), batch, minibatches)[0]

    def beside(
        self,
        others: Sequence["GradientSteps"],
        batch: Batch,
        minibatches: np.ndarray | None = None,
    ) -> list[Steps]:
        """Take these steps and, side by side, others on other variables; return all results.

        The results are the same as one after the other. But the gradients of a pass are computed in
        parallel, and averaged over ranks in one message.
        """
        several = (self, *others)
        if several not in self.compiled_passes:  # with AutoGraph: loops over tensors
            self.compiled_passes[several] = compiled(partial(_passes, several), autograph=True)
        results = self.compiled_passes[several](batch, minibatches)
        return [(floats(before), floats(after), int(passes)) for before, after, passes in results]

    def step(self, batch: Batch) -> Floats:
        """Take a single step; return the loss's info before it, averaged over ranks.

        Nothing but the gradient is computed, which matters for many small batches.
        """
        return floats(self._compiled_step(batch))

    def info(self, batch: Batch) -> Floats:
        """Return the loss's info, averaged over ranks, without taking a step."""
        return floats(self._compiled_info(batch))

    def decay(self, progress: float) -> None:
        """Set the learning rate to its initial value times 1 - progress."""
        self.optimizer.learning_rate = self.learning_rate * (1 - progress)

    def stops(self, info: Info) -> tf.Tensor:
        """Return whether to stop, given the info of the loss."""
        return tf.convert_to_tensor(self.stop is not None and self.stop(info))


def _passes(several, batch, minibatches):
    """Run the loops of several GradientSteps; return (before, after, passes) of each.

    As long as none of them has ended, all take their passes together; then each continues alone.
    """
    before = [each._step.evaluate(batch) for each in several]
    over = [each.stops(info) for each, info in zip(several, before, strict=True)]
    most = [each.num_steps for each in several]
    if minibatches is not None:
        most = [min(number, minibatches.shape[0]) for number in most]
    passes = [tf.constant(0) for _ in several]
    if len(several) > 1:
        while passes[0] < min(most) and not tf.reduce_any(over):
            taken, over = _pass(several, passes[0], batch, minibatches)
            passes = [number + one for number, one in zip(passes, taken, strict=True)]
    results = []
    for i, each in enumerate(several):
        number, stopped = passes[i], over[i]
        while number < most[i] and not stopped:
            [one], [stopped] = _pass([each], number, batch, minibatches)
            number += one
        results.append((before[i], each._step.evaluate(batch), number))
    return results


def _pass(several, number, batch, minibatches):
    """Take pass `number` of each GradientSteps, unless it stops before.

    Without minibatches, a pass is one step.

    Returns:
        For each, the number of passes it took, 0 or 1, and whether it has stopped.
    """
    steps = [each._step for each in several]
    if minibatches is None:
        gradients = gradients_of(steps, batch)
        over = [each.stops(info) for each, (_, info) in zip(several, gradients, strict=True)]
        for step, (grads, _), stopped in zip(steps, gradients, over, strict=True):
            if not stopped:
                step.apply(grads)
        return [1 - tf.cast(stopped, tf.int32) for stopped in over], over
    for index in minibatches[number]:
        for step, (grads, _) in zip(steps, gradients_of(steps, batch, index), strict=True):
            step.apply(grads)
    over = [each.stops({} if each.stop is None else each._step.evaluate(batch)) for each in several]
    return [tf.constant(1) for _ in several], over


def floats(info: Mapping[str, Any]) -> Floats:
    """Convert a dict of scalars from a compiled function to floats."""
    return {key: float(number_in(key, value)) for key, value in info.items()}
