"""One writer for each run's directory, whatever becomes of the writers."""

import json
import os
import signal
import subprocess
import sys

import pytest

from spinup_tf2.errors import UserError
from spinup_tf2.files.run_directory import LOCK, run_lock

# Holds the directory argv[1] until it is killed, or until its stdin is closed.
HOLDER = """
import sys
from spinup_tf2.files.run_directory import run_lock
with run_lock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def hold(run_dir):
    """A process that holds a directory."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(run_dir)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout.readline() == b"held\n"
    return holder


def test_another_process_is_kept_out_while_a_run_is_alive(tmp_path):
    holder = hold(tmp_path)
    with (
        pytest.raises(UserError, match=rf"{tmp_path} is being written to.*{holder.pid}"),
        run_lock(tmp_path),
    ):
        pass
    holder.stdin.close()
    assert holder.wait() == 0
    assert not (tmp_path / LOCK).exists()
    with run_lock(tmp_path):
        pass


def test_directories_that_were_made_for_nothing_are_removed(tmp_path):
    (tmp_path / "mine").mkdir()
    with run_lock(tmp_path / "mine" / "exp" / "run"):
        assert (tmp_path / "mine" / "exp" / "run").is_dir()
    assert [*(tmp_path / "mine").iterdir()] == []
    with run_lock(tmp_path / "mine" / "exp" / "run"):
        (tmp_path / "mine" / "exp" / "rows.txt").touch()
    assert [path.name for path in (tmp_path / "mine" / "exp").iterdir()] == ["rows.txt"]
    with run_lock(tmp_path / "mine"):
        pass
    assert (tmp_path / "mine").is_dir()


def test_the_lock_of_another_run_stays(tmp_path):
    """Where a directory was moved away while its run went on, and a new one begins."""
    run = tmp_path / "run"
    with run_lock(run):
        run.rename(tmp_path / "moved")
        holder = hold(run)
    assert (run / LOCK).exists()
    holder.communicate()
    assert not run.exists()


def test_a_run_that_was_killed_locks_nobody_out(tmp_path):
    holder = hold(tmp_path)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (tmp_path / LOCK).exists()
    with run_lock(tmp_path):
        assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()


def test_what_a_killed_run_had_forked_locks_nobody_out(tmp_path):
    forking = HOLDER.replace(
        "    sys.stdin", "    os.write(1, b'%d\\n' % os.fork())\n    sys.stdin"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", f"import os{forking}", str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout.readline() == b"held\n"
    child = max(int(holder.stdout.readline()) for _ in range(2))  # which itself prints 0
    holder.kill()
    holder.wait()
    with run_lock(tmp_path):
        os.kill(child, signal.SIGKILL)  # it was still there


def test_it_is_free_after_an_error(tmp_path):
    with pytest.raises(KeyError), run_lock(tmp_path):
        raise KeyError
    with run_lock(tmp_path):
        pass


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "precious").write_text("precious")
    (tmp_path / LOCK).symlink_to("precious")
    refusal = "Cannot write to the output directory"
    for run_dir in (tmp_path, tmp_path / ("n" * 256)):  # longer than names may be
        with pytest.raises(UserError, match=refusal), run_lock(run_dir):
            pass
    assert (tmp_path / "precious").read_text() == "precious"
