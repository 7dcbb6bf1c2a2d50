"""TensorBoard: event files in `RUN_DIR/tensorboard`, written by `tf.summary`.

tensorboard --logdir data
"""

from __future__ import annotations

import io
import json

import tensorflow as tf
from tensorboard.compat.proto.summary_pb2 import Summary

from spinup_tf2.tracking.tracker import Epoch, TrackedRun
from spinup_tf2.tracking.videos import animation


class Client:
    """Logs columns as scalars, the configuration as text, and videos as animated images."""

    def __init__(self, run: TrackedRun):
        directory = run.directory / "tensorboard"
        self.writer = tf.summary.create_file_writer(str(directory))
        with self.writer.as_default(step=0):
            config = json.dumps(run.config, indent=4, sort_keys=True)
            tf.summary.text("config", f"```\n{config}\n```")
        self.writer.flush()

    def log(self, epoch: Epoch) -> None:
        with self.writer.as_default(step=epoch.step):
            for name, value in epoch.scalars.items():
                tf.summary.scalar(f"columns/{name}", value)
            for name, values in epoch.histograms.items():
                tf.summary.histogram(f"histograms/{name}", values)
            for path in epoch.videos:
                _write_animation(path, epoch.step)
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()


def _write_animation(path, step):
    """Write a video as an animated GIF, which TensorBoard shows like any image."""
    frames, seconds = animation(path)
    gif = io.BytesIO()
    first, *others = frames
    first.save(gif, "GIF", save_all=True, append_images=others, duration=1000 * seconds, loop=0)
    image = Summary.Image(
        height=first.height, width=first.width, colorspace=3, encoded_image_string=gif.getvalue()
    )
    summary = Summary(value=[Summary.Value(tag="videos/episode", image=image)])
    tf.summary.experimental.write_raw_pb(summary.SerializeToString(), step=step)
