"""Starts and ends the processes of an experiment, on this machine or on several."""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from spinup_tf2.errors import Interrupted, UserError
from spinup_tf2.parallel.interruption import SAME_CTRL_C, SIGNALS
from spinup_tf2.parallel.mpi import INSTALL_HINT
from spinup_tf2.parallel.reaper import family_of, kill_all
from spinup_tf2.parallel.threads import available_cores

# ---------------------------------------------------------------- commands


def find_mpirun() -> str:
    """Return the path of this Python environment's mpirun, or else of the one on PATH."""
    beside_python = Path(sys.executable).parent
    path = shutil.which("mpirun", path=beside_python) or shutil.which("mpirun")
    if path is None:
        raise UserError(f"several processes need MPI, and there is no mpirun; {INSTALL_HINT}")
    return path


def mpirun_environment(n: int) -> dict[str, str]:
    """Return environment variables that let mpirun run as root and with more ranks than cores.

    They also give each rank its share of the cores. Variables that are already set are kept.

    Args:
        n: Number of ranks on one machine.
    """
    threads = str(max(1, available_cores() // n))
    defaults = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_btl": "^ofi",
        "PRTE_MCA_rmaps_default_mapping_policy": "slot:oversubscribe",  # Open MPI 5
        "OMPI_MCA_rmaps_base_oversubscribe": "1",  # Open MPI 4
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "OMP_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
    }
    return defaults | os.environ


def mpirun_command(
    n: int,
    arguments: Iterable[str],
    *,
    bind_to_core: bool = False,
    hosts: Mapping[str, int] | None = None,
    launcher: str | None = None,
) -> list[str]:
    """Return the command that runs this Python interpreter with `arguments` on `n` ranks.

    Args:
        n: Number of ranks.
        arguments: Command-line arguments for Python.
        bind_to_core: Whether to bind each rank to one core.
        hosts: Number of ranks for each machine. None means this machine, or the machines that the
            launcher chooses.
        launcher: Command to use instead of mpirun: a program with arguments, as in a shell.
    """
    command = [*(parse_launcher(launcher) if launcher else [find_mpirun()]), "-n", str(n)]
    if bind_to_core:
        command += ["-bind-to", "core"]
    if hosts:
        command += _host_arguments(command[0], hosts)
    return [*command, sys.executable, *arguments]


def parse_launcher(launcher: str) -> list[str]:
    """Split a launcher such as `srun --mpi=pmi2` into words.

    Raises:
        UserError: It cannot be parsed, or there is no such program.
    """
    try:
        words = shlex.split(launcher)
    except (ValueError, AttributeError) as error:
        raise UserError(f"launcher is {launcher!r}, which cannot be read: {error}.") from error
    if not words or shutil.which(words[0]) is None:
        raise UserError(
            f"launcher is {launcher!r}, and there is no such program; "
            "it must be one that starts MPI processes, such as 'srun --mpi=pmi2'."
        )
    return words


def parse_hosts(hosts: str, n: int | None = None) -> dict[str, int]:
    """Parse a string such as `node1:2,node2:2` into the number of ranks for each machine.

    If it has no numbers, the machines share `n` ranks equally, or get one each if `n` is None.

    Raises:
        UserError: The string is malformed, or `n` ranks cannot be shared equally.
    """
    names = {}
    for entry in str(hosts).split(","):
        name, colon, number = entry.partition(":")
        known = re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name)
        if not known or (colon and not re.fullmatch("[1-9][0-9]*", number)) or name in names:
            raise UserError(
                f"hosts is {hosts!r}; it must be names of different machines, each with the number "
                "of its processes, such as node1:2,node2:2."
            )
        names[name] = int(number) if colon else None
    if n is not None and not any(names.values()):
        share, rest = divmod(n, len(names))
        if rest or not share:
            raise UserError(
                f"num_cpu is {n}, which {len(names)} hosts cannot share equally; "
                "give each its number, such as node1:2,node2:2."
            )
        return dict.fromkeys(names, share)
    return {name: number or 1 for name, number in names.items()}


