"""Training the quadruped in two processes, and what can be watched after."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pybullet", reason='needs pip install ".[quadruped]"')

from spinup_tf2.cli import test_policy as watching


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
