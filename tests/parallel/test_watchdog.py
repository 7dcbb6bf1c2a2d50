import subprocess
import sys
import threading
import time
import timeit

import psutil
import pytest

from spinup_tf2.errors import UserError
from spinup_tf2.parallel import heartbeat, launch, launched, mpi
from spinup_tf2.parallel.watchdog import Watchdog, beat
from tests.fake_mpi import run_ranks

try:
    MPIRUN = launch.find_mpirun()
except UserError:
    MPIRUN = None

needs_mpirun = pytest.mark.skipif(MPIRUN is None, reason="there is no mpirun")


def threads():
    return {thread.name for thread in threading.enumerate()}


def test_a_beat_costs_next_to_nothing():
    seconds = min(timeit.repeat(beat, number=10_000, repeat=20)) / 10_000
    assert seconds < 0.2e-6


def test_one_process_needs_no_watchdog(monkeypatch):
    with Watchdog(0.1, "message"):
        assert "watchdog" not in threads()
    # neither do ranks that are threads
    assert run_ranks(2, lambda: Watchdog(0.1, "").__enter__()._thread) == [None, None]
    monkeypatch.setattr(launched, "size", lambda: 2)
    with Watchdog(None, "message"):
        assert "watchdog" not in threads()
    with Watchdog(60, "message"):
        assert "watchdog" in threads()
    assert "watchdog" not in threads()


@pytest.fixture
def alarms(monkeypatch):
    """The times at which a watchdog would have ended the job."""
    monkeypatch.setattr(launched, "size", lambda: 2)
    times = []
    monkeypatch.setattr(Watchdog, "_end_job", lambda self: times.append(time.monotonic()))
    return times


def test_progress_keeps_it_quiet_and_silence_does_not(alarms):
    with Watchdog(1, "message"):
        for _ in range(30):
            beat()
            time.sleep(0.05)
        assert alarms == []
        begin = time.monotonic()
        time.sleep(1.8)
        assert 0.7 < alarms[0] - begin < 1.7


def test_collectives_are_progress(monkeypatch):
    import numpy as np

    calls = [
        lambda: mpi.mpi_sum(1.0),
        lambda: mpi.broadcast(np.zeros(1)),
        lambda: mpi.broadcast_object(1),
        lambda: mpi.gather_objects(1),
    ]
    for call in calls:
        monkeypatch.setattr(heartbeat, "_alive", False)
        call()
        assert heartbeat._alive


# ---------------------------------------------------------------- real jobs


SCRIPT = """
import os, time, psutil
from spinup_tf2.parallel import mpi
from spinup_tf2.parallel.reaper import launcher_of
from spinup_tf2.parallel.watchdog import Watchdog
mpi.comm()
if mpi.proc_id() == 0:
    print(launcher_of(psutil.Process()).pid, flush=True)
def lost_here():
    time.sleep(1000)
with Watchdog(1, "go on with: RESUME"):
    for _ in range(3):
        time.sleep(0.5)
        mpi.mpi_sum(1)
    if mpi.proc_id() == 1:
        {deed}
        lost_here()
    mpi.mpi_sum(1)
"""


def run_script(deed):
    """Run SCRIPT on two ranks; returns the process of mpirun, what it printed, and the seconds."""
    command = [MPIRUN, "-np", "2", sys.executable, "-c", SCRIPT.format(deed=deed)]
    begin = time.monotonic()
    process = subprocess.Popen(
        command,
        env=launch.mpirun_environment(2),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    out, err = process.communicate(timeout=60)
    return process, out, err, time.monotonic() - begin


@pytest.mark.mpi
@needs_mpirun
def test_a_rank_that_gets_nowhere_ends_the_job():
    process, out, err, seconds = run_script("pass")
    assert process.returncode != 0
    assert seconds < 10
    assert int(out) == process.pid
    assert "in lost_here" in err
    assert "No progress for 1 s on rank 1 of 2, host " in err
    assert "No progress for 1 s on rank 0 of 2, host " in err  # which waited for it
    assert "go on with: RESUME" in err


@pytest.mark.mpi
@needs_mpirun
def test_a_launcher_that_no_longer_answers_is_killed():
    # As when the network is gone: nobody reads what MPI has to say.
    stop = "os.system('kill -STOP %d' % launcher_of(psutil.Process()).pid)"
    process, _, _, seconds = run_script(stop)
    assert process.returncode != 0
    assert seconds < 20
    time.sleep(1)
    left = [
        p for p in psutil.process_iter(["cmdline"]) if stop in " ".join(p.info["cmdline"] or [])
    ]
    assert left == []
