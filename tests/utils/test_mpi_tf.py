import keras
import numpy as np
import pytest
import tensorflow as tf

from spinup_tf2.utils import mpi_tools
from spinup_tf2.utils.mpi_tf import (
    MpiAdamOptimizer,
    assign_params_from_flat,
    check_params,
    flat_concat,
    mpi_avg_grads,
    sync_params,
)
from tests.fake_mpi import run_ranks


def variables(offset=0.0):
    return [keras.Variable(np.full((2, 3), offset, np.float32)), keras.Variable([offset + 1.0])]


def test_flat_and_back():
    params = variables()
    assign_params_from_flat(tf.range(7.0), params)
    np.testing.assert_array_equal(params[0], [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_array_equal(flat_concat(params), np.arange(7))


def test_sync_params_gives_every_rank_those_of_rank_0():
    def rank():
        params = variables(float(mpi_tools.proc_id()))
        sync_params(params)
        return flat_concat(params).numpy()

    for flat in run_ranks(3, rank):
        np.testing.assert_array_equal(flat, [0] * 6 + [1])


def test_mpi_avg_grads_is_the_mean_over_ranks():
    def rank():
        r = float(mpi_tools.proc_id())
        return mpi_avg_grads([tf.fill((2, 2), r), tf.constant([3 * r])])

    for a, b in run_ranks(3, rank):
        np.testing.assert_allclose(a, np.ones((2, 2)))
        np.testing.assert_allclose(b, [3])


def test_mpi_adam_steps_with_averaged_gradients():
    def rank():
        variable = keras.Variable([1.0])
        optimizer = MpiAdamOptimizer(learning_rate=0.1)
        optimizer.apply([tf.constant([float(mpi_tools.proc_id())])], [variable])  # mean 0.5
        optimizer.apply([tf.constant([-1.5 + float(mpi_tools.proc_id())])], [variable])  # mean -1
        return variable.numpy()

    alone = keras.Variable([1.0])
    optimizer = keras.optimizers.Adam(0.1, epsilon=1e-8)
    for gradient in (0.5, -1.0):
        optimizer.apply([tf.constant([gradient])], [alone])
    for value in run_ranks(2, rank):
        np.testing.assert_allclose(value, alone.numpy(), rtol=1e-6)


def test_mpi_adam_in_a_compiled_function_says_why_not():
    def rank():
        variable = keras.Variable([1.0])
        optimizer = MpiAdamOptimizer(learning_rate=0.1)
        optimizer.build([variable])
        tf.function(lambda: optimizer.apply([tf.ones(1)], [variable]))()

    with pytest.raises(RuntimeError, match="call it eagerly"):
        run_ranks(2, rank)


def test_ranks_that_differ_are_reported():
    def rank():
        check_params(variables(0.5 * mpi_tools.proc_id()))

    with pytest.raises(RuntimeError, match=r"differ by up to 0\.5"):
        run_ranks(2, rank)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_on_one_rank_alone_is_a_difference(value):
    with pytest.raises(RuntimeError, match="differ by up to inf"):
        run_ranks(2, lambda: check_params(variables(value if mpi_tools.proc_id() == 1 else 0.0)))
    run_ranks(2, lambda: check_params(variables(value)))


def test_rounding_differences_are_evened_out():
    def rank():
        params = variables(1e-6 * mpi_tools.proc_id())
        check_params(params)
        return flat_concat(params).numpy()

    first, second = run_ranks(2, rank)
    np.testing.assert_array_equal(first, second)