# Pattern in a launcher's --version output, and the flag by which it is given the machines.
_HOST_FLAGS = (
    (r"HYDRA|MPICH|Intel\(R\) MPI", "-hosts"),
    (r"Open MPI|OpenRTE|PRRTE|prterun", "--host"),
)

# Open MPI hands over only the variables that it is told to; MPICH the whole environment.
_HANDED_OVER = re.compile(
    "OMP_NUM_THREADS|OPENBLAS_NUM_THREADS|MKL_NUM_THREADS|LD_LIBRARY_PATH|PATH|"
    "(PYTHON|MPI4PY_|SPINUP_TF2_|TF_|KERAS_|CUDA_|XLA_).*"
)


def check_takes_hosts(launcher: str | None) -> None:
    """Raise UserError if it is not known how to pass machines to `launcher` (None: mpirun)."""
    _host_flag(parse_launcher(launcher)[0] if launcher else find_mpirun())


def check_hosts(hosts: Iterable[str]) -> None:
    """Raise UserError if one of these names does not belong to any machine.

    Nothing is checked if the MPI library is set up to start its processes by other means than ssh,
    which may resolve the names in its own way.
    """
    if not any(re.match("HYDRA_LAUNCHER|.*_plm", name) for name in os.environ):
        for name in hosts:
            if not _is_known(name):
                raise UserError(
                    f"hosts has {name!r}, and there is no machine of that name; correct it, or "
                    "make it known in /etc/hosts or ~/.ssh/config."
                )


def _is_known(name):
    with suppress(OSError):  # without ssh, the name is taken as it is
        settings = subprocess.run(["ssh", "-G", name], capture_output=True, text=True, check=False)
        settings = dict(line.split(" ", 1) for line in settings.stdout.splitlines() if " " in line)
        if {"proxyjump", "proxycommand"} & settings.keys():
            return True
        name = settings.get("hostname", name)
    try:
        return bool(socket.getaddrinfo(name, None))
    except OSError:
        return False


def _host_arguments(program, hosts):
    text = ",".join(f"{name}:{number}" for name, number in hosts.items())
    flag = _host_flag(program)
    if flag == "-hosts":
        return [flag, text]
    names = sorted(
        name for name in os.environ | mpirun_environment(1) if _HANDED_OVER.fullmatch(name)
    )
    return [flag, text, *(word for name in names for word in ("-x", name))]


@functools.cache
def _host_flag(program):
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=30, check=False
        )
        version = done.stdout + done.stderr
    except (OSError, subprocess.TimeoutExpired):
        version = ""
    for pattern, flag in _HOST_FLAGS:
        if re.search(pattern, version):
            return flag
    raise UserError(
        f"hosts cannot be given to {program}, which is no mpirun of MPICH or Open MPI; "
        "give them in its own way, as part of launcher."
    )


# ---------------------------------------------------------------- running

# Program that replaces itself by the command that follows its first argument, the PID of its
# parent. Linux sends that command SIGTERM as soon as the parent has died, as nobody could pass
# signals on any longer. This is not done in a preexec_fn, because Python code between fork and exec
# may hang if there are threads.
_WITH_PARENT = """
import signal
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # which prints a traceback
    signal.signal(signal.SIGINT, signal.SIG_DFL)
for signum in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
    signal.signal(signum, signal.SIG_DFL)
import ctypes, os, sys
parent, *command = sys.argv[1:]
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
if os.getppid() != int(parent):  # it has died before
    os.kill(os.getpid(), signal.SIGTERM)
os.execv(command[0], command)
"""


