"""Gradient steps on one batch, in one compiled call and over all MPI ranks."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.optimizers import Optimizer

from spinup_tf2.core.nets import distributions
from spinup_tf2.core.nets.distributions import Distribution
from spinup_tf2.core.nets.layers import compiled
from spinup_tf2.core.nets.recurrent import Sequences
from spinup_tf2.core.trajectories import normalized_in_minibatches
from spinup_tf2.parallel.tensors import mpi_avg_grads, mpi_avg_scalars

plain = tf.autograph.experimental.do_not_convert  # for what AutoGraph's loops call

Batch = dict[str, tf.Tensor | Distribution | Sequences]
Info = dict[str, tf.Tensor]
Floats = dict[str, float]
Loss = tuple[tf.Tensor, Info]  # a scalar to minimize, and what to log
Renewed = Callable[[np.ndarray], Mapping[str, np.ndarray]]


def value_loss(val: tf.Tensor, ret: tf.Tensor) -> Loss:
    """Mean squared error of the values against their targets. Both [batch].

    L = E[(ret - V(s))^2]
    """
    loss = tf.reduce_mean(tf.square(ret - val))
    return loss, dict(LossV=loss)


def adam(learning_rate: float, max_grad_norm: float | None = None) -> keras.optimizers.Adam:
    """Return Adam with Spinning Up's epsilon, clipping global gradient norms to max_grad_norm."""
    return keras.optimizers.Adam(float(learning_rate), epsilon=1e-8, global_clipnorm=max_grad_norm)


