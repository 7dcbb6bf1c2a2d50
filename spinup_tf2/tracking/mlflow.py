"""MLflow: logs to the server in MLFLOW_TRACKING_URI, or else to `mlflow.db` next to the run.

mlflow ui --backend-store-uri sqlite:///data/my_ppo/mlflow.db
"""

from __future__ import annotations

import logging
import math
import os
import time

import numpy as np
from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from spinup_tf2.tracking.tracker import Epoch, TrackedRun

LONGEST_PARAMETER = 500  # characters, the limit that all versions of MLflow accept

_TAG = "spinup_tf2.id"

# MLflow has no histograms, so their quantiles are logged.
_QUANTILES = {"p05": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95}


class Client:
    """Logs columns as metrics, the configuration as parameters, and videos as artifacts."""

    def __init__(self, run: TrackedRun):
        for name in ("mlflow", "alembic"):  # they log every table that they create
            logging.getLogger(name).setLevel(logging.WARNING)
        folder = run.directory.absolute().parent
        uri, artifacts = os.environ.get("MLFLOW_TRACKING_URI"), None
        if not uri:
            uri, artifacts = f"sqlite:///{folder / 'mlflow.db'}", (folder / "mlflow").as_uri()
        self.client = MlflowClient(tracking_uri=uri)
        experiment = _experiment(self.client, run.exp_name, artifacts)
        known = self.client.search_runs([experiment], f"tags.`{_TAG}` = '{run.id}'")
        if known:
            self.run_id = known[0].info.run_id
            self.client.update_run(self.run_id, status="RUNNING")
            return
        name = run.directory.name
        made = self.client.create_run(experiment, tags={_TAG: run.id}, run_name=name)
        self.run_id = made.info.run_id
        texts = {key: str(value)[:LONGEST_PARAMETER] for key, value in run.config.items()}
        self.client.log_batch(self.run_id, params=[Param(*each) for each in texts.items()])

    def log(self, epoch: Epoch) -> None:
        now, metrics = int(1000 * time.time()), dict(epoch.scalars)
        for name, values in epoch.histograms.items():
            if values.size:
                quantiles = np.quantile(values, [*_QUANTILES.values()])
                metrics |= {
                    f"{name}.{q}": float(x) for q, x in zip(_QUANTILES, quantiles, strict=True)
                }
        finite = {name: value for name, value in metrics.items() if math.isfinite(value)}
        entities = [Metric(name, value, now, epoch.step) for name, value in finite.items()]
        self.client.log_batch(self.run_id, metrics=entities)
        for path in epoch.videos:
            self.client.log_artifact(self.run_id, str(path), "videos")

    def close(self) -> None:
        self.client.set_terminated(self.run_id)


def _experiment(client, name, artifacts):
    """Return the id of the experiment of this name, which is created if it does not exist."""
    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return client.create_experiment(name, artifact_location=artifacts)
        except MlflowException:  # another run has created it in the meantime
            found = client.get_experiment_by_name(name)
            if found is None:
                raise
    return found.experiment_id
