"""Gradient steps: one, and the loop of several that is compiled whole."""

from collections.abc import Callable, Iterable

import keras
import numpy as np
import tensorflow as tf
from keras.optimizers import Optimizer

from spinup_tf2.core.compiled import compiled
from spinup_tf2.core.nets import distributions
from spinup_tf2.core.nets.distributions import Distribution
from spinup_tf2.core.nets.recurrent import Sequences
from spinup_tf2.utils.mpi_tf import mpi_avg_grads, mpi_avg_scalars

do_not_convert = tf.autograph.experimental.do_not_convert  # what is called in AutoGraph's loop

Batch = dict[str, tf.Tensor | Distribution | Sequences]
Info = dict[str, tf.Tensor]
Floats = dict[str, float]
LossFunction = Callable[[Batch], tuple[tf.Tensor, Info]]
Variables = Iterable[keras.Variable]
Steps = tuple[Floats, Floats, int]  # info before, info after, number
Renewed = Callable[[Batch, np.ndarray], Batch]


def adam(learning_rate: float, max_grad_norm: float | None = None) -> keras.optimizers.Adam:
    """Adam with Spinning Up's epsilon; gradients of larger norms are shortened to max_grad_norm."""
    return keras.optimizers.Adam(float(learning_rate), epsilon=1e-8, global_clipnorm=max_grad_norm)


def rmsprop(
    variables: Variables,
    learning_rate: float,
    epsilon: float = 1e-5,
    init: float = 0.0,
    max_grad_norm: float | None = None,
) -> keras.optimizers.RMSprop:
    """RMSprop as A2C uses it: rho 0.99, and epsilon under the square root.

    Args:
        variables: What is trained.
        learning_rate: Length of the steps.
        epsilon: Added to the running mean of squared gradients, before the root is taken.
        init: Where the running mean of squared gradients starts.
        max_grad_norm: Gradients with a longer global norm are shortened to it.
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
    """The rows `index` `[m]` of a batch; a scalar belongs to all rows and stays as it is.

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
    """One step of an optimizer down the gradient of a loss, as a part of a compiled function.

    With several MPI ranks it is one step on their batches together, and collective. Ranks hold
    equally many samples, so that the average of their gradients is that of the whole.

    Args:
        loss: Function `loss(batch) -> (loss, info)` of tensors; info is a dict of tensors to log.
        variables: What is trained.
        optimizer: A Keras optimizer.
        average_info: Whether info, then a dict of scalars, is averaged over ranks, together with
            the gradients. If not, it is that of this rank's samples.
    """

    def __init__(
        self,
        loss: LossFunction,
        variables: Variables,
        optimizer: Optimizer,
        average_info: bool = True,
    ):
        self.loss, self.variables, self.optimizer = loss, list(variables), optimizer
        self.average_info = average_info
        optimizer.build(self.variables)

    def __call__(self, batch: Batch, index: tf.Tensor | None = None) -> Info:
        """Take the step, on the rows `index` of the batch or on all; returns the loss' info."""
        grads, info = self.gradients(batch, index)
        self.apply(grads)
        return info

    @do_not_convert
    def evaluate(self, batch: Batch) -> Info:
        """The loss' info, averaged over ranks in float64, without a step."""
        return mpi_avg_scalars(self.loss(batch)[1])

    @do_not_convert
    def gradients(self, batch: Batch, index: tf.Tensor | None = None) -> tuple[list, Info]:
        """Gradients, zero for variables that the loss does not use, and the loss' info."""
        grads, info = self._gradients(batch, index)
        if not self.average_info:
            return mpi_avg_grads(grads), info
        averaged = mpi_avg_grads([*grads, *info.values()])
        return averaged[: len(grads)], dict(zip(info, averaged[len(grads) :], strict=True))

    def _gradients(self, batch, index=None):
        batch = batch if index is None else rows(batch, index)
        with tf.GradientTape() as tape:
            loss, info = self.loss(batch)
        sources = [variable.value for variable in self.variables]
        return tape.gradient(loss, sources, unconnected_gradients="zero"), info

    @do_not_convert
    def apply(self, grads: list[tf.Tensor]) -> None:
        """Let the optimizer change the variables."""
        self.optimizer.apply(grads, self.variables)


