"""An experiment that runs alongside others, in processes of its own."""

from __future__ import annotations

import os
from contextlib import ExitStack, redirect_stdout, suppress
from pathlib import Path

from spinup_tf2.experiments import calling, run_entrypoint
from spinup_tf2.experiments.calling import Processes
from spinup_tf2.experiments.outcomes import (
    FAILED,
    FINISHED,
    STOPPED,
    Outcome,
    in_one_line,
    not_started,
)
from spinup_tf2.files.run_directory import OUTPUT, PRINTED_TO
from spinup_tf2.parallel import launch
from spinup_tf2.parallel.stopping import SIGNALS, name_of_signal

_END_OF_OUTPUT = 2**14  # bytes at the end of the output that are searched for the last line


class Started:
    """Starts an experiment; its output goes to a file in its directory.

    Args:
        outcome: The experiment; its state is updated when it has ended.
        processes: Number of its processes, and where they run.
        at_a_time: Number of experiments that share the cores.
    """

    def __init__(self, outcome: Outcome, processes: Processes, at_a_time: int):
        self.outcome = outcome
        self._mpi = processes.use_mpi
        self._output = Path(str(outcome.experiment.output_dir), OUTPUT)
        self._asked = False
        self._child = None
        self._stack = ExitStack()
        try:
            environ = {PRINTED_TO: os.path.abspath(self._output)}
            self._folder = self._stack.enter_context(
                calling.handed_over(outcome.experiment, processes, environ)
            )
            output = self._stack.enter_context(self._opened_output())
            arguments = [run_entrypoint.__file__, self._folder]
            self._child = processes.start(arguments, at_a_time, output)
        except Exception as error:  # a full disk, a function that cannot be pickled, ...
            # The other experiments continue.
            self._close(FAILED, not_started(error))

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
            self._close(STOPPED, "without saving")

    def _judge(self, status):
        error = run_entrypoint.read_error(self._folder)
        if error:
            message, trace = error
            # If the traceback cannot be written, the message is enough.
            with suppress(OSError), open(self._output, "a", encoding="utf-8") as file:
                file.write(f"\n{trace}")
            self._close(FAILED, in_one_line(message))
        elif status == 0:
            self._close(FINISHED)
        elif status - 128 in SIGNALS or (self._asked and self._mpi):
            # MPI's launchers have exit statuses of their own after a signal.
            self._close(STOPPED, signum=max(0, status - 128))
        else:
            self._close(FAILED, f"{self._reason(status)}; see {self._output}")

    def _reason(self, status):
        """Return why it failed: the signal that ended it, or the last line of its output."""
        if killed_by := name_of_signal(status):
            return f"ended by {killed_by}"
        try:
            with open(self._output, "rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _END_OF_OUTPUT))
                lines = file.read().decode(errors="replace").splitlines()
        except OSError:  # somebody has removed it
            lines = []
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return in_one_line(last) or f"exit status {status}"

    def _close(self, state, reason="", signum=0):
        self._stack.close()
        self.outcome.end(state, reason, signum)
