"""Starts and ends the processes of an experiment, and multiprocessing's fork server."""

from __future__ import annotations

import multiprocessing.util
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from multiprocessing import forkserver, process, resource_tracker
from pathlib import Path
from typing import Any

import gymnasium.vector  # noqa: F401  (needed by environments, imported once for all of them)
import psutil

from spinup_tf2.errors import Interrupted, UserError
from spinup_tf2.files.printing import is_terminal
from spinup_tf2.parallel.launched import OPENMP, available_cores, by_mpi
from spinup_tf2.parallel.mpi import INSTALL_HINT
from spinup_tf2.parallel.stopping import SIGNALS, Interruption, family_of

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
    defaults = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_btl": "^ofi",
        "PRTE_MCA_rmaps_default_mapping_policy": "slot:oversubscribe",  # Open MPI 5
        "OMPI_MCA_rmaps_base_oversubscribe": "1",  # Open MPI 4
        "OMPI_MCA_mpi_yield_when_idle": "1",
    }
    return dict.fromkeys(OPENMP, str(max(1, available_cores() // n))) | defaults | os.environ


def mpirun_command(
    n: int, arguments: Iterable[str], *, bind_to_core: bool = False, launcher: str | None = None
) -> list[str]:
    """Return the command that runs this Python interpreter with `arguments` on `n` ranks.

    Args:
        n: Number of ranks.
        arguments: Command-line arguments for Python.
        bind_to_core: Whether to bind each rank to one core.
        launcher: Command to use instead of mpirun: a program with arguments, as in a shell.
    """
    command = [*(parse_launcher(launcher) if launcher else [find_mpirun()]), "-n", str(n)]
    if bind_to_core:
        command += ["-bind-to", "core"]
    return [*command, sys.executable, *arguments]


def parse_launcher(launcher: str) -> list[str]:
    """Split a launcher such as `srun --mpi=pmi2` into words.

    Raises:
        UserError: It cannot be parsed, or there is no such program.
    """
    try:
        words = shlex.split(launcher)
        if shutil.which(words[0]) is None:
            raise ValueError("there is no such program")
    except (ValueError, AttributeError, IndexError) as error:
        raise UserError(
            f"launcher is {launcher!r} ({error}); it must be a command that starts MPI processes, "
            "such as 'srun --mpi=pmi2'."
        ) from error
    return words


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
        if is_terminal(sys.stdin):  # which only this session can read
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
    for each in family_of(psutil.Process(child.pid)) if psutil.pid_exists(child.pid) else ():
        with suppress(psutil.Error):
            each.kill()


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
    print(end="", flush=True)
    child, asked_to, killed = None, 0, False
    with Interruption(before=None) as interruption:
        try:
            child = start(command, mpi=mpi, **popen_kwargs)
            while child.poll() is None:
                try:
                    if interruption.signum != asked_to:
                        asked_to = interruption.signum
                        ask_to_stop(child, asked_to, mpi=mpi)
                    with suppress(subprocess.TimeoutExpired):
                        child.wait(timeout=0.1)
                except KeyboardInterrupt:  # the second Ctrl-C
                    killed = True
                    kill(child)
        finally:
            if child is not None and child.poll() is None:
                kill(child)
    status = shell_status(child.returncode)
    left = [0, *(128 + signum for signum in SIGNALS)]  # it may have received another signal first
    if interruption.requested and (mpi or killed or status in left):
        raise Interrupted(interruption.signum)
    return status


def mpi_fork(n: int, bind_to_core: bool = False) -> None:
    """Run the current script again as `n` MPI processes, and exit with their status.

    It returns at once if `n` is 1 or if an MPI launcher started this process, so that the processes
    started here continue after the call.

    Args:
        n: Number of processes.
        bind_to_core: Whether to bind each process to a core.
    """
    if n <= 1 or by_mpi():
        return
    # Unlike argv, orig_argv preserves a command such as `python -m package.module`.
    command = mpirun_command(n, sys.orig_argv[1:], bind_to_core=bind_to_core)
    try:
        status = run_to_end(command, mpi=True, env=mpirun_environment(n))
    except Interrupted as interruption:
        status = interruption.status
    sys.exit(status)


# ---------------------------------------------------------------- the fork server

# The server and the processes that it forks run with the signals blocked that ask a run to stop;
# these stay pending until an environment handles them in its own way. In other processes, which a
# script may fork from the same server, they are unblocked, so that `terminate` works.


def start_fork_server(preload: Sequence[str] = ()) -> None:
    """Start multiprocessing's fork server and resource tracker so that they survive signals.

    Args:
        preload: Modules that the server imports once for all processes that it forks, besides this
            one.
    """
    forkserver.set_forkserver_preload([__name__, *preload])
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # inherited by both processes
    try:
        resource_tracker.ensure_running()  # unblocks some of the signals
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _unblock(_):
    """Unblock the signals in a forked process, unless it is a worker of a vector environment."""
    target = process.current_process()._target
    if getattr(target, "__module__", None) != "gymnasium.vector.async_vector_env":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


multiprocessing.util.register_after_fork(sys.modules[__name__], _unblock)
