"""The checkpoint of a run that never was, and the manifests of people who mean ill."""

import hashlib
import json
from pathlib import Path

import numpy as np


def write_checkpoint(run_dir: Path, **changes) -> Path:
    """Write a small checkpoint of PPO into `run_dir`; returns its directory.

    changes: of what the manifest says about the run.
    """
    from spinup_tf2.training.checkpoints import Checkpoints, NewSteps

    command = {"env_name": "CartPole-v1", "epochs": 3, "ac_kwargs": {"hidden_sizes": [8]}}
    run = dict(algorithm="ppo", command=command, exp_name="x", num_envs=2, num_procs=1) | changes
    counters = dict(
        epoch=1, step=0, infos=[], seconds=1.0, best=dict(score=1.0, epoch=0), stopped=""
    )
    arrays = {"log/EpRet": np.arange(3.0), "env0/envs/steps": np.arange(2)}
    weights = {"variables/0": np.zeros(2, np.float32), "best/0": np.zeros(2, np.float32)}
    run_dir.mkdir(exist_ok=True)
    steps = NewSteps(arrays, first=0, end=3, oldest=0)
    Checkpoints(run_dir).save(run, counters, arrays | weights, steps)
    return max((run_dir / "checkpoint").glob("0*"))


def signed(manifest: dict) -> dict:
    """A manifest with the digest that belongs to it, which everybody can compute."""
    content = {name: value for name, value in manifest.items() if name != "sha256"}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return content | {"sha256": digest}
