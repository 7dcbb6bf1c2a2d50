"""Runs the experiments of a grid, one after the other or several at a time."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from spinup_tf2.errors import UserError, one_line
from spinup_tf2.experiments import calling
from spinup_tf2.experiments.calling import Processes
from spinup_tf2.experiments.experiment import Experiment
from spinup_tf2.experiments.outcomes import (
    FAILED,
    FINISHED,
    NOT_BEGUN,
    STOPPED,
    Again,
    Outcome,
    not_started,
    raise_if_incomplete,
    summary,
)
from spinup_tf2.experiments.schedule import Display, Started
from spinup_tf2.files.printing import say
from spinup_tf2.files.run_directory import OUTPUT
from spinup_tf2.parallel import launched
from spinup_tf2.parallel.stopping import Interruption
from spinup_tf2.parallel.threads import available_cores, chosen_threads, threads_of_each

_POLL = 0.1  # seconds


def check_workers(workers: int, experiments: Sequence[Experiment], processes: Processes) -> None:
    """Raise UserError if this many experiments of a grid cannot run at a time."""
    if type(workers) is not int or workers < 1:
        raise UserError(f"workers is {workers!r}; it must be a whole number of at least 1.")
    if workers == 1:
        return
    if launched.by_mpi():
        raise UserError(
            f"workers is {workers}, but an MPI launcher has started the processes already, and "
            "they run one experiment after the other; leave workers out, or start the grid "
            "without the launcher (num_cpu gives each experiment several processes)."
        )
    if workers > len(experiments):
        raise UserError(
            f"workers is {workers}, and the grid has {_plural(len(experiments), 'experiment')}; "
            "give at most as many workers."
        )
    if any(each.output_dir is None for each in experiments):
        raise UserError(
            f"workers is {workers}, but logger_kwargs has no output_dir for what the experiments "
            "print; leave logger_kwargs out."
        )
    processes.check_launcher()


def plan_of(outcomes: Sequence[Outcome], processes: Processes, workers: int) -> str:
    """Describe in words what will run; "" if all experiments run, one after the other."""
    left = [outcome for outcome in outcomes if outcome.state == NOT_BEGUN]
    skipped = len(outcomes) - len(left)
    text = _plural(len(outcomes), "experiment")
    if skipped:
        text += (
            f", of which {skipped} {'are' if skipped > 1 else 'is'} finished already, and skipped"
        )
    if workers == 1:
        return f"{text}." if skipped else ""
    at_a_time = min(workers, len(left))
    if at_a_time == 0:
        return f"{text}."
    threads = threads_of_each(at_a_time * processes.on_one_machine)
    share = _plural(threads, "computation thread")
    if chosen_threads():
        why = "as OMP_NUM_THREADS says"
    else:
        why = f"{_plural(available_cores(), 'core')} here"
    each = f"each in {processes.number} processes of" if processes.use_mpi else "each with"
    return (
        f"{text}; {at_a_time} at a time, {each} {share} ({why}).\n"
        f"What they print goes to {OUTPUT} in their directories."
    )


def _plural(count, noun):
    return f"{count} {noun}{'s' * (count != 1)}"


def run_all(
    outcomes: Sequence[Outcome], processes: Processes, workers: int, quiet: bool, again: Again
) -> None:
    """Run the experiments that have not begun, and print a summary of all at the end.

    Args:
        outcomes: All experiments of a grid; their states are updated.
        processes: Number of processes of each experiment, and where they run.
        workers: Number of experiments to run at a time.
        quiet: Whether to print only errors and warnings.
        again: How the grid was started.

    Raises:
        ExperimentsFailed, Interrupted: As in `raise_if_incomplete`.
    """
    began, signum = time.monotonic(), 0
    try:
        if workers == 1:
            _run_in_turn(outcomes, processes, quiet)
        else:
            signum = _run_side_by_side(outcomes, processes, workers, quiet)
    except KeyboardInterrupt:
        _print_summary(outcomes, began, quiet, again)
        raise
    if workers > 1 or any(outcome.state != FINISHED for outcome in outcomes):
        _print_summary(outcomes, began, quiet, again)
    raise_if_incomplete(outcomes, signum)


def _print_summary(outcomes, began, quiet, again):
    if not quiet and launched.rank() == 0 and len(outcomes) > 1:
        say(f"\n{summary(outcomes, time.monotonic() - began, again)}")


def _run_in_turn(outcomes, processes, quiet):
    for outcome in outcomes:
        if outcome.state != NOT_BEGUN:
            continue
        outcome.begin()
        try:
            calling.run_experiment(outcome.experiment, processes, quiet)
        except KeyboardInterrupt:
            outcome.end(STOPPED)
            raise
        except (subprocess.CalledProcessError, UserError) as error:
            # In an MPI world the error is in this process, and ends the whole job. With only one
            # experiment there is no summary that would show the error.
            if launched.by_mpi() or (len(outcomes) == 1 and isinstance(error, UserError)):
                raise
            if isinstance(error, UserError):
                say(f"spinup_tf2: error: {one_line(error)}", file=sys.stderr)
                outcome.end(FAILED, one_line(error))
            else:
                outcome.end(FAILED, f"exit status {error.returncode}", status=error.returncode)
        except Exception as error:  # a full disk, a function that cannot be pickled, ...
            if launched.by_mpi() or len(outcomes) == 1:
                raise
            outcome.end(FAILED, not_started(error))
            say(f"spinup_tf2: error: {outcome.where}: {outcome.reason}", file=sys.stderr)
        else:
            outcome.end(FINISHED)


def _run_side_by_side(outcomes, processes, workers, quiet):
    """Run `workers` experiments at a time; return the signal that stopped them, or 0."""
    waiting = [outcome for outcome in outcomes if outcome.state == NOT_BEGUN]
    at_a_time = min(workers, len(waiting))
    running: list[Started | None] = [None] * at_a_time
    display = Display(outcomes, at_a_time, quiet)
    with Interruption(display.before_a_message) as interruption:
        try:
            while any(running) or (waiting and not interruption.requested):
                for slot, started in enumerate(running):
                    if started is not None and started.is_over():
                        running[slot] = None
                        display.end(slot, started.outcome)
                    if running[slot] is None and waiting and not interruption.requested:
                        outcome = waiting.pop(0)
                        outcome.begin()
                        display.begin(slot, outcome)
                        running[slot] = Started(outcome, processes, at_a_time)
                if interruption.requested:
                    for started in filter(None, running):
                        started.ask_to_stop(interruption.signum)
                display.refresh()
                time.sleep(_POLL)
        except Exception:
            _stop_and_wait(running, interruption)
            raise
        finally:
            # After a second Ctrl-C (KeyboardInterrupt) there may be experiments still running.
            for started in filter(None, running):
                started.kill()
            display.close()
    return interruption.signum


def _stop_and_wait(running, interruption):
    """Let experiments save and end, as a signal does, after an unexpected error."""
    if not interruption.requested:
        interruption.request(signal.SIGTERM)  # from here on, Ctrl-C ends the grid at once
    for started in filter(None, running):
        started.ask_to_stop(interruption.signum)
    while not all(started.is_over() for started in filter(None, running)):
        time.sleep(_POLL)
