"""Trackers: send what a training run logs to TensorBoard, Weights & Biases or MLflow.

    python -m spinup_tf2.run ppo --env CartPole-v1 --track tensorboard wandb

Clients work in a thread, behind a queue of limited length, so that one that fails or blocks does
not slow down or end training.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from queue import Full, Queue
from typing import Any

from spinup_tf2.errors import UserError, one_line
from spinup_tf2.tracking.clients import CLIENTS, Epoch, TrackedRun

TRACKERS = (*CLIENTS,)

# Values of which histograms are sent, if they are logged.
HISTOGRAMS = ("EpRet", "TestEpRet", "EpLen", "TestEpLen", "VVals", "QVals", "Q1Vals", "Q2Vals")

MOST_WAITING = 100  # maximum number of epochs that wait to be sent
PATIENCE = 60.0  # seconds that training waits at its end for epochs to be sent


def check_installed(name: str) -> None:
    """Raise UserError if the package of a tracker is missing."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:  # a mere folder of this name does not count
        raise UserError(
            f"track names {name}, which is not installed; install it with: "
            f'pip install "spinup_tf2[{name}]"'
        )


class Tracker:
    """Callback that sends the rows of a training run to one of TRACKERS."""

    def __init__(self, name: str):
        self.name, self.id = name, secrets.token_hex(4)  # the id is kept when the run is resumed
        self._queue: Queue = Queue(MOST_WAITING)

    def state_dict(self) -> dict[str, Any]:
        return dict(id=self.id)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.id = state["id"]

    def on_start(self, run: Any) -> None:
        directory = Path(run.logger.output_dir)
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
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
        """Make the client, and pass on to it what is put into the queue. Runs in the thread."""
        try:
            client = CLIENTS[self.name](tracked)
            while (item := self._queue.get()) is not None:
                client.log(item)
            client.close()
        except (Exception, SystemExit) as error:  # trackers may raise anything
            self._warn(f"{type(error).__name__}: {one_line(error)[:300]}")

    def _warn(self, reason):
        self._warn_once(
            f"{self.name} does not get what is logged ({reason}). The training continues.",
            about=f"track {self.name}",
        )
