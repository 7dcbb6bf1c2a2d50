"""Two machines: training on both, losing one, and going on.

    python -m pytest -m multihost -n 0 tests/mpi/test_multihost.py

The machines are network namespaces, each with its own name, addresses and SSH server; they share
all directories, as machines of a cluster do. Making them needs root, `ip` and `nsenter`, and sshd,
of which SPINUP_TF2_SSHD may be the path.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.mpi.launchers import mpi, read_rows, start, wait_for  # noqa: F401 (a fixture)

pytestmark = [pytest.mark.mpi, pytest.mark.slow, pytest.mark.multihost]

STALL_TIMEOUT = 20  # longer than four processes take to compile, on few cores

PATH = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])
SSHD = os.environ.get("SPINUP_TF2_SSHD") or shutil.which("sshd", path=PATH)

# Without --ipc, MPI would find the memory of the other machine, and not need the network.
UNSHARED = ["--mount", "--uts", "--ipc"]

SSHD_CONFIG = """
HostKey {folder}/key
AuthorizedKeysFile {folder}/key.pub
StrictModes no
UsePAM no
PidFile none
PermitRootLogin yes
"""

SSH = """#!/bin/sh
exec ssh -i {folder}/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -q "$@"
"""


def sh(line):
    subprocess.run(["sh", "-c", line], check=True, env=os.environ | {"PATH": PATH})


class Host:
    """A network namespace at the bridge `bridge`, in which sshd runs."""

    def __init__(self, name, address, bridge, folder):
        self.name, self.folder = name, folder
        self.namespace = f"{bridge}-{name}"
        self.link = f"{bridge}{address[-1]}"  # the cable
        self.bridge, self.address = bridge, address
        self.sshd = None

    def make(self):
        ns, folder = self.namespace, self.folder
        sh(
            f"ip netns add {ns} && ip link add {self.link} type veth peer name eth0 netns {ns} && "
            f"ip link set {self.link} master {self.bridge} up && "
            f"ip -n {ns} address add {self.address}/24 dev eth0 && "
            f"ip -n {ns} link set eth0 up && ip -n {ns} link set lo up"
        )
        machine = (
            f"hostname {self.name} && mount --bind {folder}/hosts /etc/hosts && "
            f"mount --bind {folder}/passwd /etc/passwd && mkdir -p /run/sshd && "
            f"mount -t tmpfs tmpfs /dev/shm && exec {SSHD} -D -f {folder}/sshd_config"
        )
        self.sshd = subprocess.Popen(
            ["ip", "netns", "exec", ns, "unshare", *UNSHARED, "sh", "-c", machine],
            env=os.environ | {"PATH": PATH},
            stderr=subprocess.DEVNULL,
        )
        wait_for(self.listens, 20)

    def listens(self):
        connect = "import socket; socket.create_connection(('127.0.0.1', 22))"
        test = self.command(sys.executable, "-c", connect)
        return subprocess.run(test, capture_output=True, check=False).returncode == 0

    def command(self, *words):
        """The command that runs another one on this machine."""
        return ["nsenter", "-t", str(self.sshd.pid), "-m", "-u", "-i", "-n", *map(str, words)]

    def processes(self):
        """All processes on this machine but those of sshd."""
        out = subprocess.run(
            ["ip", "netns", "pids", self.namespace],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"PATH": PATH},
        )
        found = []
        for pid in map(int, out.stdout.split()):
            try:
                process = psutil.Process(pid)
                if process.name() != "sshd" and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.NoSuchProcess:
                pass
        return found

    def ranks(self):
        variables = ("PMI_RANK", "OMPI_COMM_WORLD_RANK")
        environments = [p.environ() for p in self.processes() if p.name().startswith("python")]
        ranks = {env[name] for env in environments for name in variables if name in env}
        return sorted(map(int, ranks))

    def remove(self):
        ns = self.namespace
        sh(f"ip link del {self.link}; ip netns pids {ns} | xargs -r kill -9; ip netns del {ns}")
        if self.sshd is not None:
            self.sshd.wait()


@pytest.fixture
def hosts(request, tmp_path):
    """Two machines."""
    if "multihost" not in request.config.option.markexpr:
        pytest.skip("only with: -m multihost")
    missing = [name for name in ("ip", "nsenter", "ssh") if not shutil.which(name, path=PATH)]
    if os.getuid() != 0 or SSHD is None or missing:
        pytest.skip(f"needs root, sshd (SPINUP_TF2_SSHD), {', '.join(missing)}")
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n10.77.9.1 node1\n10.77.9.2 node2\n")
    users = Path("/etc/passwd").read_text()
    (tmp_path / "passwd").write_text(f"{users}sshd:x:65533:65534::/run/sshd:/bin/false\n")
    (tmp_path / "sshd_config").write_text(SSHD_CONFIG.format(folder=tmp_path))
    (tmp_path / "ssh").write_text(SSH.format(folder=tmp_path))
    (tmp_path / "ssh").chmod(0o755)
    sh(f"ssh-keygen -q -t ed25519 -N '' -f {tmp_path}/key")
    bridge = f"sp{os.getpid() % 100000}"
    sh(f"ip link add {bridge} type bridge && ip link set {bridge} up")
    made = []
    try:
        for number in (1, 2):
            made.append(Host(f"node{number}", f"10.77.9.{number}", bridge, tmp_path))
            made[-1].make()
        yield made
    finally:
        for host in made:
            host.remove()
        sh(f"ip link del {bridge}")


def test_training_on_two_hosts_of_which_one_is_lost(mpi, hosts, tmp_path):  # noqa: F811
    node1, node2 = hosts
    mine = {"SPINUP_TF2_DATA_DIR": str(tmp_path / "data"), "SPINUP_TF2_CHECKPOINT_INTERVAL": "0"}
    ssh = str(tmp_path / "ssh")
    environment = mpi.environment(2) | mine
    environment |= {"HYDRA_LAUNCHER_EXEC": ssh, "PRTE_MCA_plm_ssh_agent": ssh}
    on_both = [mpi.mpirun, "-n", "4", "-hosts", "node1:2,node2:2"]
    if mpi.variables:  # Open MPI
        variables = ("PATH", "PYTHONPATH", *mpi.variables, *mine)
        on_both[3:] = [
            "--host",
            "node1:2,node2:2",
            *(x for name in variables for x in ("-x", name)),
        ]
    line = "ppo --env CartPole-v1 --steps_per_epoch 400 --hid [8] --train_pi_iters 2 --quiet"
    run_dir = tmp_path / "data" / "two" / "two_s0"

    def run(*words):
        command = node1.command(*on_both, sys.executable, "-m", "spinup_tf2.run", *words)
        with open(tmp_path / "stderr", "w") as errors:  # a pipe might be kept open by what is left
            return start(command, environment, cwd=tmp_path, stdout=errors, stderr=errors)

    options = ["--exp_name", "two", "--epochs", "100000", "--stall_timeout", STALL_TIMEOUT]
    process = run(*line.split(), *options)
    try:
        wait_for(lambda: process.poll() is not None or len(read_rows(run_dir)) >= 3, 180)
        assert process.poll() is None, (tmp_path / "stderr").read_text()
        assert [node1.ranks(), node2.ranks()] == [[0, 1], [2, 3]]

        begin = time.monotonic()
        sh(f"ip link set {node2.link} down")
        process.wait(timeout=STALL_TIMEOUT + 30)
        errors = (tmp_path / "stderr").read_text()
        print(f"status {process.returncode}, {time.monotonic() - begin:.0f} s after the loss")
        print(errors)
        assert process.returncode != 0
        assert f"No progress for {STALL_TIMEOUT} s on rank 0 of 4, host node1" in errors
        assert f"python -m spinup_tf2.run resume {run_dir}" in errors
        wait_for(lambda: not node1.processes() and not node2.processes(), 20)
        print(f"all gone {time.monotonic() - begin:.0f} s after the loss")

        sh(f"ip link set {node2.link} up")
        epochs = len(read_rows(run_dir)) + 3
        process = run("resume", run_dir, "--epochs", epochs, "--quiet")
        assert process.wait(timeout=240) == 0, (tmp_path / "stderr").read_text()
        rows = [row.split("\t")[0] for row in read_rows(run_dir)]
        assert rows == [str(epoch) for epoch in range(epochs)]
    finally:
        process.kill()
    assert socket.gethostname() not in ("node1", "node2")
