"""Runs an experiment in a process of its own, or in several under mpirun.

So it inherits no state from a previous experiment. Inside an MPI world the processes already exist,
and every rank runs the experiment itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from spinup_tf2 import user_config
from spinup_tf2.errors import Interrupted, UserError
from spinup_tf2.experiments import run_entrypoint
from spinup_tf2.experiments.calling import Processes, resolve_processes
from spinup_tf2.experiments.checks import signature_of
from spinup_tf2.experiments.experiment import Experiment, check_launch, prepare_experiment
from spinup_tf2.files.commands import plot_command, watch_command
from spinup_tf2.files.printing import RULE, colored, say
from spinup_tf2.files.serialization import convert_json
from spinup_tf2.parallel import launched, mpi
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
    hosts: str | None = None,
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
        hosts: Machines that run the processes, such as `node1:2,node2:2`. `data_dir` must be the
            same directory on all of them.
        launcher: Command that starts the processes instead of mpirun, such as `srun --mpi=pmi2`.
        preset: Name of the preset that arguments were taken from, to be recorded.
        **kwargs: Arguments for `thunk`.
    """
    processes = resolve_processes(num_cpu, hosts, launcher)
    options = dict(data_dir=data_dir, datestamp=datestamp, overwrite=overwrite, quiet=quiet)
    options |= dict(preset=preset, num_procs=processes.number)
    experiment = prepare_experiment(exp_name, thunk, seed, **options, **kwargs)
    check_launch([experiment])
    run_experiment(experiment, processes, quiet)


def resume_experiment(
    run_dir: str | os.PathLike,
    thunk: Callable[..., Any],
    exp_name: str | None,
    num_cpu: int = 1,
    quiet: bool = False,
    hosts: str | None = None,
    launcher: str | None = None,
    preset: str | None = None,
    modules: Iterable[str] = (),
    **kwargs: Any,
) -> None:
    """Resume the run in `run_dir`, in a process of its own.

    Args:
        run_dir: Directory of the run.
        thunk: The algorithm.
        exp_name: Name of the experiment to which the run belongs.
        num_cpu, quiet, hosts, launcher, preset: As in `call_experiment`.
        modules: Modules that its processes import first, to register the environment.
        **kwargs: Arguments for `thunk`, the same as at the beginning of the run.
    """
    names = dict(exp_name=exp_name, preset=preset)
    logger_kwargs = dict(output_dir=os.fspath(run_dir), quiet=quiet, **names)
    name = exp_name or os.path.basename(os.path.abspath(run_dir))
    experiment = Experiment(name, thunk, kwargs | {"resume": True}, logger_kwargs, (*modules,))
    check_launch([experiment])
    defaults = signature_of(experiment.algorithm).defaults if experiment.algorithm else {}
    changed = {
        name: value
        for name, value in experiment.kwargs.items()
        if name not in defaults or value != defaults[name]
    }
    processes = resolve_processes(num_cpu, hosts, launcher)
    run_experiment(experiment, processes, quiet, changed)


def run_experiment(
    experiment: Experiment,
    processes: Processes,
    quiet: bool,
    shown: Mapping[str, Any] | None = None,
) -> None:
    """Run an experiment that has been checked; print its arguments and what to do afterwards.

    Args:
        experiment: Experiment to run.
        processes: Number of its processes, and where they run.
        quiet: Whether to print only errors and warnings.
        shown: The subset of its arguments to print; None for all.
    """
    silent = quiet or launched.rank() != 0
    if not silent:
        say(introduction(experiment, shown))
    if launched.by_mpi():
        for name, value in experiment.environ.items():
            os.environ.setdefault(name, value)
        with mpi.exit_together():
            experiment.call()
    else:
        _run_in_fresh_process(experiment, processes)
    if not silent and experiment.output_dir is not None:
        say(_conclusion(experiment))  # without it, the logger has chosen and printed a directory


def introduction(experiment: Experiment, shown: Mapping[str, Any] | None = None) -> str:
    """Return the text that is printed before an experiment.

    Args:
        experiment: Experiment to be run.
        shown: The subset of its arguments to print; None for all.
    """
    kwargs = convert_json(experiment.kwargs if shown is None else shown)
    lines = [
        colored("Running experiment:\n", color="cyan", bold=True),
        experiment.exp_name + "\n",
        colored("with kwargs:\n", color="cyan", bold=True),
        json.dumps(kwargs, separators=(",", ":\t"), indent=4, sort_keys=True) + "\n",
    ]
    if "logger_kwargs" in kwargs:
        lines.append("Note: Call experiment is not handling logger_kwargs.\n")
    if experiment.algorithm:
        lines.append("Loading TensorFlow ...\n")
    return "\n".join(lines)


def _conclusion(experiment):
    """Return the text that is printed after an experiment."""
    run_dir, env_name = experiment.output_dir, experiment.kwargs.get("env_name", "")
    plot = colored(plot_command(run_dir), "green")
    watch = colored(watch_command(run_dir, env_name, experiment.modules), "green")
    return "\n" * 5 + RULE + _END.format(plot=plot, watch=watch) + RULE + "\n" * 5


class _ExperimentTraceback(Exception):
    """Traceback of an error in the process of an experiment, as text."""

    def __str__(self):
        return f"\n{self.args[0]}"


def _run_in_fresh_process(experiment, processes):
    """Run an experiment in a new Python process, or in several under mpirun."""
    with handed_over(experiment, processes) as folder:
        arguments = [run_entrypoint.__file__, folder]
        status = processes.run(arguments)
        error = run_entrypoint.read_error(folder)
    if error:
        message, trace = error
        raise UserError(message) from _ExperimentTraceback(trace)
    if status - 128 in SIGNALS:  # the signal was sent to the processes themselves
        raise Interrupted(status - 128)
    if status != 0:
        what = "Check the traceback above to see what actually went wrong."
        if killed_by := name_of_signal(status):
            what = (
                f"Its process was ended by {killed_by}, perhaps because memory ran out. If it "
                "has a checkpoint, `resume` goes on with it."
            )
        say("\n" * 3 + RULE + _FAILURE.format(what=what) + RULE + "\n" * 3)
        raise subprocess.CalledProcessError(status, arguments)


@contextmanager
def handed_over(
    experiment: Experiment, processes: Processes, environ: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Write an experiment to a temporary directory for `run_entrypoint`; yields its path.

    Command-line arguments would not do: they are limited to 128 KiB each, and everybody can read
    them. Only this user may enter the directory, and all machines can access it.

    Args:
        experiment: Experiment to be run.
        processes: Number of its processes, and where they run.
        environ: Environment variables for its processes, in addition to the experiment's own.

    Raises:
        UserError: The directory cannot be written.
    """
    shared = None
    if not processes.are_here:
        output_dir = experiment.output_dir
        shared = Path(output_dir).parent if output_dir else Path(user_config.DEFAULT_DATA_DIR)
        shared = shared.absolute()
    with ExitStack() as stack:
        try:
            if shared is not None:
                shared.mkdir(parents=True, exist_ok=True)
            temporary = tempfile.TemporaryDirectory(prefix=".spinup_tf2_", dir=shared)
            folder = stack.enter_context(temporary)
            run_entrypoint.write_experiment(folder, experiment, environ)
        except OSError as error:
            where = shared or tempfile.gettempdir()
            raise UserError(
                f"cannot write to {where}, where a process finds its experiment "
                f"({error.strerror}); make it writable, with room in it, or choose another "
                f"{'data_dir' if shared else 'directory for temporary files with TMPDIR'}."
            ) from error
        yield folder
