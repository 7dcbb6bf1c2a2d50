"""How many processes an experiment has, and where."""

import pytest

from spinup_tf2.errors import UserError
from spinup_tf2.experiments import processes
from spinup_tf2.experiments.processes import Processes, resolve_num_cpu, resolve_processes
from spinup_tf2.parallel import launch, launched, mpi


def test_num_cpu(monkeypatch):
    monkeypatch.setattr(processes, "available_cores", lambda: 6)
    assert resolve_num_cpu(3) == 3
    assert resolve_num_cpu("auto") == 6
    for wrong in (0, -1, 1.5, "4", None, True):
        with pytest.raises(UserError, match="num_cpu is"):
            resolve_num_cpu(wrong)


def test_num_cpu_in_a_launched_world(monkeypatch):
    monkeypatch.setattr(launched, "by_mpi", lambda: True)
    monkeypatch.setattr(mpi, "num_procs", lambda: 4)
    assert [resolve_num_cpu(n) for n in (1, 4, "auto")] == [4, 4, 4]
    with pytest.raises(UserError, match="num_cpu is 3, but the MPI launcher started 4 processes"):
        resolve_num_cpu(3)


def test_hosts_and_launcher(monkeypatch):
    monkeypatch.setattr(launch, "check_takes_hosts", lambda launcher: None)
    monkeypatch.setattr(launch, "check_hosts", lambda hosts: None)
    resolve = resolve_processes
    assert resolve(3) == Processes(3)
    assert resolve(3).are_here
    for num_cpu in (1, 4):  # 1 is what a program gets that does not say
        expected = Processes(4, {"node1": 1, "node2": 3})
        assert resolve(num_cpu, "node1,node2:3") == expected
        assert not expected.are_here
    assert resolve(4, "node1,node2").hosts == {"node1": 2, "node2": 2}
    assert resolve("auto", "node1:1,node2:3") == expected
    for hosts in ("node1,node2", "node1,node2:3"):
        with pytest.raises(
            UserError, match=f"how many cores the hosts '{hosts}' have is not known"
        ):
            resolve("auto", hosts)
    with pytest.raises(UserError, match="num_cpu is 3, but hosts gives 4 processes; leave it out"):
        resolve(3, "node1:2,node2:2")
    assert resolve(2, None, "env -i") == Processes(2, None, "env -i")
    with pytest.raises(UserError, match="launcher is given, but for one process"):
        resolve(1, None, "env -i")

    monkeypatch.setattr(launched, "by_mpi", lambda: True)
    with pytest.raises(UserError, match="an MPI launcher has started them already"):
        resolve(1, "node1:2")
