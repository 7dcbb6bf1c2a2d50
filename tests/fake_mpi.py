"""MPI without MPI: ranks are threads, and the communicator is a barrier and a shared list.

    results = run_ranks(4, lambda: mpi.mpi_sum(mpi.proc_id()))

Meant for testing what ranks compute together; how real processes start and end is tested in
`tests/mpi`.
"""

import copy
import threading
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import numpy as np
import tensorflow as tf

from spinup_tf2.parallel import mpi, tensors

# MPI libraries compare with < and >, and so may ignore a NaN.
_REDUCE = {"SUM": np.add, "MIN": np.fmin, "MAX": np.fmax, "PROD": np.multiply}
_this_thread = threading.local()


class _World:
    """What the ranks share. A rank that fails breaks the barrier, and so ends the others."""

    def __init__(self, size, timeout):
        self.size = size
        self.slots = [None] * size
        self.barrier = threading.Barrier(size, timeout=timeout)


class FakeComm:
    """The methods of an mpi4py communicator that the package uses, as seen by one rank."""

    def __init__(self, world, rank):
        self.world = world
        self.rank = rank

    def Get_rank(self):
        return self.rank

    def Get_size(self):
        return self.world.size

    def Barrier(self):
        self.world.barrier.wait()

    def allgather(self, obj):
        self.world.slots[self.rank] = copy.deepcopy(obj)
        self.Barrier()
        gathered = copy.deepcopy(self.world.slots)
        self.Barrier()  # nobody writes the next round before everybody has read this one
        return gathered

    def gather(self, obj, root=0):
        gathered = self.allgather(obj)
        return gathered if self.rank == root else None

    def bcast(self, obj, root=0):
        return self.allgather(obj if self.rank == root else None)[root]

    def Bcast(self, x, root=0):
        x[...] = self.allgather(x if self.rank == root else None)[root]

    def Allreduce(self, x, buff, op="SUM"):
        arrays = self.allgather(x)
        assert len({(array.shape, array.dtype) for array in arrays}) == 1, "ranks disagree"
        buff[...] = _REDUCE[op].reduce(arrays)


def _comm_of_this_thread():
    return getattr(_this_thread, "comm", None)


def _numpy_function(func, inp, dtype, original=tf.numpy_function):
    """tf.numpy_function, called by a thread that belongs to the rank that has compiled it."""
    comm = _comm_of_this_thread()

    def call(*args):
        _this_thread.comm = comm
        return func(*args)

    return original(call, inp, dtype)


def run_ranks(n, fn, timeout=180):
    """Run `fn()` on `n` ranks at once; return their results in the order of the ranks.

    The exception of the first rank that failed by itself is raised here.
    """
    world = _World(n, timeout)
    tensors._order()  # threads that make it at the same time would get different ones

    def run(rank):
        _this_thread.comm = FakeComm(world, rank)
        try:
            return fn()
        except BaseException:
            world.barrier.abort()
            raise

    with (
        mock.patch.object(mpi, "comm", _comm_of_this_thread),
        mock.patch.object(mpi, "_operation", str),
        mock.patch.object(tf, "numpy_function", _numpy_function),
        ThreadPoolExecutor(n) as pool,
    ):
        futures = [pool.submit(run, rank) for rank in range(n)]
    errors = [future.exception() for future in futures if future.exception()]
    errors.sort(key=lambda error: "BrokenBarrierError" in repr(error))
    if errors:
        raise errors[0]
    return [future.result() for future in futures]
