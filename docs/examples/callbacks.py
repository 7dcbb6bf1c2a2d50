"""Trains with callbacks: one that logs a value, and two that end the training."""

import numpy as np

from spinup_tf2 import ppo
from spinup_tf2.callbacks import Callback, StopAfter, StopAtReturn


class ValueAtRest(Callback):
    """Logs what an upright pole at rest is worth to the agent, in a column of its own."""

    def __init__(self):
        self.values = []

    def on_start(self, run):
        print(f"{run.settings.epochs} epochs at most, saved in {run.logger.output_dir}")

    def columns(self, run):
        _, value, _ = run.policy.step(np.zeros(4))
        return dict(ValueAtRest=value)

    def on_epoch_end(self, run, row):
        self.values.append(row["ValueAtRest"])
        if row["Entropy"] < 0.05:
            run.stop("the policy has become certain")

    def on_end(self, run):
        print("V(at rest) by epoch:", np.round(self.values, 1))

    # The next two only matter where the run is resumed.
    def state_dict(self):
        return dict(values=self.values)

    def load_state_dict(self, state):
        self.values = state["values"]


if __name__ == "__main__":
    ppo(
        "CartPole-v1",
        epochs=5,
        steps_per_epoch=1000,
        callbacks=[ValueAtRest(), StopAtReturn(475), StopAfter(hours=8)],
        logger_kwargs=dict(output_dir="data/callbacks", exp_name="callbacks", quiet=True),
    )
