"""One rank dies: the others, which would wait for it for ever, end within seconds."""

import socket
import time
from pathlib import Path

import pytest

from tests.mpi.launchers import mpi, processes_with, wait_for  # noqa: F401 (a fixture)

pytestmark = pytest.mark.mpi

SECONDS = 5  # in which the job must have ended, counted from the death

# Without TensorFlow: a loop of collectives, in which rank 1 dies.
LOOP = """
import ctypes, os, re, signal, sys, time
from spinup_tf2.parallel import mpi
mpi.proc_id()
shared = re.findall(r"/dev/shm/mpich\\S+$", open("/proc/self/maps").read(), re.MULTILINE)
open(f"shared{mpi.proc_id()}", "w").write("\\n".join(shared))
def lost():
    raise RuntimeError("lost")
deaths = dict(
    raises=lost,
    exits_0=lambda: sys.exit(0),
    exits_3=lambda: sys.exit(3),
    killed=lambda: os.kill(os.getpid(), signal.SIGKILL),
    crashes=lambda: ctypes.string_at(0),
    aborts=lambda: mpi.abort(1),
)
if sys.argv[1] == "aborts":  # before all ranks have communicated
    if mpi.proc_id() == 1:
        open("death", "w").write(repr(time.time()))
        deaths["aborts"]()
    time.sleep(60)
with mpi.exit_together():
    for i in range(1_000_000):
        mpi.mpi_sum(i)
        if i == 200 and mpi.proc_id() == 1:
            open("death", "w").write(repr(time.time()))
            deaths[sys.argv[1]]()
"""

# A training, in which rank 1 dies where it says.
TRAINING = """
import sys, time
import gymnasium as gym
import spinup_tf2
from spinup_tf2.files import logger as logx
from spinup_tf2.parallel import mpi
place, calls = sys.argv[1], 0
def dies(function, after):
    def wrapper(*args, **kwargs):
        global calls
        calls += 1
        if mpi.proc_id() == 1 and calls > after:
            open("death", "w").write(repr(time.time()))
            raise RuntimeError("lost")
        return function(*args, **kwargs)
    return wrapper
def make():
    env = gym.make("CartPole-v1")
    if place == "in_step":
        env.step = dies(env.step, 150)
    return env
if place == "in_save":
    logx.EpochLogger.save_state = dies(logx.EpochLogger.save_state, 1)
spinup_tf2.ppo(
    make, steps_per_epoch=200, epochs=1000, train_pi_iters=2, train_v_iters=2, save_freq=2,
    ac_kwargs=dict(hidden_sizes=(8,)), logger_kwargs=dict(output_dir="run", quiet=True),
)
"""


def die(mpi, program, how, tmp_path, n):  # noqa: F811
    """Run a program in which rank 1 dies; returns the exit status and what is on stderr."""
    path = Path(tmp_path, "script.py")
    path.write_text(program)
    process = mpi.start(n, path, how, cwd=tmp_path)
    try:
        _, errors = process.communicate(timeout=120)
        seconds = time.time() - float(Path(tmp_path, "death").read_text())
    finally:
        process.kill()
    print(f"{how}: status {process.returncode}, {seconds:.1f} s after the death")
    assert seconds < SECONDS
    wait_for(lambda: not processes_with(path), 5)
    return process.returncode, errors


def assert_one_report(errors, n):
    assert errors.count("RuntimeError: lost\n") == 1
    assert errors.count(f"An error on rank 1 of {n}, host {socket.gethostname()}:\n") == 1


@pytest.mark.parametrize("how", ["raises", "exits_0", "exits_3", "killed", "crashes", "aborts"])
def test_a_rank_dies(mpi, how, tmp_path):  # noqa: F811
    status, errors = die(mpi, LOOP, how, tmp_path, 3)
    shared = {line for path in tmp_path.glob("shared?") for line in path.read_text().split()}
    assert not any(Path(path).exists() for path in shared)
    assert status != 0
    assert errors.count("Traceback (most recent call last)") == (how == "raises")
    if how == "raises":
        assert_one_report(errors, 3)
    if how == "exits_0":
        assert errors.count("on rank 1 of 3, host ") == 1
        assert "left with sys.exit(0), and the others did not" in errors
    if how == "exits_3":
        assert status == 3


@pytest.mark.slow
@pytest.mark.parametrize("place", ["in_step", "in_save"])
def test_a_rank_dies_while_training(mpi, place, tmp_path):  # noqa: F811
    status, errors = die(mpi, TRAINING, place, tmp_path, 2)
    assert status != 0
    assert_one_report(errors, 2)


# A rank that gets nowhere.
STUCK = """
import os, sys, time, psutil
from spinup_tf2.parallel import mpi
from spinup_tf2.parallel.stopping import Watchdog, launcher_of
mpi.comm()
launcher = launcher_of(psutil.Process())
def lost_here():
    time.sleep(1000)
with Watchdog(1, "go on with: RESUME"):
    for _ in range(3):
        time.sleep(0.5)
        mpi.mpi_sum(1)
    if mpi.proc_id() == 1:
        open("death", "w").write(f"{time.time()} {launcher.pid}")
        if sys.argv[1] == "launcher stopped":
            launcher.suspend()
        lost_here()
    mpi.mpi_sum(1)
"""


@pytest.mark.parametrize("how", ["launcher answers", "launcher stopped"])
def test_a_rank_that_gets_nowhere_ends_the_job(mpi, how, tmp_path):  # noqa: F811
    """Also where nobody reads what MPI has to say, as when the network is gone."""
    path = Path(tmp_path, "script.py")
    path.write_text(STUCK)
    process = mpi.start(2, path, how, cwd=tmp_path)
    _, errors = process.communicate(timeout=60)
    began, launcher = Path(tmp_path, "death").read_text().split()
    print(f"{how}: status {process.returncode}, after {time.time() - float(began):.1f} s")
    assert process.returncode != 0
    assert time.time() - float(began) < (7 if how == "launcher answers" else 15)
    wait_for(lambda: not processes_with(path), 10)
    assert int(launcher) == process.pid
    if how == "launcher answers":
        assert "in lost_here" in errors
        assert "No progress for 1 s on rank 1 of 2, host " in errors
        assert "No progress for 1 s on rank 0 of 2, host " in errors  # which waited for it
        assert "go on with: RESUME" in errors
