"""Weights & Biases. Without an account, or with WANDB_MODE=offline, logs to `RUN_DIR/wandb` only.

`wandb sync RUN_DIR/wandb/offline-run-*` uploads later what was logged offline.
"""

from __future__ import annotations

import os
from typing import Any

import wandb

from spinup_tf2.tracking.tracker import Epoch, TrackedRun


class Client:
    """Logs columns over TotalEnvInteracts, the configuration, histograms and videos.

    The project is the one in WANDB_PROJECT, or else spinup_tf2. The group is the experiment.
    """

    def __init__(self, run: TrackedRun):
        mode: Any = os.environ.get("WANDB_MODE")
        if not mode:
            mode = "online" if wandb.login(prompt=False) else "offline"
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
        row = dict(epoch.scalars, TotalEnvInteracts=epoch.step)
        row |= {f"histograms/{name}": wandb.Histogram(x) for name, x in epoch.histograms.items()}
        for path in epoch.videos:
            row["videos/episode"] = wandb.Video(str(path), format="mp4")
        self.run.log(row)

    def close(self) -> None:
        self.run.finish()
