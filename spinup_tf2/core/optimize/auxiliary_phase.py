"""The auxiliary phase of phasic policy gradient (PPG)."""

import keras
import numpy as np
import tensorflow as tf

from spinup_tf2.core.gradient_steps import GradientSteps
from spinup_tf2.core.nets.actor_critic import ActorCritic
from spinup_tf2.core.nets.heads import FrozenPolicy
from spinup_tf2.core.phase_memory import PhaseMemory
from spinup_tf2.parallel.mpi import beat
from spinup_tf2.training.run import Run


class AuxiliaryPhase:
    """Gradient steps on the experience of several epochs, after the last of them.

    The phase can be stopped between any two steps, and continues there when the run is resumed.

    Args:
        run: The open run.
        steps: The gradient steps; each pass goes over the experience of all epochs.
        frozen: Copy of the policy, which is updated when the phase begins.
        memory: The experience; `memory.store` must be called in each epoch.
        minibatch_size: Steps of all processes in each minibatch.

    Attributes:
        columns: Keys of the info of `steps`, of which the means over the phase are logged.
        state: Variables that checkpoints must hold in order to continue the phase.
    """

    columns = ("AuxLossV", "AuxLossVPi", "AuxKL")

    def __init__(
        self,
        run: Run[ActorCritic],
        steps: GradientSteps,
        frozen: FrozenPolicy,
        memory: PhaseMemory,
        minibatch_size: int,
    ):
        self.run, self.steps, self.frozen = run, steps, frozen
        self.memory, self.minibatch_size = memory, minibatch_size
        self.done = keras.Variable(0, dtype="int32", trainable=False)  # steps of this phase so far
        self.state = [*frozen.variables, self.done]

    def __call__(self) -> None:
        """Run the phase if the memory is full; otherwise do nothing. Collective."""
        if not self.memory.full:
            return
        if self.done == 0:
            self.frozen.freeze()
        run, passes = self.run, self.steps.num_steps
        minibatches = run.minibatches(self.minibatch_size, passes, self.memory.size, stream=3)
        assert minibatches is not None  # they have a size
        for index in np.concatenate(minibatches)[int(self.done) :]:
            if run.asked_to_stop():
                run.leave(run.settings.local_steps)
            rows = {key: tf.constant(array) for key, array in self.memory.rows(index).items()}
            run.logger.store(**self.steps.step(rows))
            self.done.assign(self.done + 1)
            beat()
        self.memory.clear()
        self.done.assign(0)
