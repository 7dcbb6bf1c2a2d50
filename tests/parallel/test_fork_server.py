"""multiprocessing's fork server, where its sockets find no room."""

import multiprocessing.util
import os
import subprocess
import sys

import pytest

from spinup_tf2.errors import UserError
from spinup_tf2.parallel import fork_server

PROGRAM = """
import multiprocessing
import multiprocessing.util
import tempfile
from spinup_tf2.parallel import fork_server
if __name__ == "__main__":
    fork_server.start()
    process = multiprocessing.get_context("forkserver").Process(target=print, args=["forked"])
    process.start()
    process.join()
    print(multiprocessing.util.get_temp_dir())
    print(tempfile.gettempdir())
"""


@pytest.mark.parametrize("length", [50, 66, 80, 130])
def test_a_long_tmpdir(tmp_path, length):
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)
    tmpdir = f"/tmp/{os.getpid()}-".ljust(length, "x")
    os.mkdir(tmpdir)
    try:
        done = subprocess.run(
            [sys.executable, script],
            env=os.environ | dict(TMPDIR=tmpdir),
            capture_output=True,
            text=True,
        )
        left = os.listdir(tmpdir)
    finally:
        subprocess.run(["rm", "-r", tmpdir], check=True)
    assert done.returncode == 0, done.stderr
    forked, sockets, other = done.stdout.split()
    assert forked == "forked"
    assert os.path.dirname(sockets) == (tmpdir if length < 70 else "/tmp")
    assert not os.path.exists(sockets)
    assert other == tmpdir  # everything else is where it was
    assert left == []


def test_no_directory_has_a_short_path(monkeypatch):
    monkeypatch.setattr(multiprocessing.util, "get_temp_dir", lambda: "/" + 100 * "x")
    with pytest.raises(
        UserError, match=r"^TMPDIR is .*; set it to a directory with a shorter path"
    ):
        fork_server.start()
