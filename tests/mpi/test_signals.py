"""Signals, sent to whatever has started a run: it stops, saves, and goes on when it is resumed."""

import os
import re
import shlex
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.mpi.launchers import mpi, processes_with, read_rows, start, wait_for  # noqa: F401
from tests.progress import rows_without_time

pytestmark = pytest.mark.mpi

BOTH_PASS_ON = [signal.SIGUSR1]  # of what is sent to mpirun itself; MPICH's also these:
MPICH_PASSES_ON = [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1]

# The loop of an algorithm, without TensorFlow. Rank 1 takes longer for a step than rank 0.
LOOP = """
import sys, time
from spinup_tf2.errors import Interrupted
from spinup_tf2.parallel import mpi
from spinup_tf2.parallel.stopping import Interruption
from spinup_tf2.utils.mpi_tools import mpi_fork
mpi_fork(int(sys.argv[1]))
mpi.comm()
with Interruption() as asked:
    for step in range(1_000_000):
        for _ in range(2 + 4 * mpi.proc_id()):
            if not asked.requested:
                time.sleep(0.05)
        if asked.agreed():
            open(f"saved{mpi.proc_id()}", "w").write(str(step))
            asked.leave("Resume it.")
        if step == 3 and mpi.proc_id() == 0:
            open("running", "w").close()
"""


def assert_saved_and_said(process, tmp_path, script):
    out, errors = process.communicate(timeout=30)
    steps = {Path(tmp_path, f"saved{rank}").read_text() for rank in (0, 1)}
    assert len(steps) == 1, steps
    assert out.count("Resume it.") == 1
    assert errors.count("finishing this step and saving") == 1
    assert "Traceback" not in errors
    wait_for(lambda: not processes_with(script), 5)


def write_loop(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(LOOP)
    return path


def wait_until_running(tmp_path):
    wait_for(lambda: Path(tmp_path, "running").exists())


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGHUP])  # parallel/test_launch has all
def test_a_launcher_turns_signals_into_sigusr1(mpi, signum, tmp_path):  # noqa: F811
    script = write_loop(tmp_path)
    # mpi_fork takes the mpirun beside Python, or else the one on PATH.
    program = (
        "import sys\n"
        "from spinup_tf2.parallel import launch\n"
        f"launch.find_mpirun = lambda: {mpi.mpirun!r}\n"
        "sys.argv = sys.argv[1:]\n"
        "sys.orig_argv = [sys.executable, *sys.argv]\n"
        f"exec(open({str(script)!r}).read())\n"
    )
    command = [sys.executable, "-c", program, script, "2"]
    process = start(command, mpi.environment(2), cwd=tmp_path, preexec_fn=with_ctrl_c)
    wait_until_running(tmp_path)
    os.killpg(process.pid, signum)  # as a terminal does
    assert_saved_and_said(process, tmp_path, script)
    assert process.returncode == 128 + signum


@pytest.mark.parametrize("signum", MPICH_PASSES_ON)
def test_mpirun_passes_signals_on(mpi, signum, tmp_path):  # noqa: F811
    if mpi.variables and signum not in BOTH_PASS_ON:
        pytest.skip("Open MPI's mpirun kills the ranks a quarter of a second later")
    script = write_loop(tmp_path)
    process = mpi.start(2, script, 2, cwd=tmp_path, preexec_fn=with_ctrl_c)
    wait_until_running(tmp_path)
    process.send_signal(signum)
    assert_saved_and_said(process, tmp_path, script)
    assert process.returncode == 128 + signum


def test_one_rank_is_signalled(mpi, tmp_path):  # noqa: F811
    script = write_loop(tmp_path)
    process = mpi.start(2, script, 2, cwd=tmp_path)
    wait_until_running(tmp_path)
    ranks = [p for p in processes_with(script) if p.pid != process.pid and is_rank(p, 1)]
    ranks[0].send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)
    assert Path(tmp_path, "saved0").read_text() == Path(tmp_path, "saved1").read_text()
    assert "Stopped by SIGTERM. Resume it." in out
    assert process.returncode == 128 + signal.SIGTERM


