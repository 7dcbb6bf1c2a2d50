"""What runs in the process of an experiment: `python run_entrypoint.py FOLDER`.

`run_utils.call_experiment` writes an experiment into a private folder and starts this file, once or
on every MPI rank. A UserError goes back the same way, so that the caller can raise it.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

_SYS_PATH, _EXPERIMENT, _ERROR = "sys_path.json", "experiment.pkl", "error.json"


def write_experiment(folder: str | os.PathLike, experiment: Callable[[], object]) -> None:
    """Write the function `experiment` into `folder`, for `main` in another process."""
    import cloudpickle

    # The module of a user's own network may lie beside the script that was started.
    Path(folder, _SYS_PATH).write_text(json.dumps(sys.path), encoding="utf-8")
    Path(folder, _EXPERIMENT).write_bytes(cloudpickle.dumps(experiment))


def read_error(folder: str | os.PathLike) -> list[str] | None:
    """(message, traceback) of the UserError with which the experiment ended; None without one."""
    path = Path(folder, _ERROR)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def main(folder: str | os.PathLike) -> None:
    """Run the experiment that lies in `folder`."""
    sys.path[:] = json.loads(Path(folder, _SYS_PATH).read_text(encoding="utf-8"))

    from spinup_tf2.errors import UserError
    from spinup_tf2.utils import mpi_tools
    from spinup_tf2.utils.unpickling import load_private

    mpi_tools.write_by_lines()

    def write_error():
        details = json.dumps([str(error), traceback.format_exc()])
        Path(folder, _ERROR).write_text(details, encoding="utf-8")

    try:
        mpi_tools.comm()  # first of all: without MPI nobody could wait for a rank that has failed
        # Written by this user's own process a moment ago.
        experiment = load_private(Path(folder, _EXPERIMENT))
        with mpi_tools.exit_together():
            experiment()
    except UserError as caught:
        error = caught
        mpi_tools.fail_together(write_error, 2)
        sys.exit(2)
    except KeyboardInterrupt as interrupt:
        mpi_tools.fail_together(lambda: None, interrupt)
        sys.exit(130)


if __name__ == "__main__":
    main(sys.argv[1])
