"""Spinning Up's MPI verbs. With one process they work without MPI; mpi4py is not even imported.

`comm()` is the only way to MPI: COMM_WORLD in a process that an MPI launcher started (mpirun,
mpiexec, srun), None in any other. It imports mpi4py on its first call and never at import time,
because starting MPI in a process that then forks environment workers crashes some MPI libraries.
"""

from __future__ import annotations

import atexit
import os
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from spinup_tf2.errors import Interrupted, UserError
from spinup_tf2.parallel import launched
from spinup_tf2.parallel.heartbeat import beat

if TYPE_CHECKING:
    from mpi4py import MPI

Number = TypeVar("Number", float, np.ndarray)

INSTALL_HINT = 'install one with: pip install "spinup_tf2[mpi]"'

PATIENCE = 1.0  # seconds to wait for ranks that fail together, or for the exit of one that does not

# ---------------------------------------------------------------- the communicator


def comm() -> MPI.Intracomm | None:
    """COMM_WORLD if an MPI launcher started this process, else None."""
    return _start_mpi().COMM_WORLD if launched.by_mpi() else None


@lru_cache(maxsize=1)
def _start_mpi():
    """Import mpi4py (which starts MPI) and make sure that this is the world that was asked for."""
    # Open MPI's libfabric transport takes a second to start and spins on small machines.
    os.environ.setdefault("OMPI_MCA_btl", "^ofi")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of mpi4py, about what is checked below
            from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise UserError(
            f"this process was started by an MPI launcher, but mpi4py finds no MPI library "
            f"({str(error).splitlines()[0]}); {INSTALL_HINT}"
        ) from error
    if MPI.Query_thread() < MPI.THREAD_SERIALIZED:
        raise UserError(
            "MPI was started for calls from the main thread alone, but averages over ranks are "
            "computed in TensorFlow's threads; leave mpi4py.rc as it is, and use an MPI library "
            f"with support for threads ({INSTALL_HINT})"
        )
    size = MPI.COMM_WORLD.Get_size()
    if size != launched.size():
        library = " ".join(MPI.Get_library_version().strip("\0").splitlines()[0].split())
        raise UserError(
            f"the launcher started {launched.size()} processes, but each of them is alone in an "
            f"MPI world of {size}: launcher and MPI library do not belong together. mpi4py uses "
            f"{library!r}; use the mpirun of that library"
        )
    _end_job_on_exception()
    _raise_interrupted_on_sigusr1()
    write_by_lines()
    return MPI


def write_by_lines() -> None:
    """Let every line on stdout appear at once and whole, also in a pipe (as under mpirun)."""
    if hasattr(sys.stdout, "reconfigure"):  # not where a notebook has put something else
        sys.stdout.reconfigure(line_buffering=True, write_through=False)


def _end_job_on_exception():
    """Make an uncaught exception on one rank end all ranks, which would wait for it for ever."""
    print_exception = sys.excepthook

    def hook(kind, error, traceback):
        def report():
            print(f"\nAn error {launched.where()}:", file=sys.stderr)
            print_exception(kind, error, traceback)

        if isinstance(error, Interrupted):
            fail_together(lambda: None, error.status)
            sys.exit(error.status)  # as Python does for a SystemExit out of this function
        fail_together(report, error)

    sys.excepthook = hook


def _raise_interrupted_on_sigusr1():
    """Let what `launch.run_to_end` sends in the place of Ctrl-C end also what is no training."""

    def handle(signum, _):
        raise Interrupted(signum)

    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and signal.getsignal(signal.SIGUSR1) in (signal.SIG_DFL, None):
        signal.signal(signal.SIGUSR1, handle)


def abort(status: int) -> None:
    """End all processes of the MPI job at once."""
    _unlink_shared_memory()
    _start_mpi().COMM_WORLD.Abort(status)


@lru_cache(maxsize=1)
def _unlink_shared_memory():
    """Leave no memory behind, however the job ends.

    MPICH's ranks on one machine share a file in /dev/shm, which it removes at a regular end only.
    Once all ranks have heard from each other, all have mapped it, and it needs its name no longer.
    """
    with suppress(OSError), open("/proc/self/maps") as maps:  # on Linux
        for path in {*re.findall(r"/dev/shm/mpich_shm_\w+$", maps.read(), re.MULTILINE)}:
            with suppress(OSError):  # another rank was faster
                os.unlink(path)


def fail_together(report: Callable[[], object], status: int | BaseException) -> None:
    """Report an error once, and let the whole MPI job end with it; to be followed by the exit.

    Ranks that all fail alike meet here: rank 0 reports, and each leaves by itself. A rank that
    meets nobody has failed alone: it reports, and takes the others down when it exits.

    Args:
        report: Function that prints the error.
        status: Exit status for the job: a number or the exception.
    """
    alone = not _all_ranks_meet()
    if alone or launched.rank() == 0:
        report()
    sys.stdout.flush()
    sys.stderr.flush()
    if alone:
        _abort_at_exit(status)


def _abort_at_exit(status):
    """Let this process, as soon as it exits, end the whole job with `status`."""
    if not isinstance(status, int):
        status = 130 if isinstance(status, KeyboardInterrupt) else 1

    def end():
        sys.stdout.flush()
        time.sleep(0.2)  # what was printed is on its way through the launcher, which ends now
        abort(status)

    # Before all else that is done at exit: to take TensorFlow down takes seconds.
    atexit.register(end)
    # A thread that an environment has left behind can keep a process from its exit.
    timer = threading.Timer(PATIENCE, end)
    timer.daemon = True
    timer.start()


