"""Networks with a memory: what they compute, fast and slow, and what they refuse."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from spinup_tf2.core.nets.actor_critic import CNNActorCritic, MLPActorCritic
from spinup_tf2.core.nets.distributions import sample
from spinup_tf2.core.nets.recurrent import Sequences, Trunk
from spinup_tf2.core.nets.recurrent_acting import RecurrentStep
from spinup_tf2.envs.spaces import action_spec
from spinup_tf2.errors import UserError

OBS = spaces.Box(-1, 1, (4,))
IMAGES = spaces.Box(0, 255, (36, 36, 2), np.uint8)
DISCRETE = spaces.Discrete(3)
KERAS_CELLS = dict(lstm=keras.layers.LSTMCell, gru=keras.layers.GRUCell)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def perturb(model, seed=0):
    """Random weights and biases, larger than initializers make them."""
    rng = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(size=variable.shape, scale=0.5))


def sequences(size, segments=5, steps=7):
    first = np.random.default_rng(1).random((segments, steps)) < 0.3
    assert first[:, 1:].any()
    assert not first[:, 0].all()
    return Sequences(normal(segments, steps, 4), first, normal(segments, size, seed=2))


@pytest.mark.parametrize("memory", KERAS_CELLS)
@pytest.mark.parametrize("has_body", [False, True])
def test_segments_equal_a_slow_loop_over_the_cell_of_keras(memory, has_body):
    """Segment by segment, step by step; what is remembered is zeros where an episode begins."""
    body = keras.Sequential([keras.Input((4,)), keras.layers.Dense(6, "tanh")])
    trunk = Trunk(body, 6, memory, 3) if has_body else Trunk(None, 4, memory, 3)
    perturb(trunk)
    cell = KERAS_CELLS[memory](3)
    cell.build((None, 6 if has_body else 4))
    cell.set_weights([each.numpy() for each in trunk.cell.trainable_variables])

    given = sequences(trunk.size)
    outputs, next_states = trunk.unroll(Sequences(*map(tf.constant, given)))
    for segment, (obs, first, state) in enumerate(zip(*given, strict=True)):
        states = np.split(state[None], len(state) // 3, axis=1)
        for t, x in enumerate(obs):
            if first[t]:
                states = [np.zeros_like(each) for each in states]
            x = body(x[None]) if has_body else x[None]
            output, states = cell(x, states)
            np.testing.assert_allclose(outputs[segment, t], output[0], rtol=1e-4, atol=1e-5)
        expected = np.concatenate(states, axis=1)[0]
        np.testing.assert_allclose(next_states[segment], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("memory", KERAS_CELLS)
def test_first_weights_are_those_of_keras(memory):
    cell, expected = Trunk(None, 4, memory, 3).cell, KERAS_CELLS[memory](3)
    expected.build((None, 4))
    kernel, recurrent_kernel, bias = expected.get_weights()
    assert (cell.kernel.shape, cell.recurrent_kernel.shape) == (
        kernel.shape,
        recurrent_kernel.shape,
    )
    np.testing.assert_array_equal(cell.bias, bias)
    gram = cell.recurrent_kernel.numpy() @ cell.recurrent_kernel.numpy().T
    np.testing.assert_allclose(gram, np.eye(3), atol=1e-5)


@pytest.mark.parametrize("memory", KERAS_CELLS)
@pytest.mark.parametrize("hidden_sizes", [(), (8, 6)])
@pytest.mark.parametrize("space", [DISCRETE, spaces.Box(-1, 1, (2,))], ids=str)
def test_acting_in_numpy_equals_the_networks(memory, hidden_sizes, space):
    kwargs = dict(hidden_sizes=hidden_sizes, memory=memory, memory_size=5)
    ac = MLPActorCritic(OBS, space, **kwargs)
    step = RecurrentStep(ac.memory)
    assert step.mirrors is not None
    for seed, model in enumerate((ac.pi, ac.v)):
        perturb(model, seed)
    step.refresh()
    obs, state = normal(9, 4), normal(9, ac.memory.size, seed=3)
    noise = action_spec(space).draw_noise(np.random.default_rng(1), 9)
    pi, val, next_state = ac.memory.step(tf.constant(obs), tf.constant(state))
    expected = sample(pi, noise), val, next_state
    for x, y in zip(step(obs, noise, state), expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(step.value(obs, state), val, rtol=1e-4, atol=1e-5)

    # And as segments of one step.
    steps = Sequences(tf.constant(obs[:, None]), tf.zeros((9, 1), bool), tf.constant(state))
    np.testing.assert_allclose(step.values(steps)[:, 0], val, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        ac.pi(steps).log_prob(expected[0][:, None])[:, 0], pi.log_prob(expected[0]), rtol=1e-4
    )


@pytest.mark.parametrize("shared", [True, False])
def test_images(shared):
    """With shared layers there is one memory, and policy and values come from one pass."""
    kwargs = dict(conv=((4, 8, 8),), hidden_sizes=(7,), memory="lstm", memory_size=5)
    ac = CNNActorCritic(IMAGES, DISCRETE, **kwargs, shared=shared)
    assert (ac.memory.size, ac.shared) == ((10 if shared else 20), shared)
    images = np.random.default_rng(0).integers(256, size=(2, 3, 36, 36, 2), dtype=np.uint8)
    first = tf.constant([[False, True, False], [True, False, False]])
    given = Sequences(tf.constant(images), first, tf.constant(normal(2, ac.memory.size)))
    pi, val = ac.pi_and_v(given)
    np.testing.assert_allclose(val, ac.v(given), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(pi.logits, ac.pi(given).logits, rtol=1e-5, atol=1e-6)
    step = RecurrentStep(ac.memory)
    state = given.state.numpy()
    for t in range(3):
        state = np.where(first[:, t, None], np.float32(0), state)
        _, values, state = step(images[:, t], np.zeros((2, 3), np.float32), state)
        np.testing.assert_allclose(values, val[:, t], rtol=1e-4, atol=1e-5)


def test_act_and_step_take_and_return_the_state():
    ac = MLPActorCritic(OBS, DISCRETE, memory="gru", memory_size=5)
    perturb(ac.pi)
    obs, state, remembered = normal(6, 4), None, np.zeros((1, 10), np.float32)
    for x in obs:
        act, next_state = ac.act(x, deterministic=True, state=state)
        pi, val, expected = ac.memory.step(x[None], remembered)
        assert act == pi.mode()[0]
        np.testing.assert_allclose(next_state, expected[0], rtol=1e-5)
        _, v, logp, also = ac.step(x, state)
        np.testing.assert_allclose((v, *also), (val[0], *expected[0]), rtol=1e-5)
        assert logp.shape == ()
        assert logp < 0
        state, remembered = next_state, expected
    acts, states = ac.act(obs)
    assert (acts.shape, states.shape) == ((6,), (6, 10))
    assert ac.step(obs, states)[3].shape == (6, 10)
    with pytest.raises(ValueError, match="cannot reshape"):
        ac.act(obs[0], state=np.zeros(4))


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("memory", "rnn", "memory is 'rnn'; it must be 'lstm' or 'gru', or None"),
        ("memory_size", 0, "memory_size is 0; it must be a whole number of at least 1"),
        ("seq_len", 2.5, "seq_len is 2.5; it must be a whole number of at least 1"),
    ],
)
def test_wrong_arguments(name, value, expected):
    with pytest.raises(UserError, match=expected):
        MLPActorCritic(OBS, DISCRETE, **(dict(memory="lstm") | {name: value}))
