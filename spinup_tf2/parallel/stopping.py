"""How a training run is stopped: by a signal, after saving, or by the watchdog if it is stuck.

The training loops of the algorithms look like this:

    with Watchdog(600, how_to_go_on), Interruption() as interruption:
        while training:
            beat()
            step()                                  # ends early where `interruption.requested`
            if interruption.agreed():               # on all ranks, or on none
                save()
                interruption.leave(how_to_go_on)
"""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import Any, NoReturn

import psutil

from spinup_tf2.errors import Interrupted
from spinup_tf2.files.printing import say
from spinup_tf2.parallel import launched, mpi

# ---------------------------------------------------------------- signals

# SIGINT: Ctrl-C. SIGTERM: the polite kill of schedulers, containers and shutdowns. SIGUSR1: the
# warning that schedulers send before the time is up, which mpirun passes on unchanged. SIGHUP: the
# terminal was closed.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)

# One Ctrl-C reaches launcher, mpirun and ranks at once, and some of them also pass it on.
SAME_CTRL_C = 1.0  # seconds


def name_of_signal(status: int) -> str:
    """Return the name of the signal behind a process's exit status of 128 + signal; "" if none."""
    return signal.Signals(status - 128).name if status - 128 in [*signal.Signals] else ""


_entered = []  # every Interruption that has its handlers installed


def _after_fork():
    # Processes forked in the meantime, such as those of an environment, leave stopping to the run.
    # SIGTERM keeps its effect: multiprocessing uses it to end processes that it then waits for.
    while _entered:
        for signum, handler in _entered.pop().handed_back():
            signal.signal(signum, handler if signum == signal.SIGTERM else lambda *_: None)


os.register_at_fork(after_in_child=_after_fork)


class Interruption:
    """Context manager in which SIGINT, SIGTERM, SIGUSR1 and SIGHUP only request a stop.

    A SIGINT that comes a second or more after the first signal raises KeyboardInterrupt at once.
    Signals that were ignored, as SIGHUP is under nohup, stay ignored. Outside the main thread no
    handlers are installed, because Python allows them only there.

    Args:
        before: Text written to stderr before the line that announces the stop. The default ends
            the current line; progress bars may need something else. None: no such line.

    Attributes:
        requested: Whether this process has been asked to stop.
        signum: Number of the signal that asked for it; 0 if none has.
    """

    def __init__(self, before: str | None = "\n"):
        self.before = before
        self.requested = False
        self.signum = 0
        self._agreed = 0
        self._since = 0.0
        self._previous = {}
        self._terminals = []

    def __enter__(self) -> Interruption:
        self._terminals = [fd for fd in (1, 2) if _is_terminal(fd)]
        if threading.current_thread() is threading.main_thread():
            for signum in SIGNALS:
                if signal.getsignal(signum) is not signal.SIG_IGN:
                    self._previous[signum] = signal.signal(signum, self._handle)
            _entered.append(self)
        return self

    def __exit__(self, *_):
        for signum, handler in self.handed_back():
            signal.signal(signum, handler)
        if self in _entered:
            _entered.remove(self)

    def handed_back(self) -> list[tuple[int, Any]]:
        """Return the signals that were taken over, with their previous handlers.

        A second call returns an empty list.
        """
        previous, self._previous = self._previous, {}
        # None: a handler that Python did not install, and cannot put back.
        return [(each, signal.SIG_DFL if x is None else x) for each, x in previous.items()]

    def _handle(self, signum, _):
        # May run between any two bytecodes: no MPI here, and no print, which is not reentrant.
        if signum == signal.SIGHUP:
            self._let_terminals_go()
        if not self.requested:
            self.request(signum)
        elif signum == signal.SIGINT and time.monotonic() - self._since >= SAME_CTRL_C:
            raise KeyboardInterrupt

    def request(self, signum: int) -> None:
        """Request a stop, as if the signal `signum` had arrived."""
        self.signum, self._since = int(signum), time.monotonic()
        self.requested = True
        if self.before is not None and launched.rank() == 0:
            name = signal.Signals(signum).name
            text = f"{self.before}{name}: finishing this step and saving; Ctrl-C stops at once.\n"
            with suppress(OSError):
                os.write(2, text.encode())

    def _let_terminals_go(self):
        """Redirect output to /dev/null if its terminal is gone.

        Otherwise printing would fail, and saving with it.
        """
        for fd in self._terminals:
            if not _is_terminal(fd):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, fd)
                os.close(nowhere)

    def agreed(self) -> bool:
        """Return, equally on all ranks, whether any rank has been asked to stop. Collective."""
        self._agreed = int(mpi.mpi_op(float(self.signum), "MAX"))
        return self._agreed != 0

    def leave(self, how_to_go_on: str) -> NoReturn:
        """Print that the run stops and `how_to_go_on`, then raise Interrupted.

        To be called on all ranks, after `agreed` has returned True and everything is saved.
        """
        signum = self._agreed or self.signum
        if mpi.proc_id() == 0:
            say(f"\nStopped by {signal.Signals(signum).name}. {how_to_go_on}\n")
        raise Interrupted(signum)


