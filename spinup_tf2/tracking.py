"""Trackers: send what a training run logs to TensorBoard, Weights & Biases or MLflow.

    python -m spinup_tf2.run ppo --env CartPole-v1 --track tensorboard wandb

Clients work in a thread, behind a queue of limited length, so that one that fails or blocks does
not slow down or end training.
"""

from __future__ import annotations

import json
import logging
import math
import os
import secrets
import struct
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from queue import Full, Queue
from typing import Any, NamedTuple

import numpy as np

from spinup_tf2.errors import UserError, one_line

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


class TrackedRun(NamedTuple):
    """A run, as clients are made for it."""

    id: str  # stays the same when the run is resumed
    directory: Path
    exp_name: str
    config: Mapping[str, Any]  # the contents of config.json
    step: int  # environment interactions before it begins or is resumed, of complete epochs


class Epoch(NamedTuple):
    """The values that an epoch has logged."""

    step: int  # environment interactions so far, TotalEnvInteracts
    scalars: Mapping[str, float]  # the row of the epoch, without columns that have no number
    histograms: Mapping[str, np.ndarray]  # values `[n]` whose statistics are in the row, by name
    videos: Sequence[Path]  # recorded in this epoch


class Tracker:
    """Callback that sends the rows of a training run to the client of this name."""

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
        step = run.epoch * run.settings.steps_per_epoch
        tracked = TrackedRun(self.id, directory, exp_name, config, step)
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


# ---------------------------------------------------------------------------------- clients


class TensorBoard:
    """Logs columns as scalars, the configuration as text, and videos as animated images.

    The event files are in `RUN_DIR/tensorboard`: tensorboard --logdir data
    """

    def __init__(self, run: TrackedRun):
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.plugins.text.summary_v2 import text_pb
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self.event = Event
        self.writer = EventFileWriter(str(run.directory / "tensorboard"))
        # The second start of a session makes TensorBoard forget this step and later ones: those
        # after the checkpoint, which are logged again.
        start = SessionLog(status=SessionLog.START)
        self.writer.add_event(Event(session_log=start, step=run.step + 1, wall_time=time.time()))
        config = json.dumps(run.config, indent=4, sort_keys=True)
        self._add(text_pb("config", f"```\n{config}\n```"), 0)

    def log(self, epoch: Epoch) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.plugins.histogram.summary_v2 import histogram_pb

        scalar = Summary.Value  # no tensors, which programs that read scalars leave out
        scalars = [scalar(tag=f"columns/{k}", simple_value=x) for k, x in epoch.scalars.items()]
        self._add(Summary(value=scalars), epoch.step)
        for name, values in epoch.histograms.items():
            self._add(histogram_pb(f"histograms/{name}", values), epoch.step)
        for path in epoch.videos:
            self._add(_animated_image(path), epoch.step)
        self.writer.flush()

    def _add(self, summary, step):
        self.writer.add_event(self.event(summary=summary, step=step, wall_time=time.time()))

    def close(self) -> None:
        self.writer.close()


