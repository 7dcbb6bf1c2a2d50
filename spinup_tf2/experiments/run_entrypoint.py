"""Program that runs in the process of an experiment: `python run_entrypoint.py FOLDER`.

`call_experiment` writes an experiment into a private folder (`handed_over`) and starts this file,
once or on every MPI rank. A UserError is written to the same folder, so that the caller can raise
it.
"""

from __future__ import annotations

import signal

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Until spinup_tf2 is loaded, Ctrl-C ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import faulthandler
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_PROCESS, _EXPERIMENT, _ERROR = "process.json", "experiment.pkl", "error.json"


@contextmanager
def handed_over(
    experiment: Any, *, elsewhere: bool = False, environ: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Write an experiment to a temporary directory that only this user may enter; yields its path.

    Command-line arguments would not do: they are limited to 128 KiB each, and everybody can read
    them.

    Args:
        experiment: The Experiment to be run.
        elsewhere: Whether its processes may run on other machines, which see the directory of the
            run, but not this machine's directory of temporary files.
        environ: As in `write_experiment`.
    """
    from spinup_tf2 import user_config

    shared = None
    if elsewhere:
        output_dir = experiment.output_dir
        shared = Path(output_dir).parent if output_dir else Path(user_config.DEFAULT_DATA_DIR)
        shared = shared.absolute()
        shared.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".spinup_tf2_", dir=shared) as folder:
        write_experiment(folder, experiment, environ)
        yield folder


def write_experiment(
    folder: str | os.PathLike, experiment: Any, environ: Mapping[str, str] | None = None
) -> None:
    """Write an experiment into `folder`, for `main` in another process.

    That process gets the `sys.path` of this one (a user's own network may be next to the script
    that was started), and the environment variables of `environ` and of the experiment.
    """
    import cloudpickle

    process = dict(sys_path=sys.path, environ=experiment.environ | dict(environ or {}))
    Path(folder, _PROCESS).write_text(json.dumps(process), encoding="utf-8")
    Path(folder, _EXPERIMENT).write_bytes(cloudpickle.dumps(experiment))


def read_error(folder: str | os.PathLike) -> list[str] | None:
    """Return [message, traceback] of the UserError that ended the experiment; None if none did."""
    try:
        return json.loads(Path(folder, _ERROR).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # there was none, or the disk was full
        return None


def read_experiment(folder: str | os.PathLike) -> Any:
    """Return the Experiment in `folder`, which the parent process has just written."""
    from spinup_tf2.files.unpickling import load_private

    return load_private(Path(folder, _EXPERIMENT))


def main(folder: str | os.PathLike) -> None:
    """Run the experiment in `folder`."""
    process = json.loads(Path(folder, _PROCESS).read_text(encoding="utf-8"))
    sys.path[:] = process["sys_path"]
    for name, value in process["environ"].items():
        os.environ.setdefault(name, value)

    from spinup_tf2.errors import Interrupted, UserError
    from spinup_tf2.files.printing import lose_lines
    from spinup_tf2.parallel import mpi
    from spinup_tf2.parallel.stopping import interrupt_once

    lose_lines()  # training continues even if its output cannot be written
    if sys.stderr is not None:
        faulthandler.enable()  # prints a traceback if a library crashes
    interrupt_once()
    mpi.write_by_lines()

    def write_error():
        text = json.dumps([str(error), traceback.format_exc()])
        Path(folder, _ERROR).write_text(text, encoding="utf-8")

    try:
        mpi.comm()  # must come first: without MPI, ranks could not wait for one that has failed
        experiment = read_experiment(folder)
        with mpi.exit_together():
            experiment.call()
    except UserError as caught:
        error = caught
        mpi.fail_together(write_error, 2)
        sys.exit(2)
    except KeyboardInterrupt as interrupt:
        status = interrupt.status if isinstance(interrupt, Interrupted) else 130
        mpi.fail_together(lambda: None, status)
        sys.exit(status)


if __name__ == "__main__":
    main(sys.argv[1])
