"""Stopping by signals, and by the watchdog."""

import os
import pty
import signal
import subprocess
import sys
import threading
import time

import pytest

from spinup_tf2.errors import Interrupted
from spinup_tf2.parallel import launched, mpi, stopping
from spinup_tf2.parallel.stopping import SIGNALS, Interruption, Watchdog
from tests.cli.closed_pipe import closed_pipe
from tests.fake_mpi import run_ranks

RESUME = "Resume it with: python -m spinup_tf2.run resume DIRECTORY"


def send(signum):
    os.kill(os.getpid(), signum)
    time.sleep(0)  # a signal's handler runs between two bytecodes


@pytest.mark.parametrize("signum", SIGNALS)
def test_a_signal_asks_and_leaving_says_how_to_go_on(signum, capfd):
    before = {each: signal.getsignal(each) for each in SIGNALS}
    with Interruption() as asked:
        assert not asked.requested
        assert not asked.agreed()
        send(signum)
        assert asked.requested
        assert asked.agreed()
        assert capfd.readouterr().err.count(f"{signum.name}: finishing this step") == 1
        with pytest.raises(Interrupted, match=f"stopped by {signum.name}") as left:
            asked.leave(RESUME)
    assert left.value.signum == signum
    assert isinstance(left.value, KeyboardInterrupt)
    assert f"\nStopped by {signum.name}. {RESUME}\n" in capfd.readouterr().out
    assert {each: signal.getsignal(each) for each in SIGNALS} == before


def test_leaving_is_an_interruption_also_where_nobody_reads(capfd):
    asked = Interruption()
    asked.request(signal.SIGTERM)
    with closed_pipe(), pytest.raises(Interrupted, match="stopped by SIGTERM"):
        asked.leave(RESUME)


def test_a_forked_process_leaves_the_stop_to_the_run_and_can_be_ended(capfd):
    """As multiprocessing ends processes: with SIGTERM, and it then waits for them."""
    with Interruption() as asked:
        child = os.fork()
        if child == 0:
            try:
                for signum in sorted(SIGNALS, key=lambda each: each == signal.SIGTERM):
                    send(signum)
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == -signal.SIGTERM
        assert not asked.requested
        send(signal.SIGUSR1)
        assert asked.requested
    assert capfd.readouterr().err.count("finishing this step") == 1


def test_what_is_ignored_stays_ignored():
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    try:
        with Interruption() as asked:
            send(signal.SIGHUP)
            assert not asked.requested
    finally:
        signal.signal(signal.SIGHUP, previous)


def test_one_ctrl_c_that_arrives_twice_is_one(monkeypatch):
    with Interruption() as asked:
        send(signal.SIGINT)
        send(signal.SIGINT)
        monkeypatch.setattr(stopping, "SAME_CTRL_C", 0.0)
        send(signal.SIGTERM)  # which cannot stop it any sooner
        assert asked.signum == signal.SIGINT
        with pytest.raises(KeyboardInterrupt) as left:
            send(signal.SIGINT)
    assert not isinstance(left.value, Interrupted)


def test_ranks_agree(capfd):
    def rank():
        with Interruption() as asked:
            nobody = asked.agreed()
            if mpi.proc_id() == 1:
                asked.request(signal.SIGTERM)
            together = asked.agreed()
            with pytest.raises(Interrupted) as left:
                asked.leave(RESUME)
            return nobody, together, asked.requested, left.value.signum

    expected = [(False, True, rank == 1, signal.SIGTERM) for rank in range(3)]
    assert run_ranks(3, rank) == expected
    assert capfd.readouterr().out.count(RESUME) == 1


def test_a_terminal_that_is_gone_does_not_stop_the_save(tmp_path):
    program = (
        "import os, signal, sys, time\n"
        "from spinup_tf2.parallel.stopping import Interruption\n"
        "with Interruption() as asked:\n"
        "    print('ready', flush=True)\n"
        "    while not asked.requested:\n"
        "        time.sleep(0.01)\n"
        "    print('saving', flush=True)\n"
        f"    open({str(tmp_path / 'saved')!r}, 'w').close()\n"
        "    asked.leave('resume')\n"
    )
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    said = b""
    while not said.endswith(b"\n"):  # a terminal takes the end of the line in a second step
        said += os.read(ours, 16)
    assert said == b"ready\r\n"
    os.close(ours)
    process.send_signal(signal.SIGHUP)  # what the kernel sends to the session of a terminal
    process.wait(timeout=20)
    assert (tmp_path / "saved").exists()


def test_interrupt_once(monkeypatch):
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        stopping.interrupt_once()
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)
        send(signal.SIGINT)
        monkeypatch.setattr(stopping, "SAME_CTRL_C", 0.0)
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, previous)


# ---------------------------------------------------------------- the watchdog


def threads():
    return {thread.name for thread in threading.enumerate()}


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
            mpi.beat()
            time.sleep(0.05)
        assert alarms == []
        begin = time.monotonic()
        time.sleep(1.8)
        assert 0.7 < alarms[0] - begin < 1.7
