import keras
import numpy as np
import pytest
import tensorflow as tf

from spinup_tf2 import ppo, sac
from spinup_tf2.parallel import mpi
from spinup_tf2.parallel.tensors import (
    MpiAdamOptimizer,
    assign_params_from_flat,
    check_params,
    flat_concat,
    mpi_avg_grads,
    sync_params,
)
from spinup_tf2.training import run as training
from spinup_tf2.training.checkpoints import Checkpoints, numbered, read_ranks
from tests import off_policy_runs
from tests import on_policy_runs as runs
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
        params = variables(float(mpi.proc_id()))
        sync_params(params)
        return flat_concat(params).numpy()

    for flat in run_ranks(3, rank):
        np.testing.assert_array_equal(flat, [0] * 6 + [1])


def test_mpi_avg_grads_is_the_mean_over_ranks():
    def rank():
        r = float(mpi.proc_id())
        return mpi_avg_grads([tf.fill((2, 2), r), tf.constant([3 * r])])

    for a, b in run_ranks(3, rank):
        np.testing.assert_allclose(a, np.ones((2, 2)))
        np.testing.assert_allclose(b, [3])


@pytest.mark.parametrize("compiled", [False, True])
def test_mpi_adam_steps_with_averaged_gradients(compiled):
    def rank():
        variable = keras.Variable([1.0])
        optimizer = MpiAdamOptimizer(learning_rate=0.1)
        optimizer.build([variable])

        def step(gradient):
            optimizer.apply([gradient], [variable])

        step = tf.function(step) if compiled else step
        step(tf.constant([float(mpi.proc_id())]))  # mean 0.5
        step(tf.constant([-1.5 + float(mpi.proc_id())]))  # mean -1
        return variable.numpy()

    alone = keras.Variable([1.0])
    optimizer = keras.optimizers.Adam(0.1, epsilon=1e-8)
    for gradient in (0.5, -1.0):
        optimizer.apply([tf.constant([gradient])], [alone])
    for value in run_ranks(2, rank):
        np.testing.assert_allclose(value, alone.numpy(), rtol=1e-6)


def test_ranks_that_differ_are_reported():
    def rank():
        check_params(variables(0.5 * mpi.proc_id()))

    with pytest.raises(RuntimeError, match=r"differ by up to 0\.5"):
        run_ranks(2, rank)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_on_one_rank_alone_is_a_difference(value):
    with pytest.raises(RuntimeError, match="differ by up to inf"):
        run_ranks(2, lambda: check_params(variables(value if mpi.proc_id() == 1 else 0.0)))
    run_ranks(2, lambda: check_params(variables(value)))


def test_what_is_no_weight_is_evened_out_or_reported_too():
    """Moments and counts of an optimizer, and statistics, which are float64 and may be large."""

    def rank(statistic=0.0):
        variable = keras.Variable([1.0, 2.0])
        optimizer = keras.optimizers.Adam(0.1)
        optimizer.build([variable])
        gradient = [1.0, 1.0 + 1e-6 * mpi.proc_id()]
        optimizer.apply([tf.constant(gradient)], [variable])
        mean = keras.Variable(1e6 + statistic * mpi.proc_id(), dtype="float64")
        shared = [variable, *optimizer.variables, mean]
        before = [each.numpy() for each in shared]
        check_params(shared)
        return before, [each.numpy() for each in shared]

    (root, _), (before, after) = run_ranks(2, lambda: rank(statistic=0.25))
    assert any((x != y).any() for x, y in zip(before, root, strict=True))
    for x, y in zip(after, root, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)
    with pytest.raises(RuntimeError, match=r"differ by up to 0\.0002"):
        run_ranks(2, lambda: rank(statistic=200.0))


@pytest.mark.parametrize(
    ("family", "algorithm", "kwargs"),
    [
        (runs, ppo, dict(normalize_obs=True, normalize_reward=True, train_pi_iters=1)),
        (off_policy_runs, sac, dict(alpha="auto", steps_per_epoch=60, num_test_episodes=0)),
    ],
    ids=["ppo", "sac"],
)
def test_training_checks_all_that_a_checkpoint_says_ranks_share(
    family, algorithm, kwargs, tmp_path, monkeypatch
):
    checked = []
    monkeypatch.setattr(training, "check_params", lambda params: checked.append([*params]))
    family.train(algorithm, tmp_path, runs.make("Pendulum-v1"), epochs=1, **kwargs)
    unique = {id(each): each.shape for each in checked[-1]}
    saved = numbered(read_ranks(Checkpoints(tmp_path).newest())[0], "variables/")
    assert [*unique.values()] == [each.shape for each in saved]
