"""Spinning Up's MPI functions. A single process needs no MPI; mpi4py is not even imported.

All access to MPI goes through `comm()`, which returns COMM_WORLD in a process started by an MPI
launcher (mpirun, mpiexec, srun), and None otherwise. It imports mpi4py on its first call, never at
import time, because some MPI libraries crash if MPI is started in a process that later forks
environment workers.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
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

if TYPE_CHECKING:
    from mpi4py import MPI

Number = TypeVar("Number", float, np.ndarray)

INSTALL_HINT = 'install one with: pip install "spinup_tf2[mpi]"'

PATIENCE = 1.0  # seconds to wait for ranks that fail together, or for a failed one to exit

_SHARED_PER_RANK = 5 * 2**20  # bytes in /dev/shm, for each of MPICH's ranks on a machine

_alive = False


def beat() -> None:
    """Tell the watchdog of this process that there is progress: a step, or news from others."""
    global _alive
    _alive = True


def has_beaten() -> bool:
    """Return whether there has been a `beat` since the last call of this function."""
    global _alive
    alive, _alive = _alive, False
    return alive


# ---------------------------------------------------------------- the communicator


def comm() -> MPI.Intracomm | None:
    """Return COMM_WORLD if an MPI launcher started this process, else None."""
    return _start_mpi().COMM_WORLD if launched.by_mpi() else None


@lru_cache(maxsize=1)
def _start_mpi():
    """Import mpi4py (which starts MPI) and check that the world has the size the launcher says."""
    # Open MPI's libfabric transport takes a second to start and spins on small machines.
    os.environ.setdefault("OMPI_MCA_btl", "^ofi")
    _check_shared_memory()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # mpi4py warns about what is checked below
            from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise UserError(
            f"this process was started by an MPI launcher, but mpi4py finds no MPI library "
            f"({str(error).splitlines()[0]}); {INSTALL_HINT}"
        ) from error
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


def _check_shared_memory():
    """Raise UserError if MPICH's ranks here would die of a bus error, as there is no room."""
    needed = _SHARED_PER_RANK * launched.local_ranks()
    with suppress(OSError):
        free = shutil.disk_usage("/dev/shm").free
        if "PMI_SIZE" in os.environ and free < needed:
            raise UserError(
                f"the processes of MPI share memory in /dev/shm, which has {free / 2**20:.2g} MiB "
                f"left, and {launched.local_ranks()} of them need {needed / 2**20:.0f}; start "
                "fewer (num_cpu), or make it larger (docker run --shm-size=1g)."
            )


def write_by_lines() -> None:
    """Make every line on stdout appear at once and whole, even in a pipe (as under mpirun)."""
    if hasattr(sys.stdout, "reconfigure"):  # a notebook's replacement has no such method
        sys.stdout.reconfigure(line_buffering=True, write_through=False)


def _end_job_on_exception():
    """Make an uncaught exception on one rank end all ranks, which would otherwise wait forever."""
    print_exception = sys.excepthook

    def hook(kind, error, traceback):
        def report():
            print(f"\nAn error {launched.where()}:", file=sys.stderr)
            print_exception(kind, error, traceback)

        if isinstance(error, Interrupted):
            fail_together(lambda: None, error.status)
            sys.exit(error.status)  # Python honors a SystemExit raised in this hook
        fail_together(report, error)

    sys.excepthook = hook


def _raise_interrupted_on_sigusr1():
    """Make SIGUSR1, which `launch.run_to_end` sends instead of Ctrl-C, raise Interrupted.

    During training, `Interruption` handles the signal; this covers everything else.
    """

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
    """Make sure that no shared memory is left behind, however the job ends.

    MPICH's ranks on one machine share a file in /dev/shm, which is removed only on a regular exit.
    Once the ranks have communicated, all of them have mapped the file, so it can be unlinked.
    """
    with suppress(OSError), open("/proc/self/maps") as maps:  # on Linux
        for path in {*re.findall(r"/dev/shm/mpich_shm_\w+$", maps.read(), re.MULTILINE)}:
            with suppress(OSError):  # another rank was faster
                os.unlink(path)


def fail_together(report: Callable[[], object], status: int | BaseException) -> None:
    """Report an error once and let the whole MPI job end with it. The caller must exit afterwards.

    If all ranks fail in the same way, they meet here: rank 0 reports the error, and each rank exits
    by itself. A rank that meets no other has failed alone: it reports the error itself, and aborts
    the job when it exits.

    Args:
        report: Function that prints the error.
        status: Exit status of the job, or the exception to derive it from.
    """
    alone = not _all_ranks_meet()
    if alone or launched.rank() == 0:
        report()
    _flush()
    if alone:
        _abort_at_exit(status)


def _flush():
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):  # there is none, or it is closed
            stream.flush()