def _animated_image(path):
    """Return a video as the summary of an animated GIF, which TensorBoard shows like any image."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    gif = animation(path)
    width, height = struct.unpack("<HH", gif[6:10])
    image = Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=gif)
    return Summary(value=[Summary.Value(tag="videos/episode", image=image)])


def animation(path: Path, most_frames: int = 200, side: int = 240) -> bytes:
    """Return a video as a GIF: frames at equal intervals, which fit into a square of `side`."""
    from imageio_ffmpeg import count_frames_and_secs, get_ffmpeg_exe

    frames, seconds = count_frames_and_secs(str(path))
    size = rf"min({side}\,iw):min({side}\,ih):force_original_aspect_ratio=decrease"
    filters = f"fps={min(frames, most_frames) / seconds},scale={size}"
    command = [get_ffmpeg_exe(), "-v", "error", "-i", str(path), "-vf", filters, "-f", "gif", "-"]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True).stdout


class Wandb:
    """Logs columns over TotalEnvInteracts, the configuration, histograms and videos.

    The project is the one in WANDB_PROJECT, or else spinup_tf2. The group is the experiment.
    Without an account, or with WANDB_MODE=offline, it logs to `RUN_DIR/wandb` only, which can be
    uploaded later: `wandb sync RUN_DIR/wandb/offline-run-*`.
    """

    def __init__(self, run: TrackedRun):
        import wandb

        mode: Any = os.environ.get("WANDB_MODE")
        if not mode:
            mode = "online" if wandb.login(prompt=False) else "offline"
        self.wandb = wandb
        self.run = wandb.init(
            mode=mode,
            project=os.environ.get("WANDB_PROJECT") or "spinup_tf2",
            dir=str(run.directory),
            name=run.directory.name,
            group=run.exp_name,
            id=run.id,
            resume="allow",
            # If the program has started a run itself, that continues to be the one of `wandb.log`.
            reinit=None if wandb.run is None else "create_new",
            config=dict(run.config),
            settings=wandb.Settings(console="off", silent=True),
        )
        self.run.define_metric("*", step_metric="TotalEnvInteracts")

    def log(self, epoch: Epoch) -> None:
        histogram, video = self.wandb.Histogram, self.wandb.Video
        row = dict(epoch.scalars, TotalEnvInteracts=epoch.step)
        row |= {f"histograms/{name}": histogram(x) for name, x in epoch.histograms.items()}
        for path in epoch.videos:
            row["videos/episode"] = video(str(path), format="mp4")
        self.run.log(row)

    def close(self) -> None:
        self.run.finish()


_TAG = "spinup_tf2.id"
_QUANTILES = {"p05": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95}


class Mlflow:
    """Logs columns as metrics, the configuration as parameters, and videos as artifacts.

    MLflow has no histograms, so their quantiles are logged. The runs are on the server in
    MLFLOW_TRACKING_URI, or else in `mlflow.db` next to the run:
    mlflow ui --backend-store-uri sqlite:///data/my_ppo/mlflow.db
    """

    def __init__(self, run: TrackedRun):
        from mlflow.entities import Metric, Param
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient

        self.metric = Metric
        for name in ("mlflow", "alembic"):  # they log every table that they create
            logging.getLogger(name).setLevel(logging.WARNING)
        folder = run.directory.absolute().parent
        uri, artifacts = os.environ.get("MLFLOW_TRACKING_URI"), None
        if not uri:
            uri, artifacts = f"sqlite:///{folder / 'mlflow.db'}", (folder / "mlflow").as_uri()
        self.client = MlflowClient(tracking_uri=uri)
        with suppress(MlflowException):  # it exists
            self.client.create_experiment(run.exp_name, artifact_location=artifacts)
        experiment = self.client.get_experiment_by_name(run.exp_name).experiment_id
        known = self.client.search_runs([experiment], f"tags.`{_TAG}` = '{run.id}'")
        if known:
            self.run_id = known[0].info.run_id
            self.client.update_run(self.run_id, status="RUNNING")
            return
        name = run.directory.name
        made = self.client.create_run(experiment, tags={_TAG: run.id}, run_name=name)
        self.run_id = made.info.run_id
        # 500 characters are the limit that all versions of MLflow accept.
        params = [Param(key, str(value)[:500]) for key, value in run.config.items()]
        self.client.log_batch(self.run_id, params=params)

    def log(self, epoch: Epoch) -> None:
        now, metrics = int(1000 * time.time()), dict(epoch.scalars)
        for name, values in epoch.histograms.items():
            for label, q in _QUANTILES.items() if values.size else ():
                metrics[f"{name}.{label}"] = float(np.quantile(values, q))
        finite = {name: value for name, value in metrics.items() if math.isfinite(value)}
        entities = [self.metric(name, value, now, epoch.step) for name, value in finite.items()]
        self.client.log_batch(self.run_id, metrics=entities)
        for path in epoch.videos:
            self.client.log_artifact(self.run_id, str(path), "videos")

    def close(self) -> None:
        self.client.set_terminated(self.run_id)


# By the names of trackers, which are also the packages that they need, and extras of this package.
CLIENTS: dict[str, Any] = {"tensorboard": TensorBoard, "wandb": Wandb, "mlflow": Mlflow}
