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

import ast
import faulthandler
import json
import math
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spinup_tf2.experiments.experiment import Experiment

_PROCESS, _ERROR = "process.json", "error.json"
_ALGORITHM, _FUNCTION = "algorithm.json", "function.pkl"


@contextmanager
def handed_over(
    experiment: Experiment, *, elsewhere: bool = False, environ: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Write an experiment to a temporary directory that only this user may enter; yields its path.

    Command-line arguments would not do: they are limited to 128 KiB each, and everybody can read
    them.

    Args:
        experiment: Experiment to be run.
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
    folder: str | os.PathLike, experiment: Experiment, environ: Mapping[str, str] | None = None
) -> None:
    """Write an experiment into `folder`, for `main` in another process.

    That process gets the `sys.path` of this one (a user's own network may be next to the script
    that was started), and the environment variables of `environ` and of the experiment. A
    `NamedAlgorithm` is written as plain data, without pickling; its arguments may only be values
    that Python literals can express.
    """
    from spinup_tf2.experiments.experiment import NamedAlgorithm

    environ = experiment.environ | dict(environ or {})
    _write_json(folder, _PROCESS, dict(sys_path=sys.path, environ=environ))
    if isinstance(experiment.thunk, NamedAlgorithm):
        fields = vars(experiment) | {"thunk": experiment.thunk.name}
        _write_json(folder, _ALGORITHM, encode(fields))
    else:
        import cloudpickle

        Path(folder, _FUNCTION).write_bytes(cloudpickle.dumps(experiment.call))


def read_error(folder: str | os.PathLike) -> list[str] | None:
    """Return [message, traceback] of the UserError that ended the experiment; None if none did."""
    try:
        return _read_json(folder, _ERROR)
    except (OSError, ValueError):  # there was none, or the disk was full
        return None


def _write_json(folder, name, value):
    Path(folder, name).write_text(json.dumps(value), encoding="utf-8")


def _read_json(folder, name):
    return json.loads(Path(folder, name).read_text(encoding="utf-8"))


def encode(value: Any) -> str:
    """Return the text of a value as a Python literal. The inverse is `decode`.

    Raises:
        TypeError: It is not plain data.
    """
    text = repr(value)
    try:
        decode(text)
    except (SyntaxError, ValueError) as error:
        raise TypeError(f"{text} is no plain value") from error
    return text


def decode(text: str) -> Any:
    """Return the value that was passed to `encode`."""
    return ast.literal_eval(_Names().visit(ast.parse(text, mode="eval")))


class _Names(ast.NodeTransformer):
    """Replaces the names of values that have no literal."""

    def visit_Name(self, node):
        known = {"inf": math.inf, "nan": math.nan, "Ellipsis": ...}
        return ast.Constant(known[node.id]) if node.id in known else node


def _read_experiment(folder):
    """Return the function that runs the experiment in `folder`."""
    if Path(folder, _ALGORITHM).exists():
        from spinup_tf2.experiments.experiment import Experiment, NamedAlgorithm

        fields = decode(_read_json(folder, _ALGORITHM))
        return Experiment(**fields | {"thunk": NamedAlgorithm(fields["thunk"])}).call

    from spinup_tf2.files.unpickling import load_private

    return load_private(Path(folder, _FUNCTION))  # the parent process has just written it


def main(folder: str | os.PathLike) -> None:
    """Run the experiment in `folder`."""
    process = _read_json(folder, _PROCESS)
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
        _write_json(folder, _ERROR, [str(error), traceback.format_exc()])

    try:
        mpi.comm()  # must come first: without MPI, ranks could not wait for one that has failed
        experiment = _read_experiment(folder)
        with mpi.exit_together():
            experiment()
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