def rmsprop(
    variables: Iterable[keras.Variable],
    learning_rate: float,
    decay: float = 0.99,
    epsilon: float = 1e-5,
    init: float = 0.0,
    max_grad_norm: float | None = None,
) -> keras.optimizers.RMSprop:
    """Return RMSprop as A2C uses it, with epsilon under the square root.

    Args:
        variables: The variables to train.
        learning_rate: The learning rate.
        decay: Decay of the running mean of squared gradients.
        epsilon: Added to the running mean of squared gradients before the root is taken.
        init: Initial value of the running mean of squared gradients.
        max_grad_norm: Global norm to which longer gradients are clipped; None: no clipping.
    """
    optimizer = keras.optimizers.RMSprop(
        float(learning_rate),
        **dict(rho=float(decay), epsilon=float(epsilon), global_clipnorm=max_grad_norm),
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


class GradientSteps:
    """`num_steps` steps on a loss, or passes over its minibatches, with optional early stopping.

    With several MPI ranks, each is one step on all of their batches together. Ranks hold equally
    many samples, so that the mean of their gradients is that of the whole, and all of them stop at
    the same step.

    Args:
        loss: Function `loss(batch) -> (loss, info)` of tensors; info is a dict of scalars to log.
        trained: The variables to train.
        optimizer: A Keras optimizer.
        num_steps: The maximum number of steps, or passes.
        stop: Function `stop(info) -> bool` that is called before each step or pass with the info of
            the whole batch (in a minibatch, the small KL divergences that matter are lost in the
            noise); True ends the steps. None: they never end early, and no time is spent on this.
    """

    def __init__(
        self,
        loss: Callable[[Batch], Loss],
        trained: Iterable[keras.Variable],
        optimizer: Optimizer,
        num_steps: int = 1,
        stop: Callable[[Info], Any] | None = None,
    ):
        self.loss, self.trained, self.optimizer = loss, list(trained), optimizer
        self.num_steps, self.stop = num_steps, stop
        self.learning_rate = float(optimizer.learning_rate)
        # Keras sums gradients over the replicas of tf.distribute, of which there is one. Each such
        # sum registers a gradient function that keeps its graph, 10 MiB, until the process ends.
        optimizer._all_reduce_sum_gradients = lambda grads_and_vars: grads_and_vars
        optimizer.build(self.trained)
        self._compiled = compiled(self._single)

    @property
    def variables(self) -> list[keras.Variable]:
        """All variables that the steps change, including those of the optimizer."""
        return [*self.trained, *self.optimizer.variables]

    def decay(self, progress: float) -> None:
        """Set the learning rate to its initial value times 1 - progress."""
        self.optimizer.learning_rate = self.learning_rate * (1 - progress)

    def step(self, batch: Batch) -> Floats:
        """Take a single step; return the loss's info before it, averaged over ranks."""
        return floats(self._compiled(batch))

    def _single(self, batch):
        grads, info = self.gradients(batch)
        self.apply(grads)
        return info

    # The rest are parts of compiled functions.

    @plain
    def gradients(
        self, batch: Batch, index: tf.Tensor | None = None
    ) -> tuple[list[tf.Tensor], Info]:
        """Return gradients and info of the batch, or of the rows `index` of it, over all ranks."""
        grads, info = self.own_gradients(batch if index is None else rows(batch, index))
        averaged = iter(mpi_avg_grads([*grads, *(tf.cast(x, tf.float32) for x in info.values())]))
        return [next(averaged) for _ in grads], {key: next(averaged) for key in info}

    def own_gradients(self, batch: Batch) -> tuple[list[tf.Tensor], Info]:
        """Return gradients and info for this rank's samples."""
        with tf.GradientTape() as tape:
            loss, info = self.loss(batch)
        sources = [variable.value for variable in self.trained]
        return tape.gradient(loss, sources, unconnected_gradients="zero"), info

    @plain
    def info(self, batch: Batch) -> Info:
        """Return the loss's info, averaged over ranks in float64, without taking a step."""
        return mpi_avg_scalars(self.loss(batch)[1])

    @plain
    def apply(self, grads: list[tf.Tensor]) -> None:
        """Let the optimizer update the variables."""
        self.optimizer.apply(grads, self.trained)

    def stops(self, info: Info) -> tf.Tensor:
        return tf.convert_to_tensor(self.stop is not None and self.stop(info))

    def take(self, batch: Batch, minibatches: tf.Tensor | None, before: Info) -> tf.Tensor:
        """Take the steps, in a loop of TensorFlow; return how many there were.

        The arguments are those of Training, and the info of the batch before the steps.
        """
        over, passes = self.stops(before), tf.constant(0)
        if minibatches is None:
            while passes < self.num_steps and not over:
                grads, info = self.gradients(batch)
                over = self.stops(info)
                if not over:
                    self.apply(grads)
                    passes += 1
        else:
            while passes < min(self.num_steps, minibatches.shape[0]) and not over:
                for index in minibatches[passes]:
                    grads, _ = self.gradients(batch, index)
                    self.apply(grads)
                over = self.stops({} if self.stop is None else self.info(batch))
                passes += 1
        return passes


class Training:
    """Several GradientSteps on one batch, in one compiled call.

        before, after, passes = training(batch, minibatches)

    `before` and `after` are the infos of all losses, averaged over ranks; `passes` is how many
    steps or passes the first of them took. Loops on different variables run side by side. One whose
    loss depends on what another one trains waits for it, because TensorFlow keeps the order in
    which variables are read and written.
    """

    def __init__(self, *steps: GradientSteps):
        self.steps = steps
        self._compiled = compiled(self._take, autograph=True)

    def _take(self, batch, minibatches, active):
        """Return (info before, info after, passes) of each of the GradientSteps."""
        before = [each.info(batch) for each in self.steps]
        passes = [
            each.take(batch, minibatches, before[i]) if active[i] else tf.constant(0)
            for i, each in enumerate(self.steps)
        ]
        return before, [each.info(batch) for each in self.steps], passes

    def __call__(
        self, batch: Batch, minibatches: np.ndarray | None = None, renewed: Renewed | None = None
    ) -> tuple[Floats, Floats, int]:
        """Take all steps on a batch, or on its minibatches.

        Args:
            batch: The batch.
            minibatches: Rows of each minibatch `[passes, count, size]`; None: there are none, and
                `num_steps` counts steps on the whole batch instead of passes.
            renewed: What changes in the batch between passes; see `renewal`.
        """
        if renewed is not None:
            return self._pass_by_pass(batch, minibatches, renewed)
        every = (True,) * len(self.steps)
        before, after, passes = self._compiled(batch, minibatches, every)
        return floats(*before), floats(*after), int(passes[0])

    def _pass_by_pass(self, batch, minibatches, renewed):
        """Let all GradientSteps take their first pass, then their second, until each ends as usual.

        The infos before and after are those of the batches of the first and the last pass.
        """
        if minibatches is None:  # each pass is one step on the whole batch
            most = max(each.num_steps for each in self.steps)
            minibatches = np.tile(np.arange(len(batch["adv"])), (most, 1, 1))
        if len(minibatches) == 0:  # for the info only
            return self(batch, minibatches)
        active, total = (True,) * len(self.steps), [0] * len(self.steps)
        first: list[Info] = []
        last: list[Info] = [{}] * len(self.steps)
        for i, of_pass in enumerate(minibatches):
            batch = batch | {name: tf.constant(x) for name, x in renewed(of_pass).items()}
            before, afters, passes = self._compiled(batch, of_pass[None], active)
            first = first or before
            for k in np.flatnonzero(active):
                last[k] = afters[k]
                total[k] += int(passes[k])
            pairs = zip(total, self.steps, strict=True)
            active = tuple(number == i + 1 < each.num_steps for number, each in pairs)
            if not any(active):
                break
        return floats(*first), floats(*last), total[0]


def renewal(
    batch: Mapping[str, Any],
    fresh: Callable[[], Mapping[str, np.ndarray]] | None,
    per_minibatch: bool,
) -> Renewed:
    """Return a function of a pass's minibatches `[count, size]` that renews advantages before it.

    Args:
        batch: The batch.
        fresh: Function that returns adv and ret, computed with the current value function; None
            leaves them as they are.
        per_minibatch: Whether to normalize advantages in each minibatch.
    """

    def renewed(minibatches):
        new = dict(fresh() if fresh else dict(adv=batch["adv"].numpy()))
        if per_minibatch:
            new["adv"] = normalized_in_minibatches(new["adv"], minibatches, batch["valid"].numpy())
        return new

    return renewed


def loss_columns(before: Floats, after: Floats) -> Floats:
    """Return the columns LossPi, LossV, DeltaLossPi and DeltaLossV of an update."""
    losses = {key: before[key] for key in ("LossPi", "LossV")}
    return losses | {f"Delta{key}": after[key] - before[key] for key in losses}


def floats(*infos: Mapping[str, Any]) -> Floats:
    """Return the scalars of one or several infos as one dict of floats."""
    return {key: float(x) for info in infos for key, x in info.items()}