def _abort_at_exit(status):
    """Make this process end the whole job with `status` as soon as it exits."""
    if not isinstance(status, int):
        status = 130 if isinstance(status, KeyboardInterrupt) else 1

    def end():
        _flush()
        time.sleep(0.2)  # let the output pass through the launcher before it is ended
        abort(status)

    # Runs before all other exit handlers: shutting down TensorFlow takes seconds.
    atexit.register(end)
    # A thread that an environment has left behind can keep a process from exiting.
    timer = threading.Timer(PATIENCE, end)
    timer.daemon = True
    timer.start()


@contextmanager
def exit_together() -> Iterator[None]:
    """Make `sys.exit` on one rank end all ranks, which would otherwise wait for it forever.

    This holds for `sys.exit(0)` too: unless all ranks call it, the job ends with status 1.
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
    """Return whether every rank calls this function within PATIENCE seconds."""
    if not launched.by_mpi():
        return True
    if "mpi4py.MPI" not in sys.modules:
        # Before MPI is started, no rank can wait for the others. Let rank 0, which reports, exit
        # first: Open MPI's launcher kills all ranks as soon as one has exited.
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
    """Return the rank of this process; 0 without MPI."""
    world = comm()
    return 0 if world is None else world.Get_rank()


def num_procs() -> int:
    """Return the number of MPI processes; 1 without MPI."""
    world = comm()
    return 1 if world is None else world.Get_size()


def msg(m: object, string: str = "") -> None:
    """Print a message preceded by the rank of this process."""
    print(f"Message from {proc_id()}: {string} \t {m}")


# ---------------------------------------------------------------- reductions


def _operation(op):
    """Return the MPI operation named `op` ("SUM", "MIN", "MAX", ...), or `op` if it is one."""
    return getattr(_start_mpi(), op) if isinstance(op, str) else op


def allreduce(x: np.ndarray, buff: np.ndarray, op: str | MPI.Op = "SUM") -> None:
    """Reduce the array `x` over all processes into the array `buff`, on every process."""
    world = comm()
    if world is None:
        np.copyto(buff, x)
    else:
        world.Allreduce(x, buff, op=_operation(op))
        _unlink_shared_memory()
        if x.dtype.kind == "f" and _operation(op) in map(_operation, ("MIN", "MAX")):
            nan = np.isnan(x).astype(np.int64)  # MPI may ignore a NaN of one process alone
            buff[mpi_sum(nan) > 0] = np.nan
    beat()


def broadcast(x: np.ndarray, root: int = 0) -> None:
    """Overwrite the array `x` in place with that of process `root`."""
    world = comm()
    if world is not None:
        world.Bcast(x, root=root)
    beat()


def broadcast_object(obj: Any, root: int = 0) -> Any:
    """Return, on every process, the (small, picklable) object that process `root` passed in."""
    world = comm()
    if world is not None:
        obj = world.bcast(obj, root=root)
    beat()
    return obj


def gather_objects(obj: Any) -> list[Any]:
    """Return, on every process, the (small, picklable) objects of all processes, in rank order."""
    world = comm()
    objects = [obj]
    if world is not None:
        objects = world.allgather(obj)
        _unlink_shared_memory()
    beat()
    return objects


def on_root(function: Callable[[], Any]) -> Any:
    """Call `function` on rank 0 only, and return its result on every rank.

    A UserError that it raises is raised on every rank as well. Collective.
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
    """Return the sum of a scalar or array over all processes."""
    return mpi_op(x, "SUM")


def mpi_avg(x: Number) -> Number:
    """Return the mean of a scalar or array over all processes, equally weighted."""
    return mpi_sum(x) / num_procs()


def mpi_statistics_scalar(
    x: np.ndarray | Sequence[float], with_min_and_max: bool = False
) -> tuple[np.float32, ...]:
    """Return mean and population standard deviation (and min and max) of `x` over all processes.

    Collective: every process must call it.

    Args:
        x: The numbers of this process, in any shape; may be empty.
        with_min_and_max: Whether to return the minimum and the maximum as well.

    Returns:
        np.float32 scalars `(mean, std)` or `(mean, std, min, max)`, all NaN if no process has any
        numbers.
    """
    x = np.asarray(x, dtype=np.float64).ravel()
    total, count = mpi_sum(np.array([x.sum(), x.size]))
    mean = total / count if count else np.nan
    # Deviations from the global mean: subtracting two large sums would lose precision.
    with np.errstate(over="ignore"):
        squares = mpi_sum(np.square(x - mean).sum())
    statistics = [mean, np.sqrt(squares / count) if count else np.nan]
    if with_min_and_max:
        smallest = mpi_op(x.min(initial=np.inf), "MIN")
        largest = mpi_op(x.max(initial=-np.inf), "MAX")
        statistics += [smallest, largest] if count else [np.nan, np.nan]
    return tuple(map(np.float32, statistics))