class GradientSteps:
    """Several gradient steps on one batch, stopped early on request.

        before, after, steps = gradient_steps(batch)
        before, after, passes = gradient_steps(batch, minibatches)

    Without minibatches, each step is taken on the whole batch. With them, `num_steps` counts passes
    over the batch, each of which takes a step on each of its minibatches. `before` and `after` are
    the loss' info as floats, averaged over ranks.

    The whole loop is one compiled call. Several MPI ranks stop at the same step.

    Args:
        loss: Function `loss(batch) -> (loss, info)` of tensors; info is a dict of scalars.
        variables: What is trained.
        optimizer: A Keras optimizer.
        num_steps: The most steps, or passes.
        stop: `stop(info) -> bool`, asked before each step or pass with the info of the whole batch:
            from a minibatch, KL divergences as small as those that matter cannot be told from
            noise. True ends the steps. None: never, and no time is spent on the info.
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
        self._compiled_passes = tf.function(self._passes)  # with AutoGraph: a loop over tensors

    def __call__(self, batch: Batch, minibatches: np.ndarray | None = None) -> Steps:
        """Take the steps; minibatches: `[passes, count, size]`, numbers of rows."""
        before, after, passes = self._compiled_passes(batch, minibatches)
        return floats(before), floats(after), int(passes)

    def step(self, batch: Batch) -> Floats:
        """Take a single step; returns the loss' info, averaged over ranks, from before it.

        Nothing but the gradient is computed: what counts where batches are small and many.
        """
        return floats(self._compiled_step(batch))

    def decay(self, progress: float) -> None:
        """Make the learning rate its initial value times 1 - progress."""
        self.optimizer.learning_rate = self.learning_rate * (1 - progress)

    def _passes(self, batch, minibatches):
        """The loop; without minibatches, a pass is one step."""
        step = self._step
        before = after = step.evaluate(batch)
        passes, stopped = tf.constant(0), self._stops(before)
        most = self.num_steps if minibatches is None else min(self.num_steps, minibatches.shape[0])
        while passes < most and not stopped:
            if minibatches is None:
                grads, info = step.gradients(batch)
                stopped = self._stops(info)
                if not stopped:
                    step.apply(grads)
                    passes += 1
            else:
                for index in minibatches[passes]:
                    step(batch, index)
                passes += 1
                if self.stop is not None:
                    after = step.evaluate(batch)
                    stopped = self._stops(after)
        if minibatches is None or self.stop is None:
            after = step.evaluate(batch)
        return before, after, passes

    def _stops(self, info):
        return tf.convert_to_tensor(self.stop is not None and self.stop(info))


def take_steps(
    gradient_steps: Iterable[GradientSteps],
    batch: Batch,
    minibatches: np.ndarray | None = None,
    renewed: Renewed | None = None,
) -> Steps:
    """Several GradientSteps on one batch: the info of all, and how many steps the first took.

    Args:
        gradient_steps: All steps of one are taken, then all of the next.
        batch, minibatches: As GradientSteps take them.
        renewed: `renewed(batch, minibatches of a pass [count, size])` gives the batch of that pass.
            Then all GradientSteps take their first pass, all take their second, and so on, each
            up to where it ends anyway. The info is that of the batch as it was in the first and in
            the last pass.
    """
    gradient_steps = [*gradient_steps]
    if renewed is None:
        return _together([steps(batch, minibatches) for steps in gradient_steps])
    if minibatches is None:  # a pass is a step on everything
        passes = max(steps.num_steps for steps in gradient_steps)
        minibatches = np.tile(np.arange(len(batch["adv"])), (max(passes, 1), 1, 1))
    return _together(_pass_by_pass(gradient_steps, batch, minibatches, renewed))


def _pass_by_pass(gradient_steps, batch, minibatches, renewed):
    results: list[Steps] = []
    for i, minibatch in enumerate(minibatches):
        of_pass = renewed(batch, minibatch)
        if i == 0:
            results = [steps(of_pass, minibatch[None]) for steps in gradient_steps]
            continue
        for k, (steps, (before, _, passes)) in enumerate(zip(gradient_steps, results, strict=True)):
            if passes == i < steps.num_steps:  # it did not stop
                _, after, more = steps(of_pass, minibatch[None])
                results[k] = before, after, passes + more
    return results


def _together(results):
    before = {key: x for info, _, _ in results for key, x in info.items()}
    after = {key: x for _, info, _ in results for key, x in info.items()}
    return before, after, results[0][2]


def loss_columns(before: Floats, after: Floats) -> Floats:
    """What an update did to the losses of policy and value function, as it is logged."""
    losses = {key: before[key] for key in ("LossPi", "LossV")}
    return losses | {f"Delta{key}": after[key] - before[key] for key in losses}


def floats(info: Info) -> Floats:
    """A dict of scalars, of a compiled function, as floats."""
    return {key: float(value) for key, value in info.items()}
