"""Experiments that start at once, train nothing, and leave what a run leaves."""

import subprocess
import sys
import time

import pytest

from spinup_tf2 import run
from spinup_tf2.experiments import run_entrypoint
from spinup_tf2.experiments.calling import Processes

# What it does is in its seed. It writes when it began and ended, for tests of what runs at a time.
SCRIPT = """
import os, signal, sys, time
run_dir, seed, began = sys.argv[1], int(sys.argv[2]), time.time()
print("epoch 0 of seed", seed, flush=True)
with open(os.path.join(run_dir, "progress.txt"), "w") as file:
    file.write("Epoch\\tAverageEpRet\\tTime\\n0\\t10.5\\t1\\n1\\t21.25\\t2\\n")
if seed == 13:
    sys.exit("ValueError: the environment fell over")
if seed == 77:
    os.kill(os.getpid(), signal.SIGKILL)
if seed == 15:
    os.kill(os.getpid(), signal.SIGTERM)
if 100 <= seed < 300:  # runs until it is stopped; those from 200 on cannot be
    def stop(signum, _):
        if seed < 200:
            open(os.path.join(run_dir, "saved"), "w").write(str(signum))
            os._exit(128 + signum)
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(signum, stop)
    open(os.path.join(run_dir, "running"), "w").close()
    time.sleep(60)
time.sleep(0.3)
os.makedirs(os.path.join(run_dir, "tf2_save"), exist_ok=True)
with open(os.path.join(run_dir, "times"), "w") as file:
    file.write(f"{began} {time.time()}")
"""


@pytest.fixture(name="fakes")
def start_fakes(monkeypatch, tmp_path):
    """Starts such experiments in the place of real ones; the list of those that were started."""
    started = []

    def start(processes, arguments, at_a_time, output):
        experiment = run_entrypoint.read_experiment(arguments[1])
        seed = experiment.kwargs["seed"]
        started.append((seed, at_a_time, experiment.kwargs.get("resume", False)))
        command = [sys.executable, "-I", "-S", "-c", SCRIPT, experiment.output_dir, str(seed)]
        return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    monkeypatch.setattr(Processes, "start", start)
    monkeypatch.setenv("SPINUP_TF2_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return started


def execute(tmp_path, flags, algorithm="ppo"):
    """Run a command line of experiments called `g`; returns its exit status."""
    words = f"{algorithm} --env CartPole-v1 --epochs 2 --exp_name g --data_dir".split()
    try:
        run.main([*words, str(tmp_path), *flags.split()])
    except SystemExit as left:
        return left.code
    return 0


def overlapping(tmp_path):
    """The largest number of experiments that have run at the same moment."""
    times = [[float(word) for word in path.read_text().split()] for path in tmp_path.rglob("times")]
    return max(sum(begin <= at < end for begin, end in times) for at, _ in times)


def wait_for(condition, seconds=20):
    """Wait until `condition()` is true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.05)