def _is_terminal(fd):
    try:
        return os.isatty(fd)
    except OSError:
        return False  # closed


def interrupt_once() -> None:
    """Make one Ctrl-C raise one KeyboardInterrupt, even if it reaches this process twice.

    Also replaces SIGINT's default action of ending the process, which is in effect while spinup_tf2
    is being loaded.
    """
    last = -SAME_CTRL_C

    def handle(*_):
        nonlocal last
        last, before = time.monotonic(), last
        if last - before >= SAME_CTRL_C:
            raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, signal.SIG_DFL):
        signal.signal(signal.SIGINT, handle)


# ---------------------------------------------------------------- processes that are stuck

GRACE = 5.0  # seconds that MPI is given to end the job by itself

# Programs that start the processes of a job, on the machine of mpirun and on the others.
LAUNCHERS = {
    *("mpirun", "mpiexec", "mpiexec.hydra", "hydra_pmi_proxy"),  # MPICH
    *("prterun", "prte", "prted", "orterun", "orted"),  # Open MPI
}


class Watchdog:
    """Context manager that ends the MPI job if a process has no `mpi.beat` for `timeout` seconds.

    Launchers would wait forever for a machine that is lost. Each process watches itself. One that
    is stuck prints the tracebacks of all its threads, what has happened, and `message`; then MPI
    ends the job, or, if MPI cannot, this process exits and the launcher on this machine is killed
    with all processes that it has started. The exit status of the job is not 0. Time during which
    the whole process was suspended does not count.

    Does nothing if `timeout` is None or if this is the only process.

    Args:
        timeout: Seconds without progress after which the job is ended, or None.
        message: Text that is printed last, such as how to resume the run.
    """

    def __init__(self, timeout: float | None, message: str):
        self.timeout = timeout
        self.message = message
        self._left = threading.Event()
        self._thread = None

    def __enter__(self) -> Watchdog:
        if self.timeout is not None and launched.size() > 1:
            mpi.beat()
            self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_):
        self._left.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self):
        interval = min(1.0, self.timeout / 4)
        silence = 0.0  # sum of the waits: a clock would go on while the process is suspended
        while not self._left.wait(interval):
            silence = 0.0 if mpi.has_beaten() else silence + interval
            if silence >= self.timeout:
                self._end_job()

    def _end_job(self):
        # These two come first: MPI can hang, and so can output, which goes through the launcher.
        faulthandler.dump_traceback_later(GRACE, exit=True, file=2)
        _kill_later()
        where = launched.where()
        _write(f"\nNo progress for {self.timeout:g} s {where}. What its threads are doing:\n")
        faulthandler.dump_traceback(2)
        _write(
            f"\nThe job ends: there was no progress for {self.timeout:g} s {where}. Another "
            "process or machine is lost, or one step takes longer than stall_timeout. "
            f"{self.message}\n"
        )
        time.sleep(1)  # let processes that wait for the same one print their tracebacks, too
        mpi.abort(1)


def _write(text):
    os.write(2, text.encode())


def launcher_of(process: psutil.Process) -> psutil.Process | None:
    """Return the outermost MPI launcher process on this machine that runs `process`, or None."""
    launcher = None
    for parent in process.parents():
        if parent.name() in LAUNCHERS:
            launcher = parent
        elif launcher is not None:
            break
    return launcher


def family_of(process: psutil.Process) -> list[psutil.Process]:
    """Return a process and all its descendants."""
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


# Kills those of the processes in its arguments that are still alive after some seconds.
_KILLER = """
import sys
import psutil
processes = [psutil.Process(int(pid)) for pid in sys.argv[2:] if psutil.pid_exists(int(pid))]
for process in psutil.wait_procs(processes, timeout=float(sys.argv[1]))[1]:
    process.kill()
"""


def _kill_later():
    """Let the launcher and all that it runs here be killed by a process that outlives them."""
    family = family_of(launcher_of(psutil.Process()) or psutil.Process())
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    command = [sys.executable, "-c", _KILLER, str(GRACE), *(str(each.pid) for each in family)]
    subprocess.Popen(command, start_new_session=True, **streams)
