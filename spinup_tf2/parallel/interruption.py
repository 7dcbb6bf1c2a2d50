"""Signals that ask a training run to stop: it finishes its step, saves, and exits.

The training loops of the algorithms look like this:

    with Interruption() as interruption:
        while training:
            step()                                  # ends early where `interruption.requested`
            if interruption.agreed():               # on all ranks, or on none
                save()
                interruption.leave("Resume it with: python -m spinup_tf2.run resume DIRECTORY")
"""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from typing import Any, NoReturn

from spinup_tf2.errors import Interrupted
from spinup_tf2.files.printing import say
from spinup_tf2.parallel import launched, mpi

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
            the current line; progress bars may need something else.

    Attributes:
        requested: Whether this process has been asked to stop.
        signum: Number of the signal that asked for it; 0 if none has.
    """

    def __init__(self, before: str = "\n"):
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
        if launched.rank() == 0:
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
