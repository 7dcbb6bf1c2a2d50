"""Compiled gradient steps against the obvious eager loop."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from spinup_tf2.core.gradient_steps import GradientSteps, Training, adam
from spinup_tf2.core.nets.layers import mlp
from spinup_tf2.core.update_block import Minimize
from spinup_tf2.parallel import mpi
from tests.fake_mpi import run_ranks


def batch(n=64, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)).astype(np.float32)
    return dict(x=tf.constant(x), y=tf.constant(np.sin(x.sum(1, keepdims=True))))


def make(num_steps=10, stop=None, learning_rate=1e-2, max_grad_norm=None):
    keras.utils.set_random_seed(0)
    net = mlp(3, (16,), 1)

    def loss(batch):
        error = net(batch["x"]) - batch["y"]
        loss, size = tf.reduce_mean(tf.square(error)), tf.abs(error)
        return loss, dict(Loss=loss, MaxError=tf.reduce_max(size), MeanError=tf.reduce_mean(size))

    optimizer = adam(learning_rate, max_grad_norm)
    return net, Training(GradientSteps(loss, net.trainable_variables, optimizer, num_steps, stop))


def times_compiled(training):
    return training._compiled.experimental_get_tracing_count()


def adam_by_hand(net, batches, learning_rate=1e-2, max_grad_norm=np.inf):
    """Kingma & Ba (2015), algorithm 1, with epsilon 1e-8, in float64: a step on each batch."""
    params = [v.numpy().astype(np.float64) for v in net.trainable_variables]
    m, v = [0 * p for p in params], [0 * p for p in params]
    for t, data in enumerate(batches, start=1):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(net(data["x"]) - data["y"]))
        grads = [np.array(g, np.float64) for g in tape.gradient(loss, net.trainable_variables)]
        norm = np.sqrt(sum(np.sum(g**2) for g in grads))
        for i, g in enumerate(grads):
            g = g * min(1, max_grad_norm / norm)
            m[i] = 0.9 * m[i] + 0.1 * g
            v[i] = 0.999 * v[i] + 0.001 * g**2
            m_hat, v_hat = m[i] / (1 - 0.9**t), v[i] / (1 - 0.999**t)
            params[i] -= learning_rate * m_hat / (np.sqrt(v_hat) + 1e-8)
            net.trainable_variables[i].assign(params[i])
    return params


def test_compiled_passes_equal_adam_by_hand():
    net, steps = make()
    before, after, taken = steps(batch())
    assert taken == 10
    assert after["Loss"] < before["Loss"]
    reference, _ = make()
    for ours, theirs in zip(
        net.trainable_variables, adam_by_hand(reference, [batch()] * 10), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)


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


@pytest.mark.parametrize("stop_at", [None, 0.25])
def test_ranks_with_parts_of_a_batch_equal_one_with_the_whole(stop_at):
    """Three ranks with a third each: the same steps as one process with everything."""
    whole = batch(63)
    parts = [{k: x[21 * r : 21 * (r + 1)] for k, x in whole.items()} for r in range(3)]

    def mean_stop(info):  # an info that is an average over samples, as KL is
        return False if stop_at is None else info["MeanError"] < stop_at

    net, steps = make(60, mean_stop)
    before, after, taken = steps(whole)
    assert (taken < 60) == (stop_at is not None)

    ranks = [make(60, mean_stop) for _ in range(3)]
    results = run_ranks(3, lambda: ranks[mpi.proc_id()][1](parts[mpi.proc_id()]))
    for (rank_net, _), (rank_before, rank_after, rank_taken) in zip(ranks, results, strict=True):
        assert rank_taken == taken
        for key in ("Loss", "MeanError"):
            assert rank_before[key] == pytest.approx(before[key], rel=1e-5)
            assert rank_after[key] == pytest.approx(after[key], rel=1e-3)
        for ours, theirs in zip(rank_net.variables, net.variables, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-4)


@pytest.mark.parametrize("kind", [GradientSteps, Minimize])
def test_info_is_averaged_over_ranks_or_is_each_ranks_own(kind):
    """The gradient of the mean of x is averaged in any case: of 1, 2 and 6 it is 3."""
    average_info = kind is GradientSteps

    def rank():
        variable, x = keras.Variable([1.0]), [1.0, 2.0, 6.0][mpi.proc_id()]

        def loss(batch):
            loss = tf.reduce_mean(variable * batch["x"])
            return loss, dict(Loss=loss, Squares=batch["x"] ** 2 if not average_info else loss**2)

        optimizer = keras.optimizers.SGD(0.1)
        step, data = kind(loss, [variable], optimizer), dict(x=tf.fill([2], x))
        info = step.step(data) if average_info else tf.function(step)(data)
        return variable.numpy(), {key: np.array(value) for key, value in info.items()}

    for x, (variable, info) in zip([1.0, 2.0, 6.0], run_ranks(3, rank), strict=True):
        np.testing.assert_allclose(variable, [1 - 0.1 * 3], rtol=1e-6)
        np.testing.assert_allclose(info["Loss"], 3 if average_info else x, rtol=1e-6)
        squares = 41 / 3 if average_info else [x**2, x**2]
        np.testing.assert_allclose(info["Squares"], squares, rtol=1e-6)


@pytest.mark.parametrize("num_procs", [1, 2])
def test_a_layer_that_the_loss_does_not_use_stays_as_it_is(num_procs):
    def make_with_unused():
        used, unused = keras.Variable([1.0]), keras.Variable([2.0])
        loss = lambda batch: (tf.reduce_mean(used * batch["x"]), {})  # noqa: E731
        return unused, Training(GradientSteps(loss, [used, unused], adam(0.1), 3))

    ranks = [make_with_unused() for _ in range(num_procs)]
    run_ranks(num_procs, lambda: ranks[mpi.proc_id()][1](dict(x=tf.ones(3))))
    for unused, _ in ranks:
        np.testing.assert_array_equal(unused, [2.0])


# -------------------------------------------------------------------------- minibatches


def shuffled(passes, count, size, seed=0):
    """Minibatches of `count * size` rows: `[passes, count, size]`."""
    rng = np.random.default_rng(seed)
    order = [rng.permutation(count * size) for _ in range(passes)]
    return np.array(order, np.int32).reshape(passes, count, size)


def test_minibatch_steps_equal_adam_by_hand():
    minibatches = shuffled(3, 4, 16)
    net, steps = make(3)
    _, after, passes = steps(batch(), minibatches)
    assert passes == 3
    reference, _ = make()
    pieces = [{k: x.numpy()[index] for k, x in batch().items()} for index in np.vstack(minibatches)]
    assert len(pieces) == 12
    for ours, theirs in zip(net.trainable_variables, adam_by_hand(reference, pieces), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)
    error = (net(batch()["x"]) - batch()["y"]).numpy()
    assert after["Loss"] == pytest.approx(np.mean(error**2), rel=1e-5)  # of the whole batch


@pytest.mark.parametrize("num_procs", [1, 2])
def test_passes_stop_by_the_whole_batch(num_procs):
    """MaxError of the whole batch decides; that of a minibatch of four would stop at once."""
    before, _, _ = make(100)[1](batch())
    limit = before["MaxError"] - 0.2
    ranks = [make(50, stop=lambda info: info["MaxError"] < limit) for _ in range(num_procs)]
    minibatches = shuffled(50, 16, 4)
    results = run_ranks(num_procs, lambda: ranks[mpi.proc_id()][1](batch(), minibatches))
    for _, after, passes in results:
        assert after["MaxError"] < limit
        assert 0 < passes < 50
        _, one_less, _ = make(passes - 1)[1](batch(), minibatches)
        assert one_less["MaxError"] >= limit


@pytest.mark.parametrize("minibatches", [False, True])
def test_one_process_and_ranks_compile_once(minibatches):
    ranks, (_, one) = [make(2)[1] for _ in range(2)], make(2)

    def train(training):
        for seed in range(3):
            training(batch(seed=seed), shuffled(2, 4, 16, seed) if minibatches else None)

    run_ranks(2, lambda: train(ranks[mpi.proc_id()]))
    train(one)
    assert [*map(times_compiled, [one, *ranks])] == [1, 1, 1]


# ---------------------------------------------------- norms of gradients, learning rates


@pytest.mark.parametrize("num_procs", [1, 2])
@pytest.mark.parametrize("minibatches", [None, shuffled(6, 1, 64)], ids=["full", "minibatches"])
def test_gradients_are_shortened_to_the_norm(num_procs, minibatches):
    """The first gradients are longer than 0.5 and later ones shorter: Adam sees the difference."""
    ranks = [make(6, learning_rate=0.1, max_grad_norm=0.5) for _ in range(num_procs)]
    run_ranks(num_procs, lambda: ranks[mpi.proc_id()][1](batch(), minibatches))
    clipped = adam_by_hand(make()[0], [batch()] * 6, 0.1, max_grad_norm=0.5)
    for net, _ in ranks:
        for ours, theirs in zip(net.trainable_variables, clipped, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-4)
    plain = adam_by_hand(make()[0], [batch()] * 6, 0.1)
    assert any(np.abs(a - b).max() > 1e-2 for a, b in zip(plain, clipped, strict=True))


def test_decay_sets_the_learning_rate():
    net, training = make(1, learning_rate=0.25)
    [steps] = training.steps
    start = [v.numpy() for v in net.variables]
    for progress in (0.0, 0.75, 1.0):
        steps.decay(progress)
        assert float(steps.optimizer.learning_rate) == 0.25 * (1 - progress)
    training(batch())  # with learning rate 0
    for ours, theirs in zip(net.variables, start, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    steps.decay(0.5)
    training(batch())
    assert any(np.any(a != b) for a, b in zip(net.variables, start, strict=True))
    assert times_compiled(training) == 1


def test_a_loss_that_depends_on_what_another_trains_waits_for_it():
    """What is logged as before the steps is before any of them."""
    x, y = keras.Variable(1.0), keras.Variable(1.0)
    both = [
        GradientSteps(lambda batch: (x * 1, dict(X=x * 1)), [x], adam(0.1), 1),
        GradientSteps(lambda batch: (x * y, dict(Y=x * y)), [y], adam(0.1), 1),
    ]
    before, after, _ = Training(*both)(dict(x=tf.ones(3)))
    assert (before["X"], before["Y"]) == (1, 1)
    assert after["Y"] == pytest.approx(0.9 * 0.9, abs=1e-4)


@pytest.mark.parametrize("num_procs", [1, 2])
def test_info_may_be_of_any_type(num_procs):
    """Whole numbers, too, which have no place in a message of float32."""

    def rank():
        variable = keras.Variable(1.0)

        def loss(batch):
            count = tf.math.count_nonzero(batch["x"] > 0)
            return variable * tf.reduce_mean(batch["x"]), dict(Count=count)

        steps = GradientSteps(loss, [variable], adam(0.1), 1)
        data = dict(x=tf.range(mpi.proc_id() + 2.0))  # one above 0 on rank 0, two on rank 1
        before, after, _ = Training(steps)(data)
        return before["Count"], after["Count"], steps.step(data)["Count"]

    assert run_ranks(num_procs, rank) == [((num_procs + 1) / 2,) * 3] * num_procs


# ------------------------------------------------------------------------- several losses


def pair(stops=(None, None), numbers=(10, 10)):
    """Steps on two networks, whose infos have other names."""
    made = []
    for name, stop, number in zip("XY", stops, numbers, strict=True):
        net, _ = make()

        def loss(batch, net=net, name=name):
            error = net(batch["x"]) - batch["y"] * (2 if name == "Y" else 1)
            loss = tf.reduce_mean(tf.square(error))
            return loss, {f"Loss{name}": loss}

        below = None if stop is None else lambda info, n=name, stop=stop: info[f"Loss{n}"] < stop
        optimizer = adam(1e-2)
        made.append((net, GradientSteps(loss, net.trainable_variables, optimizer, number, below)))
    return zip(*made, strict=True)


@pytest.mark.parametrize("minibatches", [None, shuffled(12, 4, 16)], ids=["full", "minibatches"])
@pytest.mark.parametrize(
    ("stops", "numbers"), [((None, 1.9), (1, 8)), ((0.5, None), (12, 3)), ((1e9, None), (7, 4))]
)
def test_each_loss_takes_the_steps_that_it_takes_alone(stops, numbers, minibatches):
    """To the last bit; each stops where it stops alone, and goes on where the other has stopped."""
    (nets, both), (others, apart) = pair(stops, numbers), pair(stops, numbers)
    before, after, taken = Training(*both)(batch(), minibatches)
    alone = [Training(each)(batch(), minibatches) for each in apart]
    assert before == alone[0][0] | alone[1][0]
    assert after == alone[0][1] | alone[1][1]
    assert taken == alone[0][2]
    assert (taken < numbers[0]) == (stops[0] is not None)
    for net, other in zip(nets, others, strict=True):
        for one, two in zip(net.variables, other.variables, strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("minibatches", [None, shuffled(10, 4, 8)], ids=["full", "minibatches"])
def test_several_losses_on_ranks(minibatches):
    """Whose loops run at the same time, and whose messages must not be mixed up."""
    parts = [{k: x[r::2] for k, x in batch().items()} for r in range(2)]
    ranks = [pair() for _ in range(2)]
    nets, steps = zip(*ranks, strict=True)
    trainings = [Training(*each) for each in steps]
    results = run_ranks(2, lambda: trainings[mpi.proc_id()](parts[mpi.proc_id()], minibatches))
    others, apart = pair()
    if minibatches is not None:  # row k of rank r is row 2 k + r
        minibatches = np.concatenate([2 * minibatches, 2 * minibatches + 1], axis=-1)
    before, after, taken = Training(*apart)(batch(), minibatches)
    for found in results:
        assert found[0] == pytest.approx(before, rel=1e-5)
        assert found[1] == pytest.approx(after, rel=1e-3)
        assert found[2] == taken == 10
    for of_rank in nets:
        for net, other in zip(of_rank, others, strict=True):
            for one, two in zip(net.variables, other.variables, strict=True):
                np.testing.assert_allclose(one, two, atol=1e-4)
