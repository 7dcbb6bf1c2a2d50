"""Grids of real trainings, several at a time."""

import os
import re
import shlex
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.experiments.schedule.fakes import wait_for

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
SHORT = "--steps_per_epoch 100 --train_pi_iters 1 --train_v_iters 1 --hid [8]"

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


def environment(tmp_path):
    return os.environ | dict(PYTHONPATH=str(ROOT), SPINUP_TF2_DATA_DIR=str(tmp_path / "data"))


def execute(tmp_path, words):
    return subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
    )


def rest_of(out):
    """The words behind `python` of the command that does the rest."""
    return shlex.split(re.search(r"^python (-m spinup_tf2\.run .*)$", out, re.MULTILINE)[1])


def rows(run_dir):
    return (run_dir / "progress.txt").read_text().splitlines()[1:]


def test_one_of_twelve_fails(tmp_path):
    (tmp_path / "numbered.py").write_text(OWN_ENVIRONMENT)
    numbers = " ".join(map(str, range(12)))
    words = shlex.split(
        f"-m spinup_tf2.run ppo --env numbered:Numbered-v0 --env_kwargs:number[] {numbers} "
        f"--exp_name g --epochs 2 {SHORT} --workers 2"
    )
    done = execute(tmp_path, words)
    assert done.returncode == 1, done.stderr
    assert "12 experiments: 11 finished, 1 failed, in " in done.stdout
    run_dirs = [tmp_path / "data" / f"g_{number}" / f"g_{number}_s0" for number in range(12)]
    assert [len(rows(run_dir)) for run_dir in run_dirs] == [2] * 7 + [0] + [2] * 4
    output = run_dirs[7] / "output.txt"
    assert "raised RuntimeError: number 7 is out of order" in done.stdout
    assert f"see {output}\n" in done.stdout
    assert "Traceback" in output.read_text()

    (tmp_path / "repaired").touch()
    done = execute(tmp_path, rest_of(done.stdout))
    assert done.returncode == 0, done.stderr
    assert "12 experiments: 1 finished, 11 skipped, in " in done.stdout
    assert len(rows(run_dirs[7])) == 2


needs_mpi = pytest.mark.skipif(find_spec("mpi4py") is None, reason="needs the mpi extra")


@pytest.mark.parametrize("cpu", [1, pytest.param(2, marks=[pytest.mark.mpi, needs_mpi])])
def test_a_stopped_grid_goes_on(cpu, tmp_path):
    words = shlex.split(
        f"-m spinup_tf2.run ppo --env CartPole-v1 --exp_name g --epochs 100000 {SHORT} "
        f"--seed 0 1 2 --workers 2 --cpu {cpu}"
    )
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    run_dirs = [tmp_path / "data" / "g" / f"g_s{seed}" for seed in range(3)]
    paths = [run_dir / "progress.txt" for run_dir in run_dirs[:2]]
    wait_for(lambda: all(path.exists() and len(path.read_bytes()) > 500 for path in paths), 300)
    process.send_signal(signal.SIGTERM)
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 128 + signal.SIGTERM, errors
    assert "3 experiments: 2 stopped, 1 not begun" in out
    assert errors.count("finishing this step and saving") == 1
    before = [rows(run_dir) for run_dir in run_dirs[:2]]
    assert all("Stopped by SIG" in (path / "output.txt").read_text() for path in run_dirs[:2])

    epochs = max(map(len, before)) + 1
    rest = rest_of(out)
    rest[rest.index("100000")] = str(epochs)
    done = execute(tmp_path, rest)
    assert done.returncode == 0, done.stderr
    assert "3 experiments: 3 finished" in done.stdout
    assert [len(rows(run_dir)) for run_dir in run_dirs] == [epochs] * 3
    for run_dir, first in zip(run_dirs, before, strict=False):
        assert rows(run_dir)[: len(first)] == first
        assert "Resuming from" in (run_dir / "output.txt").read_text()

    done = execute(tmp_path, rest)
    assert "3 experiments: 3 skipped" in done.stdout
