"""Many small gradient steps in one compiled call, for the off-policy algorithms."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import lcm

import keras
import numpy as np
import tensorflow as tf

from spinup_tf2.core.gradient_steps import GradientSteps, Info, Loss
from spinup_tf2.core.nets.layers import compiled
from spinup_tf2.parallel.mpi import num_procs
from spinup_tf2.parallel.tensors import mpi_avg_grads

Batch = dict[str, tf.Tensor]


def bellman_backup(
    rew: tf.Tensor, terminated: tf.Tensor, next_val: tf.Tensor, gamma: float
) -> tf.Tensor:
    """Return the target of a Q-function, R + gamma (1 - terminated) V(s'). All [batch].

    No gradient flows through it. Only a terminal state ends the sum; a time limit does not.
    """
    return tf.stop_gradient(rew + gamma * tf.where(terminated, 0.0, next_val))


class Minimize(GradientSteps):
    """One gradient step on a loss, as a part of an update.

    Args:
        loss: Function `loss(batch) -> (loss, info)` of tensors; info is a dict of tensors to log.
        variables: The variables to train.
        optimizer: A Keras optimizer.
        every: Interval between steps, in updates: with 2, the step is taken in the first, third,
            fifth, ... update of a run. Keep it small: all updates of a cycle, after which the steps
            repeat, are compiled.
    """

    pieces = ("own_gradients", "apply")  # what XLA compiles if it cannot compile the whole update

    def __init__(
        self,
        loss: Callable[[Batch], Loss],
        variables: Iterable[keras.Variable],
        optimizer: keras.optimizers.Optimizer,
        every: int = 1,
    ):
        super().__init__(loss, variables, optimizer)
        self.every = every

    def __call__(self, batch: Batch) -> Info:
        """Take the step; return the loss's info for the samples of this rank."""
        grads, info = self.own_gradients(batch)
        self.apply(mpi_avg_grads(grads))
        return info


class PolyakAverage:
    """Slow update of target networks, as a part of an update.

        target = polyak * target + (1 - polyak) * variable   (Lillicrap et al. 2016)

    Args:
        targets: Variables of the target networks.
        variables: The variable that each target follows.
        polyak: Weight of the old target, between 0 and 1.
        every: As in Minimize.

    Attributes:
        variables: All variables that the step changes.
    """

    pieces = ("_move",)

    def __init__(
        self,
        targets: Iterable[keras.Variable],
        variables: Iterable[keras.Variable],
        polyak: float,
        every: int = 1,
    ):
        self.pairs = list(zip(targets, variables, strict=True))
        self.variables = [target for target, _ in self.pairs]
        self.polyak = polyak
        self.every = every

    def __call__(self, batch: Batch) -> Info:
        """Update all targets; the batch is not used.

        The variables are equal on all MPI ranks, and so the targets are, too.
        """
        self._move()
        return {}

    def _move(self):
        for target, variable in self.pairs:
            target.assign(self.polyak * target + (1 - self.polyak) * variable)


class HardCopy(PolyakAverage):
    """Copy of variables to those of target networks, as a part of an update (Mnih et al. 2015).

    It counts the updates, so that they need not be compiled one by one, as `every` needs it.

    Args:
        targets, variables: As in PolyakAverage.
        interval: Number of updates after which, each time, the variables are copied.
    """

    def __init__(
        self, targets: Iterable[keras.Variable], variables: Iterable[keras.Variable], interval: int
    ):
        super().__init__(targets, variables, polyak=0.0)
        self.interval = interval
        self.since = keras.Variable(0, trainable=False, dtype="int32", name="updates_since_copy")
        self.variables.append(self.since)

    def _move(self):
        since = (self.since + 1) % self.interval
        self.since.assign(since)
        for target, variable in self.pairs:
            target.assign(tf.where(since == 0, variable, target))


class UpdateBlock:
    """Performs many updates, one after the other, in one compiled call.

        info = update_block(batches)

    Args:
        steps: The Minimize and PolyakAverage steps of one update, in this order.
        jit_compile: Whether to compile with XLA, which takes seconds longer and makes updates of
            small networks about a third faster.
    """

    def __init__(self, steps: Sequence[Minimize | PolyakAverage], jit_compile: bool = False):
        # TensorFlow's dependency optimizer forgets that a variable is read before it is written if
        # no data flows between the two (SAC's temperature): one update in thousands then reads the
        # new value, and equal runs end with different digits. Functions compiled from here on keep
        # the order; they are no slower.
        tf.config.optimizer.set_experimental_options({"dependency_optimization": False})
        self.steps = list(steps)
        self.period = lcm(*(step.every for step in self.steps))
        # A whole period is compiled as one piece; for a long one, XLA would take minutes.
        self.jit_compile = jit_compile and self.period <= 5
        # Compiled functions by phase: only one if the period divides the length of the blocks.
        self._blocks: dict[int, Callable] = {}

    @property
    def variables(self) -> list[keras.Variable]:
        """All variables that the updates change, including those of the optimizers."""
        return [variable for step in self.steps for variable in step.variables]

    def __call__(self, batches: dict[str, np.ndarray], first: int = 0) -> dict[str, np.ndarray]:
        """Perform an update on each of the minibatches, in order.

        Args:
            batches: Minibatches `[updates, batch, ...]`.
            first: Number of the first update, counted from 0 since the training began.

        Returns:
            The info of all losses, `[updates, ...]`, with fewer rows for steps that are not taken
            in every update. With several ranks, it is the info for the samples of this rank.
        """
        phase = first % self.period
        if phase not in self._blocks:
            self._blocks[phase] = self._compiled(phase)
        return {key: np.asarray(x) for key, x in self._blocks[phase](batches).items()}

    def _compiled(self, phase):
        whole = num_procs() == 1  # XLA cannot call MPI
        if self.jit_compile and not whole and not self._blocks:
            for step in self.steps:
                for name in step.pieces:
                    setattr(step, name, compiled(getattr(step, name), jit_compile=True))
        return compiled(partial(self._block, phase=phase), jit_compile=self.jit_compile and whole)

    def _block(self, batches, phase):
        """Perform all updates in one graph: a loop over periods, after which the steps repeat.

        Args:
            batches: As in `__call__`.
            phase: Number of updates of the current period that precede these.
        """
        updates = next(iter(batches.values())).shape[0]
        if updates <= self.period:  # a loop would cost more than it contains
            return self._updates(batches, phase)
        rest = updates % self.period
        periods = {
            key: tf.reshape(x[: updates - rest], (-1, self.period, *x.shape[1:]))
            for key, x in batches.items()
        }
        run = compiled(partial(self._updates, phase=phase))
        first = {key: tf.TensorSpec(x.shape[1:], x.dtype) for key, x in periods.items()}
        outputs = run.get_concrete_function(first).structured_outputs
        signature = {key: tf.TensorSpec(x.shape, x.dtype) for key, x in outputs.items()}
        info = tf.map_fn(run, periods, fn_output_signature=signature, parallel_iterations=1)
        infos = [{key: tf.reshape(x, (-1, *x.shape[2:])) for key, x in info.items()}]
        if rest:
            infos.append(self._updates({key: x[-rest:] for key, x in batches.items()}, phase))
        return {key: tf.concat([info[key] for info in infos if key in info], 0) for key in infos[0]}

    def _updates(self, batches, phase):
        """Perform the updates on `batches`, one after the other, without a loop in the graph."""
        infos: dict[str, list[tf.Tensor]] = {}
        for j in range(next(iter(batches.values())).shape[0]):
            batch = {key: x[j] for key, x in batches.items()}
            for step in self.steps:
                if (phase + j) % step.every == 0:
                    for key, x in step(batch).items():
                        infos.setdefault(key, []).append(x)
        return {key: tf.stack(xs) for key, xs in infos.items()}
