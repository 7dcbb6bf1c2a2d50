"""multiprocessing's fork server, where its sockets find no room."""

import os
import subprocess
import sys

import pytest

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


@pytest.mark.parametrize("length", [71, 72])
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
    assert os.path.dirname(sockets) == (tmpdir if length == 71 else "/tmp")
    assert not os.path.exists(sockets)
    assert other == tmpdir  # everything else is where it was
    assert left == []
