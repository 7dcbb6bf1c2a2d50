"""Noticing that runs go on, and drawing them anew."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from spinup_tf2.errors import UserError
from spinup_tf2.results.datasets import NoDirectory, NoResults, find_logdirs
from spinup_tf2.runs.printing import print_safely

Report = Callable[[str], None]

_LACKING = (NoResults, NoDirectory)


class _WindowsClosed(Exception):
    """Nobody is watching any more."""


def watch_runs(
    make: Callable[[Report], None],
    where: tuple[Sequence[str], Sequence[str] | None, Sequence[str] | None],
    seconds: float,
    show: bool,
) -> None:
    """Call `make` at once and whenever runs have gone on, until Ctrl-C.

    Args:
        make: Draws them, and reports by calling its argument with lines of text.
        where: `all_logdirs`, `select` and `exclude`, as for `get_all_datasets`.
        seconds: Time between two looks.
        show: Whether the figures have windows, which can be used meanwhile. It is over when these
            are closed.
    """
    print_safely(f"Looking for new results every {seconds:g} s; Ctrl-C ends it.")
    report, said = print_safely, ""
    passing: tuple[type[UserError], ...] = (NoResults,)
    try:
        wait = _show_for if show else time.sleep
        for now in changes(*where, seconds=seconds, wait=wait):
            try:
                make(report)
                print_safely(f"{now:%H:%M:%S}: up to date")
                said, passing = "", (UserError,)  # what could be drawn may become so again
            except passing as error:
                if str(error) != said:
                    then = "Waiting for it." if isinstance(error, _LACKING) else "Still watching."
                    print_safely(f"{now:%H:%M:%S}: {error} {then}")
                said = str(error)
            report = _nobody  # what cannot be read is said once
    except (KeyboardInterrupt, _WindowsClosed):
        print_safely("Stopped watching.")


def _show_for(seconds):
    """Show all figures for some time, in which their windows can be used."""
    import matplotlib.pyplot as plt

    plt.pause(seconds)
    if not plt.get_fignums():
        raise _WindowsClosed


def _nobody(line):
    """Report to nobody."""


def changes(
    all_logdirs: Sequence[str],
    select: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    *,
    seconds: float,
    wait: Callable[[float], object] = time.sleep,
) -> Iterator[datetime]:
    """Yield the time, at once and whenever a progress.txt of these runs has changed.

    Args:
        all_logdirs, select, exclude: As for `get_all_datasets`.
        seconds: Time between two looks. A run that has only just begun is found as well.
        wait: Waits so long.
    """
    last = None
    while True:
        state = _state(all_logdirs, select, exclude)
        if state != last:
            yield datetime.now()
        last = state
        wait(seconds)


def _state(*arguments):
    """{progress.txt: (when it was written, its size)} of all runs."""
    state = {}
    try:
        logdirs = find_logdirs(*arguments)
    except UserError:  # they have been removed, or not been made
        return state
    for run_dirs in logdirs.values():
        for run_dir in run_dirs:
            path = os.path.join(run_dir, "progress.txt")
            try:
                status = os.stat(path)
            except OSError:
                continue
            state[path] = status.st_mtime_ns, status.st_size
    return state
