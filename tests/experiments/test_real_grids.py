"""Grids in real processes, several at a time."""

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from spinup_tf2.errors import Interrupted
from spinup_tf2.experiments.grid import ExperimentGrid
from spinup_tf2.parallel import mpi
from spinup_tf2.parallel.stopping import Interruption
from tests.experiments.fakes import wait_for

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def save_when_asked(seed, logger_kwargs):
    rank, run_dir = mpi.proc_id(), Path(logger_kwargs["output_dir"])
    with Interruption() as interruption:
        (run_dir / f"running{rank}").touch()
        wait_for(lambda: interruption.requested)
        assert interruption.agreed()
        (run_dir / f"saved{rank}").touch()
        interruption.leave("")


@pytest.mark.mpi
@pytest.mark.skipif(find_spec("mpi4py") is None, reason="needs the mpi extra")
def test_all_ranks_of_all_experiments_stop(tmp_path, capsys):
    def stop():
        wait_for(lambda: len([*tmp_path.glob("g/*/running?")]) == 4, seconds=60)
        os.kill(os.getpid(), signal.SIGTERM)

    grid = ExperimentGrid("g")
    grid.add("seed", [0, 1, 2])
    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(Interrupted, match="SIGTERM"):
        grid.run(save_when_asked, num_cpu=2, data_dir=tmp_path, workers=2)
    thread.join()
    saved = {f"g_s{seed}/saved{rank}" for seed in (0, 1) for rank in (0, 1)}
    assert {str(path.relative_to(tmp_path / "g")) for path in tmp_path.rglob("saved?")} == saved
    assert "3 experiments: 2 stopped, 1 not begun" in capsys.readouterr().out


# ---------------------------------------------------------------- trainings

OWN_ENVIRONMENT = """
import os
import gymnasium as gym
from gymnasium.envs.classic_control import CartPoleEnv

class Numbered(CartPoleEnv):
    def __init__(self, number, render_mode=None):
        super().__init__(render_mode=render_mode)
        self.number = number

    def step(self, action):
        if self.number == 7 and not os.path.exists("repaired"):
            raise RuntimeError("number 7 is out of order")
        return super().step(action)

gym.register("Numbered-v0", Numbered, max_episode_steps=500)
"""


def rest_of(out):
    """The words behind `python` of the command that does the rest."""
    return shlex.split(re.search(r"^python (-m spinup_tf2\.run .*)$", out, re.MULTILINE)[1])


def rows(run_dir):
    return (run_dir / "progress.txt").read_text().splitlines()[1:]


def test_what_has_failed_and_what_was_stopped_goes_on(tmp_path):
    def start(words):
        return subprocess.Popen(
            [sys.executable, *words],
            cwd=tmp_path,
            env=os.environ | dict(PYTHONPATH=str(ROOT), SPINUP_TF2_DATA_DIR=str(tmp_path / "data")),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    (tmp_path / "numbered.py").write_text(OWN_ENVIRONMENT)
    process = start(
        shlex.split(
            "-m spinup_tf2.run ppo --env numbered:Numbered-v0 --env_kwargs:number[] 7 0 "
            "--exp_name g --epochs 100000 --steps_per_epoch 100 --train_pi_iters 1 "
            "--train_v_iters 1 --hid [8] --workers 2"
        )
    )
    broken, stopped = (tmp_path / "data" / f"g_{number}" / f"g_{number}_s0" for number in (7, 0))
    output, progress = broken / "output.txt", stopped / "progress.txt"
    wait_for(lambda: output.exists() and "out of order" in output.read_text(), 300)
    # A process that is still on its way out would be ended by the signal.
    wait_for(lambda: len(psutil.Process(process.pid).children()) == 1, 300)
    wait_for(lambda: progress.exists() and len(progress.read_bytes()) > 500, 300)
    process.send_signal(signal.SIGTERM)
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 128 + signal.SIGTERM, errors
    assert "2 experiments: 1 failed, 1 stopped, in " in out
    assert errors.count("finishing this step and saving") == 1
    assert "raised RuntimeError: number 7 is out of order" in out
    assert f"see {output}\n" in out
    assert "Traceback" in output.read_text()
    assert "Stopped by SIG" in (stopped / "output.txt").read_text()
    before = rows(stopped)

    (tmp_path / "repaired").touch()
    epochs, rest = len(before) + 1, rest_of(out)
    rest[rest.index("100000")] = str(epochs)
    for expected in ("2 finished", "2 skipped"):
        process = start(rest)
        out, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        assert f"2 experiments: {expected}, in " in out
        assert [len(rows(run_dir)) for run_dir in (broken, stopped)] == [epochs] * 2
        assert rows(stopped)[:-1] == before
    assert "Resuming from" in (stopped / "output.txt").read_text()
