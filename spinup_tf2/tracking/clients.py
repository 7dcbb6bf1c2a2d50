"""The clients of trackers, which send a run's epochs to TensorBoard, Weights & Biases or MLflow."""

from __future__ import annotations

import json
import logging
import math
import os
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class TrackedRun(NamedTuple):
    """A run, as clients are made for it."""

    id: str  # stays the same when the run is resumed
    directory: Path
    exp_name: str
    config: Mapping[str, Any]  # the contents of config.json


class Epoch(NamedTuple):
    """The values that an epoch has logged."""

    step: int  # environment interactions so far, TotalEnvInteracts
    scalars: Mapping[str, float]  # the row of the epoch, without columns that have no number
    histograms: Mapping[str, np.ndarray]  # values `[n]` whose statistics are in the row, by name
    videos: Sequence[Path]  # recorded in this epoch


class TensorBoard:
    """Logs columns as scalars, the configuration as text, and videos as animated images.

    The event files are in `RUN_DIR/tensorboard`: tensorboard --logdir data
    """

    def __init__(self, run: TrackedRun):
        import tensorflow as tf

        self.summary = tf.summary
        self.writer = tf.summary.create_file_writer(str(run.directory / "tensorboard"))
        with self.writer.as_default(step=0):
            config = json.dumps(run.config, indent=4, sort_keys=True)
            tf.summary.text("config", f"```\n{config}\n```")
        self.writer.flush()

    def log(self, epoch: Epoch) -> None:
        with self.writer.as_default(step=epoch.step):
            for name, value in epoch.scalars.items():
                self.summary.scalar(f"columns/{name}", value)
            for name, values in epoch.histograms.items():
                self.summary.histogram(f"histograms/{name}", values)
            for path in epoch.videos:
                self._write_animation(path, epoch.step)
        self.writer.flush()

    def _write_animation(self, path, step):
        """Write a video as an animated GIF, which TensorBoard shows like any image."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        gif = animation(path)
        width, height = struct.unpack("<HH", gif[6:10])
        image = Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=gif)
        summary = Summary(value=[Summary.Value(tag="videos/episode", image=image)])
        self.summary.experimental.write_raw_pb(summary.SerializeToString(), step=step)

    def close(self) -> None:
        self.writer.close()


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
        from mlflow.tracking import MlflowClient

        self.metric = Metric
        for name in ("mlflow", "alembic"):  # they log every table that they create
            logging.getLogger(name).setLevel(logging.WARNING)
        folder = run.directory.absolute().parent
        uri, artifacts = os.environ.get("MLFLOW_TRACKING_URI"), None
        if not uri:
            uri, artifacts = f"sqlite:///{folder / 'mlflow.db'}", (folder / "mlflow").as_uri()
        self.client = MlflowClient(tracking_uri=uri)
        experiment = self._experiment(run.exp_name, artifacts)
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

    def _experiment(self, name, artifacts):
        """Return the id of the experiment of this name, which is created if it does not exist."""
        from mlflow.exceptions import MlflowException

        found = self.client.get_experiment_by_name(name)
        if found is None:
            try:
                return self.client.create_experiment(name, artifact_location=artifacts)
            except MlflowException:  # another run has created it in the meantime
                found = self.client.get_experiment_by_name(name)
                if found is None:
                    raise
        return found.experiment_id

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
