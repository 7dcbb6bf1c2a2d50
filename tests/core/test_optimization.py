"""Compiled gradient steps against the obvious eager loop."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from spinup_tf2.core.networks import mlp
from spinup_tf2.core.optimization import GradientSteps, adam
from spinup_tf2.utils import mpi_tools
from tests.fake_mpi import run_ranks


def batch(n=64, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)).astype(np.float32)
    return dict(x=tf.constant(x), y=tf.constant(np.sin(x.sum(1, keepdims=True))))


def make(num_steps=10, stop=None, learning_rate=1e-2):
    keras.utils.set_random_seed(0)
    net = mlp(3, (16,), 1)

    def loss(batch):
        error = net(batch["x"]) - batch["y"]
        return tf.reduce_mean(tf.square(error)), dict(MaxError=tf.reduce_max(tf.abs(error)))

    return net, GradientSteps(loss, net.trainable_variables, adam(learning_rate), num_steps, stop)


def adam_by_hand(net, data, num_steps, learning_rate=1e-2):
    """Kingma & Ba (2015), algorithm 1, with epsilon 1e-8, in float64."""
    params = [v.numpy().astype(np.float64) for v in net.trainable_variables]
    m, v = [0 * p for p in params], [0 * p for p in params]
    for t in range(1, num_steps + 1):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(net(data["x"]) - data["y"]))
        for i, g in enumerate(tape.gradient(loss, net.trainable_variables)):
            g = g.numpy().astype(np.float64)
            m[i] = 0.9 * m[i] + 0.1 * g
            v[i] = 0.999 * v[i] + 0.001 * g**2
            m_hat, v_hat = m[i] / (1 - 0.9**t), v[i] / (1 - 0.999**t)
            params[i] -= learning_rate * m_hat / (np.sqrt(v_hat) + 1e-8)
            net.trainable_variables[i].assign(params[i])
    return params


def test_compiled_steps_equal_adam_by_hand():
    net, steps = make()
    before, after, taken = steps(batch())
    assert taken == 10
    assert after["Loss"] < before["Loss"]
    reference, _ = make()
    for ours, theirs in zip(
        net.trainable_variables, adam_by_hand(reference, batch(), 10), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)


def test_before_and_after_are_the_loss_before_and_after():
    net, steps = make()
    before, after, _ = steps(batch())
    fresh, _ = make()
    for info, model in ((before, fresh), (after, net)):
        error = (model(batch()["x"]) - batch()["y"]).numpy()
        assert info["Loss"] == pytest.approx(np.mean(error**2), rel=1e-5)
        assert info["MaxError"] == pytest.approx(np.abs(error).max(), rel=1e-5)


def test_stops_before_the_step_that_is_not_wanted():
    """The stop is asked with the info of the parameters as they are, and no step follows a yes."""
    _, steps = make(100)
    before, _, _ = steps(batch())
    limit = before["MaxError"] - 0.2
    net, steps = make(100, stop=lambda info: info["MaxError"] < limit)
    _, after, taken = steps(batch())
    assert 0 < taken < 100
    assert after["MaxError"] < limit
    shorter, one_less = make(taken - 1)
    _, after, _ = one_less(batch())
    assert after["MaxError"] >= limit

    net, steps = make(100, stop=lambda info: info["MaxError"] < 1e9)
    before, after, taken = steps(batch())
    assert taken == 0
    assert before == after


def test_compiles_once():
    _, steps = make()
    for seed in range(3):
        steps(batch(seed=seed))
    assert steps._compiled_steps.experimental_get_tracing_count() == 1


@pytest.mark.parametrize("stop_at", [None, 0.25])
def test_ranks_with_parts_of_a_batch_equal_one_with_the_whole(stop_at):
    """Three ranks with a third each: the same steps as one process with everything."""
    whole = batch(63)
    parts = [{k: x[21 * r : 21 * (r + 1)] for k, x in whole.items()} for r in range(3)]

    def mean_stop(info):  # an info that is an average over samples, as KL is
        return False if stop_at is None else info["MeanError"] < stop_at

    def make_with_mean():
        net, steps = make(60, mean_stop)
        steps.loss = lambda b: (
            tf.reduce_mean(tf.square(net(b["x"]) - b["y"])),
            dict(MeanError=tf.reduce_mean(tf.abs(net(b["x"]) - b["y"]))),
        )
        return net, steps

    net, steps = make_with_mean()
    before, after, taken = steps(whole)
    assert (taken < 60) == (stop_at is not None)

    ranks = [make_with_mean() for _ in range(3)]
    results = run_ranks(3, lambda: ranks[mpi_tools.proc_id()][1](parts[mpi_tools.proc_id()]))
    for (rank_net, _), (rank_before, rank_after, rank_taken) in zip(ranks, results, strict=True):
        assert rank_taken == taken
        assert rank_before == pytest.approx(before, rel=1e-5)
        assert rank_after == pytest.approx(after, rel=1e-3)
        for ours, theirs in zip(rank_net.variables, net.variables, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_ranks_compile_each_piece_once():
    ranks = [make()[1] for _ in range(2)]

    def rank():
        for seed in range(3):
            ranks[mpi_tools.proc_id()](batch(seed=seed))

    run_ranks(2, rank)
    for steps in ranks:
        for piece in (steps._compiled_gradients, steps._compiled_apply, steps._compiled_evaluate):
            assert piece.experimental_get_tracing_count() == 1


@pytest.mark.parametrize("num_procs", [1, 2])
def test_a_layer_that_the_loss_does_not_use_stays_as_it_is(num_procs):
    def make_with_unused():
        used, unused = keras.Variable([1.0]), keras.Variable([2.0])
        loss = lambda batch: (tf.reduce_mean(used * batch["x"]), {})  # noqa: E731
        return unused, GradientSteps(loss, [used, unused], adam(0.1), 3)

    ranks = [make_with_unused() for _ in range(num_procs)]
    run_ranks(num_procs, lambda: ranks[mpi_tools.proc_id()][1](dict(x=tf.ones(3))))
    for unused, _ in ranks:
        np.testing.assert_array_equal(unused, [2.0])
