"""How the off-policy algorithms take many small gradient steps in one compiled call."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import lcm

import keras
import numpy as np
import tensorflow as tf

from spinup_tf2.core.compiled import compiled
from spinup_tf2.core.optimize.gradient_steps import GradientStep, Info, LossFunction
from spinup_tf2.errors import UserError, one_line
from spinup_tf2.parallel.mpi import num_procs
from spinup_tf2.utils.mpi_tf import mpi_avg_grads

Batch = dict[str, tf.Tensor]


class Minimize(GradientStep):
    """One gradient step on a loss: a part of an update.

    Args:
        loss: Function `loss(batch) -> (loss, info)` of tensors; info is a dict of tensors to log.
        variables: What is trained.
        optimizer: A Keras optimizer.
        every: In which updates the step is taken: 2 means in the first, third, fifth, ... of a run.
            Keep it small: all updates of a cycle, after which the steps repeat, are compiled.
    """

    pieces = ("_gradients", "apply")  # what XLA can compile, where it cannot have the whole

    def __init__(
        self,
        loss: LossFunction,
        variables: Iterable[keras.Variable],
        optimizer: keras.optimizers.Optimizer,
        every: int = 1,
    ):
        super().__init__(loss, variables, optimizer)
        self.every = every

    def __call__(self, batch: Batch) -> Info:
        """Take the step; returns the loss' info, that of this rank's samples."""
        grads, info = self._gradients(batch)
        self.apply(mpi_avg_grads(grads))
        return info

    @property
    def all_variables(self) -> list[keras.Variable]:
        """What the step changes."""
        return [*self.variables, *self.optimizer.variables]


class PolyakAverage:
    """Target networks that follow others slowly: a part of an update.

        target = polyak * target + (1 - polyak) * variable   (Lillicrap et al. 2016)

    Args:
        targets: What moves.
        variables: Where each of them moves to.
        polyak: How much of the target stays.
        every: As in Minimize.
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
        self.polyak = polyak
        self.every = every

    @property
    def all_variables(self) -> list[keras.Variable]:
        """What the step changes."""
        return [target for target, _ in self.pairs]

    def __call__(self, batch: Batch) -> Info:
        """Move all targets a step; the batch plays no part.

        Variables are equal on all MPI ranks, and so targets are.
        """
        self._move()
        return {}

    def _move(self):
        for target, variable in self.pairs:
            target.assign(self.polyak * target + (1 - self.polyak) * variable)


class UpdateBlock:
    """Many updates, one after the other: `info = update_block(batches)`.

    All updates are one compiled call.

    Args:
        steps: What one update consists of, in this order: Minimize and PolyakAverage.
        jit_compile: Whether to compile with XLA, which takes seconds longer and makes updates of
            small networks about a third faster.
    """

    def __init__(self, steps: Sequence[Minimize | PolyakAverage], jit_compile: bool = False):
        # TensorFlow's optimizer of dependencies forgets that a variable is read before it is
        # written, where no number connects the two (SAC's temperature): one update in thousands
        # then reads the new value, and equal runs end in different digits. What is compiled from
        # here on keeps the order; it is no slower.
        tf.config.optimizer.set_experimental_options({"dependency_optimization": False})
        self.steps = list(steps)
        self.period = lcm(*(step.every for step in self.steps))
        # A whole period is one piece of code, which XLA would take minutes for if it were long.
        self.jit_compile = jit_compile and self.period <= 5
        # Compiled, by phase. There is only one where the period divides the length of the blocks.
        self._blocks: dict[int, Callable] = {}

    @property
    def variables(self) -> list[keras.Variable]:
        """What the updates change, optimizers' variables among them."""
        return [variable for step in self.steps for variable in step.all_variables]

    def __call__(self, batches: dict[str, np.ndarray], first: int = 0) -> dict[str, np.ndarray]:
        """Take an update on each of the minibatches, in their order.

        Args:
            batches: `[updates, batch, ...]`.
            first: Number of the first of the updates, counted from 0 since the training began.

        Returns:
            What the losses logged, `[updates, ...]`; of steps that are not taken in every update,
            correspondingly less. With several ranks, it is that of this rank's samples.

        Raises:
            UserError: XLA cannot compile the updates.
        """
        phase = first % self.period
        if phase not in self._blocks:
            self._blocks[phase] = self._compiled(phase)
        try:
            infos = self._blocks[phase](batches)
        except tf.errors.InvalidArgumentError as error:
            if not self.jit_compile or "unsupported operations" not in str(error):
                raise
            raise UserError(
                "XLA cannot compile something in the losses or networks, such as tf.print or "
                "tf.py_function; leave it out, or make the UpdateBlock without jit_compile. "
                f"({one_line(error)})"
            ) from error
        return {key: np.asarray(x) for key, x in infos.items()}

    def _compiled(self, phase):
        whole = num_procs() == 1  # XLA cannot call MPI
        if self.jit_compile and not whole and not self._blocks:
            for step in self.steps:
                for name in step.pieces:
                    setattr(step, name, compiled(getattr(step, name), jit_compile=True))
        return compiled(partial(self._block, phase=phase), jit_compile=self.jit_compile and whole)

    def _block(self, batches, phase):
        """All updates in one graph: a loop over periods, after which the steps repeat.

        Args:
            batches: As in `__call__`.
            phase: How many updates of a period have come before.
        """
        updates = next(iter(batches.values())).shape[0]
        rest = updates % self.period
        infos = []
        if updates > rest:
            periods = {
                key: tf.reshape(x[: updates - rest], (-1, self.period, *x.shape[1:]))
                for key, x in batches.items()
            }
            run = compiled(partial(self._updates, phase=phase))
            first = {key: tf.TensorSpec(x.shape[1:], x.dtype) for key, x in periods.items()}
            outputs = run.get_concrete_function(first).structured_outputs
            signature = {key: tf.TensorSpec(x.shape, x.dtype) for key, x in outputs.items()}
            info = tf.map_fn(run, periods, fn_output_signature=signature, parallel_iterations=1)
            infos.append({key: tf.reshape(x, (-1, *x.shape[2:])) for key, x in info.items()})
        if rest:
            infos.append(self._updates({key: x[-rest:] for key, x in batches.items()}, phase))
        return {key: tf.concat([info[key] for info in infos if key in info], 0) for key in infos[0]}

    def _updates(self, batches, phase):
        """The updates on `batches`, one after the other."""
        infos: dict[str, list[tf.Tensor]] = {}
        for j in range(next(iter(batches.values())).shape[0]):
            batch = {key: x[j] for key, x in batches.items()}
            for step in self.steps:
                if (phase + j) % step.every == 0:
                    for key, x in step(batch).items():
                        infos.setdefault(key, []).append(x)
        return {key: tf.stack(xs) for key, xs in infos.items()}
