"""Runs the experiments of a grid, one after the other or several at a time."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stdout, suppress
from pathlib import Path

from tqdm import tqdm

from spinup_tf2.errors import (
    ExperimentsFailed,
    Interrupted,
    UserError,
    kind_and_line,
    one_line,
    printable,
    shortened,
)
from spinup_tf2.experiments import calling, run_entrypoint
from spinup_tf2.experiments.calling import Processes
from spinup_tf2.experiments.outcomes import (
    FAILED,
    FINISHED,
    NOT_BEGUN,
    STOPPED,
    Outcome,
    not_improved,
    summary,
)
from spinup_tf2.files.printing import colored, say
from spinup_tf2.files.run_directory import OUTPUT, PRINTED_TO
from spinup_tf2.parallel import launch, launched
from spinup_tf2.parallel.stopping import SIGNALS, Interruption, name_of_signal

_POLL = 0.1  # seconds


def run_all(
    outcomes: Sequence[Outcome],
    processes: Processes,
    workers: int,
    quiet: bool,
    command: Sequence[str] | None,
) -> None:
    """Run the experiments of a grid that have not begun, `workers` at a time; print a summary.

    The outcomes are updated. If `quiet`, only errors and warnings are printed. `command` is that of
    `summary`.

    Raises:
        Interrupted: The grid was stopped; or one of its experiments was, and none has failed.
        ExperimentsFailed: An experiment has failed.
    """
    began, signum = time.monotonic(), 0
    try:
        if workers == 1:
            _run_in_turn(outcomes, processes, quiet)
        else:
            signum = _run_side_by_side(outcomes, processes, workers, quiet)
    finally:
        all_well = workers == 1 and all(outcome.state == FINISHED for outcome in outcomes)
        if not quiet and launched.rank() == 0:
            if not all_well and len(outcomes) > 1:
                say(f"\n{summary(outcomes, time.monotonic() - began, command)}")
            for outcome in outcomes:
                if outcome.state == FINISHED and (text := not_improved(outcome.experiment)):
                    say(text)
    if signum:
        raise Interrupted(signum)
    failed = [outcome for outcome in outcomes if outcome.state == FAILED]
    if failed:
        named = "; ".join(f"{each.where} ({each.reason})" for each in failed)
        message = f"{len(failed)} of {len(outcomes)} experiments failed: {named}"
        raise ExperimentsFailed(message, failed[0].status if len(outcomes) == 1 else 1)
    for outcome in outcomes:
        if outcome.state == STOPPED:
            raise Interrupted(outcome.status - 128)


def _run_in_turn(outcomes, processes, quiet):
    for outcome in outcomes:
        if outcome.state != NOT_BEGUN:
            continue
        began = time.monotonic()
        try:
            calling.run_experiment(outcome.experiment, processes, quiet)
        except KeyboardInterrupt:
            outcome.end(began, STOPPED)
            raise
        except Exception as error:  # UserError, a full disk, ...
            status = getattr(error, "returncode", None)  # CalledProcessError: it has told the error
            reason = _reason(error) if status is None else f"exit status {status}"
            outcome.end(began, FAILED, reason, status or 1)
            # In an MPI world the error is in this process, and ends the whole job. With only one
            # experiment there is no summary that would show the error.
            if launched.by_mpi() or (len(outcomes) == 1 and status is None):
                raise
            if status is None:
                say(f"spinup_tf2: error: {outcome.where}: {reason}", file=sys.stderr)
        else:
            outcome.end(began, FINISHED)


def _run_side_by_side(outcomes, processes, workers, quiet):
    """Run `workers` experiments at a time; return the signal that stopped them, or 0."""
    waiting = [outcome for outcome in outcomes if outcome.state == NOT_BEGUN]
    at_a_time, done = min(workers, len(waiting)), len(outcomes) - len(waiting)
    running: list[_Started] = []
    # In a terminal, a bar over the experiments; everywhere, a line when one has ended.
    bar = tqdm(total=len(outcomes), initial=done, unit="run", disable=True if quiet else None)
    with bar, Interruption() as interruption:
        try:
            while running or (waiting and not interruption.requested):
                while waiting and len(running) < at_a_time and not interruption.requested:
                    running.append(_Started(waiting.pop(0), processes, at_a_time))
                if interruption.requested:
                    for started in running:
                        started.ask_to_stop(interruption.signum)
                for started in [each for each in running if each.is_over()]:
                    running.remove(started)
                    _report(started.outcome, len(outcomes), quiet)
                    bar.update()
                bar.refresh()
                time.sleep(_POLL)
        except Exception:  # the experiments save and end, as after a signal
            for started in running:
                started.ask_to_stop(signal.SIGTERM)
            while not all(started.is_over() for started in running):
                time.sleep(_POLL)
            raise
        finally:
            for started in running:  # after a second Ctrl-C (KeyboardInterrupt)
                started.kill()
    return interruption.signum


def _report(outcome, count, quiet):
    line, failed = f"{outcome.describe()}  {outcome.reason}".strip(), outcome.state == FAILED
    if not quiet:
        say(f"{outcome.number:>4}/{count}  {colored(line, 'red') if failed else line}")
    elif failed:
        say(f"spinup_tf2: {line}", file=sys.stderr)


class _Started:
    """An experiment that runs alongside others; its output goes to a file in its directory.

    Args:
        outcome: The experiment; its state is updated when it has ended.
        processes: Its processes.
        at_a_time: Number of experiments that share the cores.
    """

    def __init__(self, outcome: Outcome, processes: Processes, at_a_time: int):
        self.outcome = outcome
        self._mpi = processes.number > 1
        self._output = Path(str(outcome.experiment.output_dir), OUTPUT)
        self._began, self._asked, self._child = time.monotonic(), False, None
        self._stack = ExitStack()
        try:
            options = dict(elsewhere=bool(processes.launcher))
            options |= dict(environ={PRINTED_TO: os.path.abspath(self._output)})
            self._folder = self._stack.enter_context(
                run_entrypoint.handed_over(outcome.experiment, **options)
            )
            output = self._stack.enter_context(self._opened_output())
            arguments = [run_entrypoint.__file__, self._folder]
            self._child = processes.start(arguments, at_a_time, output)
        except Exception as error:  # a full disk, a function that cannot be pickled, ...
            self._end(FAILED, _reason(error))  # the other experiments continue

    def _opened_output(self):
        """Open the file for its output, after writing the introduction of the experiment to it."""
        experiment = self.outcome.experiment
        self._output.parent.mkdir(parents=True, exist_ok=True)
        mode = "a" if experiment.kwargs.get("resume") else "w"
        with open(self._output, mode, encoding="utf-8") as file, redirect_stdout(file):
            print(calling.introduction(experiment))
        return open(self._output, "ab")

    def is_over(self) -> bool:
        """Return whether its processes have ended; if so, the outcome is set."""
        if self._child is not None and self._child.poll() is not None:
            self._judge(launch.shell_status(self._child.returncode))
            self._child = None
        return self._child is None

    def ask_to_stop(self, signum: int) -> None:
        """Pass on a signal that asks the experiment to save and end; only the first call counts."""
        if self._child is not None and not self._asked:
            self._asked = True
            launch.ask_to_stop(self._child, signum, mpi=self._mpi)

    def kill(self) -> None:
        """Kill the processes of the experiment, which saves nothing."""
        if self._child is not None:
            launch.kill(self._child)
            self._child.wait()
            self._child = None
            self._end(STOPPED, "without saving", 128 + signal.SIGKILL)

    def _judge(self, status):
        error = run_entrypoint.read_error(self._folder)
        if error:
            message, trace = error
            # If the traceback cannot be written, the message is enough.
            with suppress(OSError), open(self._output, "a", encoding="utf-8") as file:
                file.write(f"\n{trace}")
            self._end(FAILED, _in_one_line(message))
        elif status == 0:
            self._end(FINISHED)
        elif status - 128 in SIGNALS:
            self._end(STOPPED, status=status)
        elif self._asked and self._mpi:  # launchers have exit statuses of their own after a signal
            self._end(STOPPED, status=128 + signal.SIGTERM)
        else:
            killed_by = name_of_signal(status)
            reason = f"ended by {killed_by}" if killed_by else self._last_line()
            self._end(FAILED, f"{reason or f'exit status {status}'}; see {self._output}")

    def _last_line(self):
        last: deque[str] = deque([""], maxlen=1)
        with suppress(OSError), open(self._output, encoding="utf-8", errors="replace") as file:
            last.extend(line for line in file if line.strip())
        return _in_one_line(last[0])

    def _end(self, state, reason="", status=1):
        self._stack.close()
        self.outcome.end(self._began, state, reason, status)


def _reason(error):
    """Return in a line why an experiment could not be started, such as a full disk."""
    known = isinstance(error, UserError)
    return _in_one_line(error if known else f"it could not be started ({kind_and_line(error)})")


def _in_one_line(text):
    return shortened(printable(one_line(text)))
