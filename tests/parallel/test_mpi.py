import multiprocessing
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from spinup_tf2.errors import UserError
from spinup_tf2.parallel import launched, mpi
from tests.fake_mpi import run_ranks

LAUNCHER_VARIABLES = [name for pair in launched._LAUNCHERS for name in pair]


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
    for name in LAUNCHER_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def set_environment(monkeypatch, **variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


# ---------------------------------------------------------------- one process


def test_one_process_needs_no_mpi():
    assert mpi.comm() is None
    assert (mpi.proc_id(), mpi.num_procs()) == (0, 1)
    assert mpi.mpi_sum(3) == mpi.mpi_avg(3) == 3
    x = np.array([1.0, 2.0], np.float32)
    mpi.broadcast(x)
    np.testing.assert_array_equal(mpi.mpi_avg(x), [1, 2])
    assert mpi.broadcast_object("a") == "a"
    buff = np.zeros(2, np.float32)
    mpi.allreduce(x, buff)
    np.testing.assert_array_equal(buff, x)


# ---------------------------------------------------------------- several processes


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_reductions(dtype):
    """Also of a slice with gaps; arrays keep their type and shape."""

    def ranks():
        x = np.full((2, 6), mpi.proc_id(), dtype)[:, ::2]
        return mpi.mpi_sum(x), mpi.mpi_op(x, "MAX"), mpi.mpi_avg(x), mpi.proc_id()

    for rank, (*reduced, average, number) in enumerate(run_ranks(4, ranks)):
        assert rank == number
        np.testing.assert_array_equal(average, np.full((2, 3), 1.5))
        for array, value in zip(reduced, (6, 3), strict=True):
            assert array.dtype == dtype
            np.testing.assert_array_equal(array, np.full((2, 3), value))


@pytest.mark.parametrize("x", [2**24 + 1, float(2**24 + 1), np.float64(2**24 + 1)])
def test_scalars_are_reduced_in_float64(x):
    # 2**24 + 1 is the first whole number that float32 cannot hold.
    assert run_ranks(2, lambda: mpi.mpi_sum(x)) == [2**25 + 2] * 2


def test_broadcast_writes_in_place():
    def ranks():
        x = np.full(2, mpi.proc_id(), np.float32)
        mpi.broadcast(x, root=1)
        return x, mpi.broadcast_object({"rank": mpi.proc_id()}, root=2)

    for x, obj in run_ranks(3, ranks):
        np.testing.assert_array_equal(x, [1, 1])
        assert obj == {"rank": 2}


def test_statistics_are_those_of_all_numbers_together():
    parts = [np.array([1.0, 5.0]), [], np.array([[2.0, 2.5], [-7.0, 0.25]])]
    together = np.concatenate([np.ravel(part) for part in parts])

    results = run_ranks(3, lambda: mpi.mpi_statistics_scalar(parts[mpi.proc_id()], True))
    expected = [together.mean(), together.std(), together.min(), together.max()]
    for result in results:
        np.testing.assert_allclose(result, expected, rtol=1e-6)
        assert all(isinstance(value, np.float32) for value in result)


def test_statistics_at_the_edges():
    assert mpi.mpi_statistics_scalar([1.0, 3.0]) == (2.0, 1.0)
    # The mean of squares minus the square of the mean would have lost this spread.
    assert mpi.mpi_statistics_scalar(1e8 + np.array([-1.0, 1.0]))[1] == 1.0
    for result in run_ranks(2, lambda: mpi.mpi_statistics_scalar([], True)):
        assert np.isnan(result).all()
        assert len(result) == 4


# ---------------------------------------------------------------- launchers


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"PMI_SIZE": "4", "PMI_RANK": "3"}, (4, 3)),
        ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"}, (2, 1)),
        ({"SLURM_STEP_NUM_TASKS": "8", "SLURM_PROCID": "5"}, (8, 5)),
        # an interactive shell of one task, and a batch script before any srun
        ({"SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}, None),
        ({"SLURM_NTASKS": "8", "SLURM_PROCID": "0"}, None),
        # mpirun inside a Slurm step of one launcher process per node
        (
            {
                "SLURM_STEP_NUM_TASKS": "2",
                "SLURM_PROCID": "1",
                "OMPI_COMM_WORLD_SIZE": "16",
                "OMPI_COMM_WORLD_RANK": "9",
            },
            (16, 9),
        ),
    ],
)
def test_launchers_are_recognised(monkeypatch, variables, expected):
    set_environment(monkeypatch, **variables)
    assert launched._world() == expected
    assert launched.by_mpi() == (expected is not None)
    assert launched.rank() == (expected[1] if expected else 0)


def test_ranks_have_room_for_what_they_share(monkeypatch):
    """MPICH's would die of a bus error."""
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=64 * 2**10))
    set_environment(monkeypatch, PMI_SIZE="2", PMI_RANK="0", MPI_LOCALNRANKS="2")
    monkeypatch.setattr(mpi, "_start_mpi", mpi._start_mpi.__wrapped__)
    with pytest.raises(UserError, match=r"/dev/shm, which has 0.062 MiB left.* need 10; .*shm"):
        mpi.comm()


def tell_whether_tensorflow_works(queue):
    try:
        launched.limit_tensorflow()
        queue.put("it does")
    except UserError as error:
        queue.put(str(error))


def test_tensorflow_after_a_fork_is_refused_instead_of_waiting_for_ever():
    tf.constant(1) + 1
    launched.limit_tensorflow()  # here it has its threads
    fork = multiprocessing.get_context("fork")
    queue = fork.SimpleQueue()
    child = fork.Process(target=tell_whether_tensorflow_works, args=(queue,))
    child.start()
    child.join(30)
    assert "was forked from one that had used TensorFlow" in queue.get()


class Op:
    """As of mpi4py, which the reductions take besides names."""

    def __str__(self):
        return "MAX"


@pytest.mark.parametrize("op", ["MIN", "MAX", Op()])
@pytest.mark.parametrize("alone", [1, 2])
def test_nan_of_one_rank_counts(op, alone):
    values = [np.nan if rank == alone else float(rank) for rank in range(3)]
    reduced = run_ranks(3, lambda: mpi.mpi_op(np.array([values[mpi.proc_id()], 7.0]), op))
    assert all(np.isnan(each[0]) and each[1] == 7 for each in reduced)