@contextmanager
def exit_together() -> Iterator[None]:
    """Let `sys.exit` on one rank end all ranks, which would wait for it for ever.

    Also `sys.exit(0)`, unless all ranks leave with it: the job ends with status 1.
    """
    try:
        yield
    except SystemExit as left:
        code = left.code  # None, a status or a message
        status = code if isinstance(code, int) else int(code is not None)
        if status:
            fail_together(lambda: status is code or print(code, file=sys.stderr), status)
        elif not _all_ranks_meet():
            message = "it left with sys.exit(0), and the others did not."
            print(f"\nAn error {launched.where()}: {message}", file=sys.stderr, flush=True)
            status = 1
            _abort_at_exit(status)
        sys.exit(status)


def _all_ranks_meet():
    """Whether every rank calls this function within PATIENCE seconds."""
    if not launched.by_mpi():
        return True
    if "mpi4py.MPI" not in sys.modules:
        # Before MPI runs nobody can wait for the others. Leave last what rank 0 has to say:
        # Open MPI's launcher kills all ranks as soon as one has left.
        time.sleep(0 if launched.rank() == 0 else PATIENCE)
        return True
    everybody = sys.modules["mpi4py.MPI"].COMM_WORLD.Ibarrier()
    deadline = time.monotonic() + PATIENCE
    while not everybody.Test():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def proc_id() -> int:
    """Rank of this process; 0 without MPI."""
    world = comm()
    return 0 if world is None else world.Get_rank()


def num_procs() -> int:
    """Number of MPI processes; 1 without MPI."""
    world = comm()
    return 1 if world is None else world.Get_size()


def msg(m: object, string: str = "") -> None:
    """Print a message that begins with the rank of this process."""
    print(f"Message from {proc_id()}: {string} \t {m}")


# ---------------------------------------------------------------- reductions


def _operation(op):
    """The MPI operation called `op` ("SUM", "MIN", "MAX", ...); an operation passes through."""
    return getattr(_start_mpi(), op) if isinstance(op, str) else op


def allreduce(x: np.ndarray, buff: np.ndarray, op: str | MPI.Op = "SUM") -> None:
    """Reduce the array `x` over all processes into the array `buff`, on every process."""
    world = comm()
    if world is None:
        np.copyto(buff, x)
    else:
        world.Allreduce(x, buff, op=_operation(op))
        _unlink_shared_memory()
    beat()


def broadcast(x: np.ndarray, root: int = 0) -> None:
    """Overwrite the array `x`, in place, with that of process `root`."""
    world = comm()
    if world is not None:
        world.Bcast(x, root=root)
    beat()


def broadcast_object(obj: Any, root: int = 0) -> Any:
    """The (small, picklable) object that process `root` passed in, on every process."""
    world = comm()
    if world is not None:
        obj = world.bcast(obj, root=root)
    beat()
    return obj


def gather_objects(obj: Any) -> list[Any]:
    """The (small, picklable) objects of all processes, in their order, on every process."""
    world = comm()
    objects = [obj]
    if world is not None:
        objects = world.allgather(obj)
        _unlink_shared_memory()
    beat()
    return objects


def on_root(function: Callable[[], Any]) -> Any:
    """What `function()` returns on rank 0, on every rank; a UserError that it raises likewise.

    The other ranks do not call it.
    """
    problem, result = None, None
    if proc_id() == 0:
        try:
            result = function()
        except UserError as error:
            if num_procs() == 1:
                raise
            problem = str(error)
    problem, result = broadcast_object((problem, result))
    if problem is not None:
        raise UserError(problem)
    return result


def mpi_op(x: Number, op: str | MPI.Op) -> Number:
    """Reduce `x` over all processes with `op`: a scalar in float64, an array in its own dtype."""
    if np.isscalar(x):
        return mpi_op(np.array([x], np.float64), op)[0]
    x = np.ascontiguousarray(x)
    if x.dtype not in (np.float32, np.float64, np.int32, np.int64):
        x = x.astype(np.float64)
    buff = np.empty_like(x)
    allreduce(x, buff, op)
    return buff


def mpi_sum(x: Number) -> Number:
    """Sum of a scalar or array over all processes."""
    return mpi_op(x, "SUM")


def mpi_avg(x: Number) -> Number:
    """Mean of a scalar or array over all processes, each with the same weight."""
    return mpi_sum(x) / num_procs()


def mpi_statistics_scalar(
    x: np.ndarray | Sequence[float], with_min_and_max: bool = False
) -> tuple[np.float32, ...]:
    """Mean and population standard deviation (and min and max) of the numbers of all processes.

    `x` holds the numbers of this process in any shape, possibly none. Collective: every process
    must call it. Returns np.float32 scalars `(mean, std)` or `(mean, std, min, max)`; NaN when no
    process has a number.
    """
    x = np.asarray(x, dtype=np.float64).ravel()
    total, count = mpi_sum(np.array([x.sum(), x.size]))
    mean = total / count if count else np.nan
    # Deviations from the global mean: the difference of two large sums would lose all digits.
    squares = mpi_sum(np.square(x - mean).sum())
    statistics = [mean, np.sqrt(squares / count) if count else np.nan]
    if with_min_and_max:
        smallest = mpi_op(x.min(initial=np.inf), "MIN")
        largest = mpi_op(x.max(initial=-np.inf), "MAX")
        statistics += [smallest, largest] if count else [np.nan, np.nan]
    return tuple(np.float32(value) for value in statistics)
