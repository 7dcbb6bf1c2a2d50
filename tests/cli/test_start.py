"""What the command line loads, and what its processes give back: in real processes."""

import json
import math
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spinup_tf2.experiments import run_entrypoint
from tests.progress import rows_without_time

COMMANDS_WITHOUT_TENSORFLOW = [
    ["--help"],
    ["ppo", "--help"],
    ["plot", "--help"],
    ["ls", "data"],
    ["ls", "--help"],
    ["play", "--help"],
    ["export", "--help"],
    ["play", "--env", "CartPole-v1", "--mode", "random", "--norender", "--episodes", "1"],
    ["ppo", "--env", "CartPole-v1", "--gamma", "2"],
]


def start(*arguments, **options):
    command = [sys.executable, "-m", "spinup_tf2.run", *arguments]
    # While it is imported, TensorFlow itself prints as much with this as without.
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=env, **options)


@pytest.mark.parametrize("arguments", COMMANDS_WITHOUT_TENSORFLOW)
def test_tensorflow_is_not_loaded(arguments):
    program = (
        "import sys\n"
        "from spinup_tf2.run import main\n"
        "try:\n"
        f"    main({arguments})\n"
        "except SystemExit:\n"
        "    pass\n"
        "assert not {'tensorflow', 'keras', 'mpi4py'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.parametrize("arguments", [["--help"], ["ppo", "--help"]])
def test_help_takes_less_than_a_second(arguments):
    """Of processor time, which does not depend on what else the machine is doing."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert start(*arguments).returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1


@pytest.mark.parametrize("program", [["-m", "spinup_tf2.run", "help"], [run_entrypoint.__file__]])
def test_ctrl_c_while_it_is_loaded_prints_no_traceback(tmp_path, program):
    """In the place of the first module that takes long to import there is one that is stopped."""
    text = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nraise ImportError\n"
    (tmp_path / "gymnasium.py").write_text(text)
    (tmp_path / "process.json").write_text(
        json.dumps(dict(sys_path=[str(tmp_path), *sys.path], environ={}))
    )
    done = subprocess.run(
        [sys.executable, *program, *([] if "-m" in program else [str(tmp_path)])],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{Path(run_entrypoint.__file__).parents[2]}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_an_error_is_one_line_and_status_2(tmp_path):
    done = start("ppo", "--env", "CartPol-v1", "--data_dir", str(tmp_path / "data"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("spinup_tf2: error: CartPol-v1 is not registered")
    assert done.stderr.count("\n") == 1
    assert not os.listdir(tmp_path)


def test_the_installed_command(tmp_path):
    command = os.path.join(os.path.dirname(sys.executable), "spinup_tf2")
    done = subprocess.run([command, "ppo"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "--env_name" in done.stderr


OWN_ENVIRONMENT = """
import gymnasium

class Own(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, error=None):
        self.error = error

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        if self.error:
            raise RuntimeError(self.error)
        return self.observation_space.sample(), 1.0, False, False, {}

gymnasium.register("Own-v0", Own)
"""

SHORT = ["--steps_per_epoch", "20", "--epochs", "1", "--hid", "[4]"]


def test_an_experiment_and_a_failing_one(tmp_path):
    (tmp_path / "own.py").write_text(OWN_ENVIRONMENT)
    arguments = ["ppo", "--env", "own:Own-v0", *SHORT, "--data_dir", "data"]

    done = start(*arguments, "--quiet", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    run_dir = tmp_path / "data" / "cmd_ppo" / "cmd_ppo_s0"
    assert {"config.json", "progress.txt", "vars.pkl", "tf2_save"} <= set(os.listdir(run_dir))

    failing = ["--env_kwargs:error", "broken robot", "--exp_name", "failing"]
    done = start(*arguments, *failing, cwd=tmp_path)
    assert done.returncode == 1
    assert "RuntimeError: broken robot" in done.stderr
    assert "There appears to have been an error in your experiment." in done.stdout
    assert "CalledProcessError" not in done.stderr  # which would say nothing new


@pytest.mark.slow
def test_environments_elsewhere_train_like_sync_ones(tmp_path):
    line = "ppo --env CartPole-v1 --steps_per_epoch 200 --epochs 2 --hid [8] --num_envs 2 --quiet"
    runs = []
    for vectorization in ("sync", "async", "threads"):
        where = ["--data_dir", vectorization, "--vectorization", vectorization]
        done = start(*line.split(), "--train_pi_iters", "2", *where, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        path = tmp_path / vectorization / "cmd_ppo" / "cmd_ppo_s0" / "progress.txt"
        runs.append(rows_without_time(path))
    assert len(runs[0]) == 3
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.slow
def test_mujoco(tmp_path):
    pytest.importorskip("mujoco", reason='needs: pip install ".[mujoco]"')
    line = "ppo --env HalfCheetah-v5 --steps_per_epoch 1000 --epochs 1 --hid [8] --quiet"
    iterations = ["--train_pi_iters", "2", "--train_v_iters", "2"]
    done = start(*line.split(), *iterations, "--data_dir", "data", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    header, row = rows_without_time(tmp_path / "data" / "cmd_ppo" / "cmd_ppo_s0" / "progress.txt")
    values = {name: float(value) for name, value in zip(header, row, strict=True)}
    assert all(math.isfinite(value) for value in values.values())
    assert values["EpLen"] == values["TotalEnvInteracts"] == 1000
