import os
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest

from spinup_tf2.errors import Interrupted, UserError
from spinup_tf2.parallel import launch
from spinup_tf2.parallel.stopping import SIGNALS


def test_mpirun_of_this_python_comes_first(monkeypatch, tmp_path):
    def executable(folder):
        folder.mkdir()
        path = folder / "mpirun"
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return str(path)

    beside, on_path = executable(tmp_path / "venv"), executable(tmp_path / "bin")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert launch.find_mpirun() == beside
    shutil.rmtree(tmp_path / "venv")
    assert launch.find_mpirun() == on_path
    shutil.rmtree(tmp_path / "bin")
    with pytest.raises(UserError, match=r'pip install "spinup_tf2\[mpi\]"'):
        launch.find_mpirun()


def test_mpirun_environment(monkeypatch):
    monkeypatch.setattr(launch, "available_cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMPI_MCA_btl", "tcp,self")
    environment = launch.mpirun_environment(3)
    assert environment["OMP_NUM_THREADS"] == "2"
    assert environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] == "1"
    assert environment["OMPI_MCA_btl"] == "tcp,self"  # what the user has set stays
    assert launch.mpirun_environment(100)["OMP_NUM_THREADS"] == "1"
    assert environment["HOME"] == os.environ["HOME"]


def test_run_to_end_gives_the_status_of_a_shell():
    assert launch.run_to_end([sys.executable, "-c", "raise SystemExit(3)"]) == 3
    killed = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert launch.run_to_end([sys.executable, "-c", killed]) == 128 + 9


# ---------------------------------------------------------------- signals


COMMAND = """
import signal, sys, time
signals = []
for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
    signal.signal(signum, lambda signum, _: signals.append(signum.real))
print('ready', flush=True)
while not signals:
    time.sleep(0.01)
time.sleep(0.5)  # as if it were saving
print(*set(signals), flush=True)
while sys.argv[1:]:
    time.sleep(1)  # and not leaving
"""

PROGRAM = f"""
import sys
from spinup_tf2.errors import Interrupted
from spinup_tf2.parallel.launch import run_to_end
try:
    run_to_end([sys.executable, '-c', {COMMAND!r}] + sys.argv[2:], mpi=sys.argv[1] == 'mpi')
except Interrupted as interrupted:
    sys.exit(interrupted.status)
"""


def start(*arguments):
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell lets its background jobs, such as these tests may be, ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("kind", ["single", "mpi"])
@pytest.mark.parametrize(
    ("send", "signum"),
    [*((os.kill, signum) for signum in SIGNALS), (os.killpg, signal.SIGINT)],  # a terminal's
)
def test_signals_are_passed_on_and_the_command_finishes(signum, kind, send):
    process = start(kind)
    send(process.pid, signum)
    out, _ = process.communicate(timeout=20)
    # mpirun is not reached by the terminal's, because it might kill the ranks.
    assert out == f"{int(signal.SIGUSR1 if kind == 'mpi' else signum)}\n"
    assert process.returncode == 128 + signum  # although the command ended with 0


@pytest.mark.parametrize("kind", ["single", "mpi"])
def test_a_second_ctrl_c_kills_the_command(kind):
    process = start(kind, "stay")
    command = psutil.Process(process.pid).children()[0]
    process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)  # less than a second later: still the first
    assert process.stdout.readline()
    assert command.is_running()
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=5) == 128 + signal.SIGTERM
    assert not command.is_running()
    process.stdout.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can do it")
def test_a_command_is_asked_to_stop_when_its_parent_is_killed():
    process = start("single")
    command = psutil.Process(process.pid).children()[0]
    process.kill()
    assert process.stdout.read() == f"{int(signal.SIGTERM)}\n"  # until the command has ended, too
    process.wait()
    process.stdout.close()
    psutil.wait_procs([command], timeout=5)
    assert not command.is_running() or command.status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("sys.exit('boom')", 1),
        ("sys.exit(3)", 3),
        ("os.kill(os.getpid(), signal.SIGSEGV)", 128 + signal.SIGSEGV),
        ("sys.exit(0)", 128 + signal.SIGTERM),
        ("sys.exit(128 + signal.SIGHUP)", 128 + signal.SIGTERM),
        ("os.kill(os.getpid(), signal.SIGTERM)", 128 + signal.SIGTERM),
    ],
)
def test_a_command_that_fails_after_the_signal_has_not_saved(end, expected):
    program = """
import os, signal, sys, time
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
os.kill(os.getppid(), signal.SIGTERM)
while not stop:
    time.sleep(0.01)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
"""
    try:
        status = launch.run_to_end([sys.executable, "-c", program + end])
    except Interrupted as interrupted:
        status = interrupted.status
        assert expected == 128 + signal.SIGTERM
    assert status == expected


def test_commands(monkeypatch, tmp_path):
    mpirun = tmp_path / "a folder" / "mpirun"
    mpirun.parent.mkdir()
    mpirun.write_text("#!/bin/sh\n")
    mpirun.chmod(0o755)
    monkeypatch.setattr(launch, "find_mpirun", lambda: str(mpirun))
    python = [sys.executable, "script.py"]
    command = launch.mpirun_command(2, ["script.py"], bind_to_core=True)
    assert command == [str(mpirun), "-n", "2", "-bind-to", "core", *python]
    command = launch.mpirun_command(4, ["script.py"], launcher=f"'{mpirun}' -hosts 'a:2,$HOME; ls'")
    assert command == [str(mpirun), "-hosts", "a:2,$HOME; ls", "-n", "4", *python]
    for launcher in ("", "no-such-program -n 2", "'srun"):
        with pytest.raises(UserError, match=r"^launcher is .*srun|^launcher is .*cannot be read"):
            launch.parse_launcher(launcher)
