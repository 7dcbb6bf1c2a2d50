"""What the command line loads, and what its processes give back: in real processes."""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spinup_tf2.experiments import run_entrypoint

COMMANDS_WITHOUT_TENSORFLOW = [
    ["--help"],
    ["ppo", "--help"],
    ["plot", "--help"],
    ["ls", "data"],
    ["play", "--help"],
    ["presets", "--full"],
    ["export", "--help"],
    ["play", "--env", "CartPole-v1", "--mode", "random", "--norender", "--episodes", "1"],
    ["test_policy", "nowhere"],
    ["tests.cli.own:climber", "--help"],
    ["ppo", "--env", "CartPole-v1", "--gamma", "2"],
]


def start(*command, **options):
    # While it is imported, TensorFlow itself prints as much with this as without.
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=env, **options)


def test_tensorflow_is_not_loaded():
    program = (
        "import sys\n"
        "from spinup_tf2.run import main\n"
        f"for command in {COMMANDS_WITHOUT_TENSORFLOW}:\n"
        "    try:\n"
        "        main(command)\n"
        "    except SystemExit:\n"
        "        pass\n"
        "    assert not {'tensorflow', 'keras', 'mpi4py'} & set(sys.modules), command\n"
    )
    done = start(sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr


def test_help_takes_less_than_a_second():
    """Of processor time, which does not depend on what else the machine is doing."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert start(sys.executable, "-m", "spinup_tf2.run", "ppo", "--help").returncode == 0
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


def test_the_installed_command_and_an_error_of_one_line(tmp_path):
    command = os.path.join(os.path.dirname(sys.executable), "spinup_tf2")
    done = start(command, "ppo", "--env", "CartPol-v1", "--data_dir", str(tmp_path / "data"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("spinup_tf2: error: CartPol-v1 is not registered")
    assert done.stderr.count("\n") == 1
    assert not os.listdir(tmp_path)


LINE = "vpg --env CartPole-v1 --steps_per_epoch 20 --epochs 1 --hid [4] --data_dir data"


@pytest.mark.parametrize(
    ("line", "closed", "status"),
    [
        (LINE, ">&- 2>&-", 0),
        (LINE.replace("Cart", "Card"), "2>&-", 2),
        ("--help", "<&- >&-", 0),
        ("ls nowhere", "2>/dev/full", 2),
        ("ls .", ">/dev/full", 2),
    ],
)
def test_streams_that_are_closed(tmp_path, line, closed, status):
    shell = ("sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "spinup_tf2.run")
    done = start(*shell, *line.split(), cwd=tmp_path)
    assert done.returncode == status
    assert "Traceback" not in done.stderr
    if line == LINE:
        run_dir = tmp_path / "data" / "cmd_vpg" / "cmd_vpg_s0"
        assert {"config.json", "progress.txt", "vars.pkl", "tf2_save"} <= set(os.listdir(run_dir))


def test_a_file_does_not_get_the_number_of_a_stream_that_is_closed(tmp_path):
    """Otherwise the text about the signal would be among the rows."""
    program = (
        "import signal\n"
        "from spinup_tf2.parallel.stopping import Interruption\n"
        "with open('progress.txt', 'w') as rows, Interruption():\n"
        "    signal.raise_signal(signal.SIGUSR1)\n"
    )
    shell = ("sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-c", program)
    assert start(*shell, cwd=tmp_path).returncode == 0
    assert (tmp_path / "progress.txt").read_text() == ""


def test_a_directory_that_has_been_removed(tmp_path):
    (tmp_path / "gone").mkdir()
    shell = ("sh", "-c", 'rmdir ../gone; exec "$@"', "sh", sys.executable, "-m", "spinup_tf2.run")
    done = start(*shell, "ls", cwd=tmp_path / "gone")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith("spinup_tf2: error: the current directory has")
