import sys

import pytest

from spinup_tf2.parallel import launch
from spinup_tf2.utils import mpi_tools


def test_mpi_fork_returns_where_there_is_nothing_to_start(monkeypatch):
    monkeypatch.setattr(launch, "run_to_end", lambda *_, **__: pytest.fail("started"))
    mpi_tools.mpi_fork(1)
    monkeypatch.setenv("PMI_SIZE", "2")
    monkeypatch.setenv("PMI_RANK", "0")
    mpi_tools.mpi_fork(2)


def test_mpi_fork_runs_the_script_again_and_leaves_with_its_status(monkeypatch):
    commands = []
    monkeypatch.setattr(launch, "find_mpirun", lambda: "mpirun")

    def run_to_end(command, mpi, env):
        assert mpi
        commands.append(command)
        return 7

    monkeypatch.setattr(launch, "run_to_end", run_to_end)
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "package.module", "--flag"])
    with pytest.raises(SystemExit) as left:
        mpi_tools.mpi_fork(2, bind_to_core=True)
    assert left.value.code == 7
    mpirun = ["mpirun", "-n", "2", "-bind-to", "core"]
    assert commands == [[*mpirun, sys.executable, "-m", "package.module", "--flag"]]
