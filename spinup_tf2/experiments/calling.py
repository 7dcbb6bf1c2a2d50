"""Runs an experiment in a process of its own, or in several under mpirun.

So it inherits no state from a previous experiment. Inside an MPI world the processes already exist,
and every rank runs the experiment itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any

from spinup_tf2.envs.making import EnvFn
from spinup_tf2.errors import Interrupted, UserError
from spinup_tf2.experiments import run_entrypoint
from spinup_tf2.experiments.experiment import Experiment, check_launch, prepare_experiment
from spinup_tf2.files.printing import RULE, colored, say
from spinup_tf2.files.run_directory import plot_command, watch_command
from spinup_tf2.files.serialization import convert_json
from spinup_tf2.parallel import launch, launched, mpi
from spinup_tf2.parallel.launched import available_cores, limited_environment
from spinup_tf2.parallel.stopping import SIGNALS, name_of_signal

_END = """
End of experiment.


Plot results from this run with:

{plot}


Watch the trained agent with:

{watch}


"""

_FAILURE = """

There appears to have been an error in your experiment.

{what}

"""


@dataclass(frozen=True)
class Processes:
    """The processes of an experiment, and the command that starts them instead of mpirun."""

    number: int
    launcher: str | None = None

    def command(self, arguments: list[str]) -> list[str]:
        """Return the command that runs Python with `arguments` in each process.

        Raises:
            UserError: There are several, and no MPI launcher.
        """
        if self.number == 1:
            return [sys.executable, *arguments]
        return launch.mpirun_command(self.number, arguments, launcher=self.launcher)

    def run(self, arguments: list[str]) -> int:
        """Run Python with `arguments` in each process, and return the exit status."""
        command = self.command(arguments)
        if self.number == 1:
            return launch.run_to_end(command)
        env = launch.mpirun_environment(self.number)
        # mpirun reads stdin, which would stop it in the background
        return launch.run_to_end(command, mpi=True, env=env, stdin=subprocess.DEVNULL)

    def start(
        self, arguments: list[str], at_a_time: int, output: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        """Start Python with `arguments` in each process, without waiting for the end.

        Args:
            arguments: Command-line arguments for Python.
            at_a_time: Number of experiments that share the cores.
            output: File for the output of the processes.
        """
        use_mpi, sharing = self.number > 1, at_a_time * self.number
        return launch.start(
            self.command(arguments),
            mpi=use_mpi,
            env=launch.mpirun_environment(sharing) if use_mpi else limited_environment(sharing),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def resolve_processes(num_cpu: int | str = 1, launcher: str | None = None) -> Processes:
    """Return the processes that the arguments describe.

    Raises:
        UserError: They are invalid, or contradict each other or the MPI world.
    """
    number = resolve_num_cpu(num_cpu)
    if launcher is not None:
        if number == 1 or launched.by_mpi():
            raise UserError("launcher is given, but there are no processes for it to start.")
        launch.parse_launcher(launcher)
    return Processes(number, launcher)


def resolve_num_cpu(num_cpu: int | str) -> int:
    """Return the number of processes for `num_cpu`: a number, or "auto" for one per core.

    Inside an MPI world it is the number of processes that the launcher started.

    Raises:
        UserError: `num_cpu` is invalid, or the MPI world has another number of processes.
    """
    started = mpi.num_procs() if launched.by_mpi() else None
    if num_cpu == "auto":
        return started or available_cores()
    if type(num_cpu) is not int or num_cpu < 1:
        raise UserError(f"num_cpu is {num_cpu!r}; it must be a whole number of at least 1 or auto.")
    if started and num_cpu not in (1, started):
        raise UserError(
            f"num_cpu is {num_cpu}, but the MPI launcher started {started} processes; "
            f"leave num_cpu out, or start {num_cpu} processes."
        )
    return started or num_cpu


def call_experiment(
    exp_name: str,
    thunk: Callable[..., Any],
    seed: int = 0,
    num_cpu: int | str = 1,
    data_dir: str | os.PathLike | None = None,
    datestamp: bool = False,
    *,
    overwrite: bool = False,
    quiet: bool = False,
    launcher: str | None = None,
    preset: str | None = None,
    **kwargs: Any,
) -> None:
    """Run `thunk(seed=seed, logger_kwargs=..., **kwargs)` in a process of its own.

    If the arguments include `env_name` (and `env_kwargs`), the thunk gets `env_fn`, an environment
    factory, instead. Mistakes in the arguments raise UserError before anything is written.

    Args:
        exp_name: Name of the experiment.
        thunk: Function to run, usually an algorithm.
        seed: Seed of the run.
        num_cpu: Number of MPI processes, or "auto" for one per core. Inside an MPI world the run
            uses all its processes, and any other number (except 1, the default) is an error.
        data_dir: Directory to save in; see `setup_logger_kwargs`.
        datestamp: Whether to put date and time into the directory's name.
        overwrite: Whether an existing run in the directory may be replaced.
        quiet: Whether to print only errors and warnings.
        launcher: Command that starts the processes instead of mpirun, such as `srun --mpi=pmi2`.
            If they run on several machines, `data_dir` must be the same directory on all of them.
        preset: Name of the preset that arguments were taken from, to be recorded.
        **kwargs: Arguments for `thunk`.
    """
    processes = resolve_processes(num_cpu, launcher)
    options = dict(data_dir=data_dir, datestamp=datestamp, overwrite=overwrite, quiet=quiet)
    options |= dict(preset=preset, num_procs=processes.number)
    experiment = prepare_experiment(exp_name, thunk, seed, **options, **kwargs)
    check_launch([experiment])
    run_experiment(experiment, processes, quiet)


def run_experiment(experiment: Experiment, processes: Processes, quiet: bool) -> None:
    """Run an experiment that has been checked; print its arguments and what to do afterwards.

    If `quiet`, only errors and warnings are printed.
    """
    silent = quiet or launched.rank() != 0
    if not silent:
        say(introduction(experiment))
    if launched.by_mpi():
        for name, value in experiment.environ.items():
            os.environ.setdefault(name, value)
        with mpi.exit_together():
            experiment.call()
    else:
        _run_in_fresh_process(experiment, processes)
    if not silent and experiment.output_dir is not None:
        say(_conclusion(experiment))  # without it, the logger has chosen and printed a directory


def introduction(experiment: Experiment) -> str:
    """Return the text before an experiment, with its arguments."""
    kwargs = convert_json(experiment.kwargs)
    lines = [
        colored("Running experiment:\n", color="cyan", bold=True),
        experiment.exp_name + "\n",
        colored("with kwargs:\n", color="cyan", bold=True),
        json.dumps(kwargs, separators=(",", ":\t"), indent=4, sort_keys=True) + "\n",
    ]
    if experiment.algorithm:
        lines.append("Loading TensorFlow ...\n")
    return "\n".join(lines)


def _conclusion(experiment):
    """Return the text that is printed after an experiment."""
    run_dir, env_fn = experiment.output_dir, experiment.env_fn or EnvFn("")
    watch = watch_command(run_dir, env_fn.env_name, env_fn.modules)
    plot, watch = (colored(each, "green") for each in (plot_command(run_dir), watch))
    return "\n" * 5 + RULE + _END.format(plot=plot, watch=watch) + RULE + "\n" * 5


def _run_in_fresh_process(experiment, processes):
    """Run an experiment in a new Python process, or in several under mpirun."""
    with run_entrypoint.handed_over(experiment, elsewhere=bool(processes.launcher)) as folder:
        arguments = [run_entrypoint.__file__, folder]
        status = processes.run(arguments)
        error = run_entrypoint.read_error(folder)
    if error:
        message, trace = error
        raise UserError(message) from RuntimeError(f"in its process:\n{trace}")
    if status - 128 in SIGNALS:  # the signal was sent to the processes themselves
        raise Interrupted(status - 128)
    if status != 0:
        what = "Check the traceback above to see what actually went wrong."
        if killed_by := name_of_signal(status):
            what = (
                f"Its process was ended by {killed_by}, perhaps because memory ran out. If it "
                "has a checkpoint, `resume` continues it."
            )
        say("\n" * 3 + RULE + _FAILURE.format(what=what) + RULE + "\n" * 3)
        raise subprocess.CalledProcessError(status, arguments)
