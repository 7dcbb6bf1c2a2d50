"""Notices when runs make progress, and plots them again."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from spinup_tf2.errors import UserError
from spinup_tf2.files.printing import print_safely
from spinup_tf2.results.datasets import NoDirectory, NoResults, find_logdirs

Report = Callable[[str], None]

_LACKING = (NoResults, NoDirectory)


class _WindowsClosed(Exception):
    """Raised when all windows have been closed."""


def watch_runs(
    make: Callable[[Report], None],
    where: tuple[Sequence[str], Sequence[str] | None, Sequence[str] | None],
    seconds: float,
    show: bool,
) -> None:
    """Call `make` at once and whenever runs have made progress, until Ctrl-C.

    Args:
        make: Function that plots the runs, and calls its argument with lines of text to report.
        where: `all_logdirs`, `select` and `exclude`, as in `get_all_datasets`.
        seconds: Time between two checks.
        show: Whether the figures are shown in windows, which remain usable in the meantime. When
            these are closed, watching ends.
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
                said, passing = "", (UserError,)  # after a success, errors may be temporary
            except passing as error:
                if str(error) != said:
                    then = "Waiting for it." if isinstance(error, _LACKING) else "Still watching."
                    print_safely(f"{now:%H:%M:%S}: {error} {then}")
                said = str(error)
            report = _nobody  # report only once what cannot be read
    except (KeyboardInterrupt, _WindowsClosed):
        print_safely("Stopped watching.")


def _show_for(seconds):
    """Show all figures for some time, during which their windows are usable."""
    import matplotlib.pyplot as plt

    plt.pause(seconds)
    if not plt.get_fignums():
        raise _WindowsClosed


def _nobody(line):
    """Ignore a line of a report."""


def changes(
    all_logdirs: Sequence[str],
    select: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    *,
    seconds: float,
    wait: Callable[[float], object] = time.sleep,
) -> Iterator[datetime]:
    """Yield the time at once, and whenever a progress.txt of these runs has changed.

    Runs that begin later are found as well.

    Args:
        all_logdirs, select, exclude: As in `get_all_datasets`.
        seconds: Time between two checks.
        wait: Function that waits for that many seconds.
    """
    last = None
    while True:
        state = _state(all_logdirs, select, exclude)
        if state != last:
            yield datetime.now()
        last = state
        wait(seconds)


def _state(*arguments):
    """Return {progress.txt: (time of modification in ns, size)} for all runs."""
    state = {}
    try:
        logdirs = find_logdirs(*arguments)
    except UserError:  # the directories have been removed, or do not exist yet
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