def test_a_second_ctrl_c_kills_ranks_that_do_not_listen(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import signal, time\n"
        "from spinup_tf2.parallel import mpi\n"
        "from spinup_tf2.utils.mpi_tools import mpi_fork\n"
        "mpi_fork(2)\n"
        "mpi.comm()\n"
        "signal.signal(signal.SIGUSR1, signal.SIG_IGN)\n"
        "open(f'running{mpi.proc_id()}', 'w').close()\n"
        "time.sleep(1000)\n"
    )
    process = start([sys.executable, script], None, cwd=tmp_path, preexec_fn=with_ctrl_c)
    wait_for(lambda: len([*tmp_path.glob("running?")]) == 2)
    process.send_signal(signal.SIGINT)
    time.sleep(1.2)
    assert len(processes_with(script)) >= 3
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) == 130
    wait_for(lambda: not processes_with(script), 10)
    process.communicate()


def is_rank(process, rank):
    variables = process.environ()
    return str(rank) in (variables.get("PMI_RANK"), variables.get("OMPI_COMM_WORLD_RANK"))


def with_ctrl_c():
    """A shell lets its background jobs, such as these tests may be, ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


# ---------------------------------------------------------------- a training


TRAIN = (
    "ppo --env CartPole-v1 --steps_per_epoch 200 --hid [8] --train_pi_iters 2 --train_v_iters 2 "
    "--deterministic_resume --quiet --exp_name"
)


def run_dir(tmp_path, name):
    return Path(tmp_path, "data", name, f"{name}_s0")


@pytest.mark.slow
@pytest.mark.parametrize("way", ["single", "num_cpu"])
def test_a_training_stops_and_resumes_by_the_printed_command(mpi, way, tmp_path):  # noqa: F811
    """It is sent signals, one after the other, and ends as if there had been none."""
    if way == "single" and mpi.variables:
        pytest.skip("one process is the same with every MPI library")
    environment = mpi.environment(2) | {
        "SPINUP_TF2_DATA_DIR": str(tmp_path / "data"),
        "SPINUP_TF2_CHECKPOINT_INTERVAL": "0",
    }
    flags = ["--cpu", "2", *mpi.flags] if way == "num_cpu" else []

    def begin(*words):
        command = [sys.executable, "-m", "spinup_tf2.run", *words, *flags]
        return start(command, environment, cwd=tmp_path, preexec_fn=with_ctrl_c)

    stopped = run_dir(tmp_path, "stopped")
    words = [*TRAIN.split(), "stopped", "--epochs", "1000"]
    for signum in dict(single=[signal.SIGINT, signal.SIGTERM], num_cpu=[signal.SIGHUP])[way]:
        rows = len(read_rows(stopped))
        process = begin(*words)
        wait_for(lambda rows=rows: len(read_rows(stopped)) >= rows + 3)
        process.send_signal(signum)
        out, errors = process.communicate(timeout=60)
        assert process.returncode == 128 + signum, errors
        assert "Traceback" not in errors
        [line] = re.findall(r"Resume it with: python -m spinup_tf2\.run (.*)", out)
        words = [*shlex.split(line), "--quiet"]

    epochs = len(read_rows(stopped)) + 3
    finish = begin(*words, "--epochs", str(epochs))
    assert finish.wait(timeout=120) == 0, finish.stderr.read()
    whole = begin(*TRAIN.split(), "whole", "--epochs", str(epochs))
    assert whole.wait(timeout=120) == 0, whole.stderr.read()
    rows = rows_without_time(stopped / "progress.txt")
    assert len(rows) == epochs + 1
    assert rows == rows_without_time(run_dir(tmp_path, "whole") / "progress.txt")
