"""Learners on the quadruped: every kind of algorithm, processes, and what can be watched after."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pybullet", reason='needs pip install ".[quadruped]"')

from spinup_tf2 import a2c, sac
from spinup_tf2.cli import test_policy as watching
from spinup_tf2.utils.run_utils import EnvFn
from tests import off_policy_runs
from tests import on_policy_runs as runs

WALK, RECOVER = EnvFn("QuadrupedWalk-v0"), EnvFn("QuadrupedRecover-v0")


@pytest.mark.slow
def test_sac_trains(tmp_path):
    _, rows = off_policy_runs.train(sac, tmp_path, WALK, max_ep_len=400)
    assert len(rows) == 2
    assert all(np.isfinite(float(row["AverageTestEpRet"])) for row in rows)


@pytest.mark.slow
def test_a2c_trains_in_several_at_once(tmp_path):
    kwargs = dict(num_envs=2, vectorization="threads", max_ep_len=100)
    _, rows = runs.train(a2c, tmp_path, RECOVER, **kwargs)
    assert [float(row["EpLen"]) for row in rows] == [100, 100]


@pytest.mark.commands
def test_two_processes_train_with_the_preset_and_the_agent_can_be_recorded(tmp_path, capfd):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    small = ["--epochs", "2", "--steps_per_epoch", "800", "--num_test_episodes", "2"]
    command = ["-m", "spinup_tf2.run", "ppo", "--preset", "quadruped-walk", "--cpu", "2", *small]
    where = ["--data_dir", str(tmp_path), "--exp_name", "walk"]
    subprocess.run([sys.executable, *command, *where], check=True)
    run = tmp_path / "walk" / "walk_s0"
    config = json.loads((run / "config.json").read_text())
    assert config["preset"] == "quadruped-walk"
    assert config["lam"] == 0.95
    progress = pd.read_table(run / "progress.txt")
    assert [*progress["TotalEnvInteracts"]] == [800, 1600]
    assert np.isfinite(progress["AverageTestEpRet"].iloc[-1])

    watching.main([str(run), "--record", str(tmp_path / "videos"), "-n", "1", "-l", "10", "-d"])
    [video] = (tmp_path / "videos").iterdir()
    frames = ffmpeg.read_frames(str(video))
    about = next(frames)
    assert about["size"] == (480, 360)
    assert about["fps"] == 20
    assert len([*frames]) == 11