def start(
    command: Sequence[str], *, mpi: bool = False, **popen_kwargs: Any
) -> subprocess.Popen[bytes]:
    """Start a command without waiting for it; `ask_to_stop` and `kill` end it.

    On Linux, a command that is not an MPI launcher gets SIGTERM when the thread that has started it
    ends, even by SIGKILL. So that thread must be the one that waits for the command.

    Args:
        command: Path of the program, and its arguments.
        mpi: Whether the program is an MPI launcher. It then gets a session of its own, so that
            Ctrl-C in a terminal does not reach it directly.
        **popen_kwargs: Arguments for subprocess.Popen.
    """
    if mpi:
        popen_kwargs["start_new_session"] = True
        if sys.stdin is not None and sys.stdin.isatty():  # which only this session can read
            popen_kwargs.setdefault("stdin", subprocess.DEVNULL)
    elif sys.platform == "linux":
        parent = str(os.getpid())
        command = [sys.executable, "-I", "-S", "-c", _WITH_PARENT, parent, *command]
    return subprocess.Popen(command, **popen_kwargs)


def ask_to_stop(child: subprocess.Popen[bytes], signum: int, *, mpi: bool = False) -> None:
    """Pass a signal on to the command, so that it can save and exit.

    An MPI launcher gets SIGUSR1 instead, which all launchers forward to the ranks without ending
    them.
    """
    child.send_signal(signal.SIGUSR1 if mpi else signum)


def kill(child: subprocess.Popen[bytes]) -> None:
    """Kill a command and all its descendants, without waiting for anything to be saved."""
    with suppress(psutil.NoSuchProcess):
        kill_all(family_of(psutil.Process(child.pid)))


def shell_status(returncode: int) -> int:
    """Return the exit status as a shell reports it: 128 + signal if one has ended the process."""
    return returncode if returncode >= 0 else 128 - returncode


def run_to_end(command: Sequence[str], *, mpi: bool = False, **popen_kwargs: Any) -> int:
    """Run a command; return its exit status as a shell reports it (128 + signal if killed).

    SIGINT, SIGTERM, SIGUSR1 and SIGHUP are passed on, so that the command can save and exit;
    Interrupted is raised afterwards, even if the command exited without an error. If it failed for
    another reason, its own status is returned. The status of an MPI launcher does not tell, so
    there Interrupted is always raised. A SIGINT that comes a second or more after the first signal
    kills the command and all its descendants.

    Args:
        command: Program and arguments.
        mpi: Whether the program is an MPI launcher; see `start` and `ask_to_stop`.
        **popen_kwargs: Arguments for subprocess.Popen.
    """
    child, first, since, killed = None, None, 0.0, False

    def handle(signum, _):
        nonlocal first, since, killed
        if first is None:
            since, first = time.monotonic(), signum  # in this order: handlers interrupt each other
            pass_on()
        elif signum == signal.SIGINT and time.monotonic() - since >= SAME_CTRL_C:
            killed = True
            kill(child)

    def pass_on():
        if child is not None and first is not None:
            ask_to_stop(child, first, mpi=mpi)

    sys.stdout.flush()
    previous = {}
    if threading.current_thread() is threading.main_thread():
        for signum in SIGNALS:
            if signal.getsignal(signum) is not signal.SIG_IGN:
                previous[signum] = signal.signal(signum, handle)
    try:
        child = start(command, mpi=mpi, **popen_kwargs)
        pass_on()  # a signal that came before the child was started
        status = _wait_for(child)
    finally:
        for signum, handler in previous.items():
            # None: a handler that Python did not install, and cannot put back.
            signal.signal(signum, signal.SIG_DFL if handler is None else handler)
        if child is not None and child.poll() is None:
            child.kill()
    status = shell_status(status)
    left = [0, *(128 + signum for signum in SIGNALS)]  # it may have received another signal first
    if first is not None and (mpi or killed or status in left):
        raise Interrupted(first)
    return status


def _wait_for(child):
    # Waits in short intervals: a signal delivered to another thread, such as one of NumPy's, does
    # not wake the main thread, and only that one runs Python's handlers.
    while True:
        with suppress(subprocess.TimeoutExpired):
            return child.wait(timeout=1)
