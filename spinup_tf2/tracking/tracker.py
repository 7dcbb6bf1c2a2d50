"""A tracker: sends what a training logs to TensorBoard, Weights & Biases or MLflow.

    python -m spinup_tf2.run ppo --env CartPole-v1 --track tensorboard wandb

Each has a module of its own here, with a Client. Clients work in a thread, behind a queue of
limited length: one that fails or blocks neither slows the training nor ends it.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from queue import Full, Queue
from typing import Any, Protocol

import numpy as np

from spinup_tf2.callbacks import Callback
from spinup_tf2.errors import UserError, one_line
from spinup_tf2.runs.files import read_json

# The package that each needs, which is an extra of this one.
TRACKERS = ("tensorboard", "wandb", "mlflow")

# What there are histograms of, where it is logged.
HISTOGRAMS = ("EpRet", "TestEpRet", "EpLen", "TestEpLen", "VVals", "QVals", "Q1Vals", "Q2Vals")

MOST_WAITING = 100  # epochs that have not been sent
PATIENCE = 60.0  # seconds that the end of a training waits for what has not been sent


@dataclass(frozen=True)
class TrackedRun:
    """What a client has to know of a run.

    Attributes:
        id: The same when the run is resumed.
        directory: Of the run.
        exp_name: Name of the experiment that it belongs to.
        config: What config.json holds.
    """

    id: str
    directory: Path
    exp_name: str
    config: Mapping[str, Any]


@dataclass(frozen=True)
class Epoch:
    """What an epoch has logged.

    Attributes:
        step: Interactions with the environment so far, TotalEnvInteracts.
        scalars: Its row, without what there is no number for.
        histograms: The values `[n]` of which the row has statistics, by name.
        videos: Those that were recorded in this epoch.
    """

    step: int
    scalars: Mapping[str, float]
    histograms: Mapping[str, np.ndarray]
    videos: Sequence[Path]


class Client(Protocol):
    """What writes for one tracker; its constructor takes a TrackedRun."""

    def log(self, epoch: Epoch) -> None:
        """Send what an epoch has logged."""

    def close(self) -> None:
        """Called once, after the last epoch."""


def check_installed(name: str) -> None:
    """Raise UserError if the package of a tracker is missing."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:  # not even a folder of this name
        raise UserError(
            f"track names {name}, which is not installed; install it with: "
            f'pip install "spinup_tf2[{name}]"'
        )


class Tracker(Callback):
    """Sends the rows of a training to one of TRACKERS."""

    def __init__(self, name: str):
        self.name, self.id = name, secrets.token_hex(4)  # the same in a run that is resumed
        self._queue: Queue = Queue(MOST_WAITING)

    def state_dict(self) -> dict[str, Any]:
        return dict(id=self.id)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.id = state["id"]

    def on_start(self, run: Any) -> None:
        directory = Path(run.logger.output_dir)
        config = read_json(directory / "config.json")
        exp_name = run.logger.exp_name or directory.name
        tracked = TrackedRun(self.id, directory, exp_name, config)
        self._warn_once = run.logger.warn_once
        self._thread = threading.Thread(target=self._send_all, args=(tracked,), daemon=True)
        self._thread.start()

    def on_epoch_end(self, run: Any, row: Mapping[str, Any]) -> None:
        scalars = {name: float(value) for name, value in row.items() if value != ""}
        step, histograms = int(row["TotalEnvInteracts"]), dict(run.logger.kept)
        self._put(Epoch(step, scalars, histograms, [*run.videos]))

    def on_end(self, run: Any) -> None:
        self._put(None)
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            self._warn("it has not written everything yet")

    def _put(self, item):
        if self._thread.is_alive():
            try:
                self._queue.put_nowait(item)
            except Full:
                self._warn(f"it is more than {MOST_WAITING} epochs behind; the rest is left out")

    def _send_all(self, tracked):
        """The work of the thread: make the client, and give it what is put into the queue."""
        try:
            client = import_module(f"spinup_tf2.tracking.{self.name}").Client(tracked)
            while (item := self._queue.get()) is not None:
                client.log(item)
            client.close()
        except (Exception, SystemExit) as error:  # whatever happens to a tracker
            self._warn(f"{type(error).__name__}: {one_line(error)[:300]}")

    def _warn(self, reason):
        self._warn_once(
            f"{self.name} does not get what is logged ({reason}). The training goes on.",
            about=f"track {self.name}",
        )
