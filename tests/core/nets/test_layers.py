"""Network bodies: numbers of parameters by hand, and pixels."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from spinup_tf2 import vpg
from spinup_tf2.core.nets.checks import check_keras
from spinup_tf2.core.nets.layers import cnn, count_variables, tanh
from spinup_tf2.errors import UserError
from spinup_tf2.training.saved_policy import load_policy


def images(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


# -------------------------------------------------------------------------------------- tanh


@pytest.mark.parametrize("jit_compile", [False, True])
def test_gradient_of_tanh_where_its_value_rounds_to_one(jit_compile):
    """Against 1 / cosh(x)^2 in float64; TensorFlow's own gradient is 0 where tanh rounds to 1.

    That is from 8 or 9 on, depending on the build.
    """
    x = tf.constant([0, 1e-4, -0.5, 3, -7.5, 9.5, -9.5, 20, -43], tf.float32)

    @tf.function(jit_compile=jit_compile)
    def value_and_gradients(x):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            ours, theirs = tanh(x), tf.tanh(x)
        return ours, theirs, tape.gradient(ours, x), tape.gradient(theirs, x)

    ours, theirs, gradient, their_gradient = value_and_gradients(x)
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_allclose(gradient, 1 / np.cosh(x.numpy().astype(np.float64)) ** 2, rtol=1e-6)
    np.testing.assert_array_equal(their_gradient[5:], 0)


def test_gradient_of_tanh_far_out_is_finite():
    x = tf.constant([-np.inf, -1e30, -50, 50, 1e30, np.inf], tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tanh(x)
    np.testing.assert_array_equal(tape.gradient(y, x), np.zeros(6))


# ------------------------------------------------------------------------------- convolutions


def test_parameters_and_sizes_of_the_nature_network():
    """84 x 84 becomes (84 - 8) / 4 + 1 = 20, (20 - 4) / 2 + 1 = 9, (9 - 3) / 1 + 1 = 7 square.

    Weights and biases: 32 filters of 8 x 8 x 4, 64 of 4 x 4 x 32, 64 of 3 x 3 x 64; then
    7 * 7 * 64 = 3136 inputs for each of 512 units.
    """
    body = cnn((84, 84, 4), "nature")
    by_hand = 8_224 + 32_832 + 36_928 + 1_606_144
    assert by_hand == 1_684_128
    assert count_variables(body) == by_hand
    convolutions = [layer for layer in body.layers if isinstance(layer, keras.layers.Conv2D)]
    assert [layer.output.shape[1:] for layer in convolutions] == [
        (20, 20, 32),
        (9, 9, 64),
        (7, 7, 64),
    ]
    assert body(images(2, 84, 84, 4)).shape == (2, 512)


def test_parameters_and_sizes_of_the_small_network():
    """Each layer halves 84 x 84 and rounds up: 42, 21, 11, 6; then 6 * 6 * 32 = 1152 inputs."""
    body = cnn((84, 84, 4), "small", hidden_sizes=(10,))
    assert count_variables(body) == (3 * 3 * 4 + 1) * 32 + 3 * (3 * 3 * 32 + 1) * 32 + 1153 * 10
    convolutions = [layer for layer in body.layers if isinstance(layer, keras.layers.Conv2D)]
    assert [layer.output.shape[1] for layer in convolutions] == [42, 21, 11, 6]


def test_parameters_of_the_impala_network():
    """64 x 64 x 3, halved three times; with outputs for 15 actions and a value, the 626,256 of
    procgen's baselines.
    """
    body = cnn((64, 64, 3), "impala", hidden_sizes=(256,))
    convolutions = [(3, 16), *[(16, 16)] * 4, (16, 32), *[(32, 32)] * 4, *[(32, 32)] * 5]
    by_hand = sum((9 * n + 1) * m for n, m in convolutions) + (8 * 8 * 32 + 1) * 256
    assert by_hand + 16 * 257 == 626_256
    assert count_variables(body) == by_hand
    assert body(images(2, 64, 64, 3)).shape == (2, 256)


def test_the_impala_network_step_by_step():
    """A slow one in NumPy, for a small image."""
    body = cnn((5, 6, 2), "impala", hidden_sizes=())
    kernels = [variable.numpy() for variable in body.variables]
    for i in range(1, len(kernels), 2):  # biases that are not 0
        body.variables[i].assign(kernels[i] + 0.1)
        kernels[i] += 0.1
    layers = iter(zip(kernels[::2], kernels[1::2], strict=True))

    def convolved(x, kernel, bias):
        padded = np.pad(x, ((1, 1), (1, 1), (0, 0)))
        result = np.zeros((*x.shape[:2], len(bias)))
        for i, j in np.ndindex(x.shape[:2]):
            window = padded[i : i + 3, j : j + 3]
            result[i, j] = np.tensordot(window, kernel, 3) + bias
        return result

    def pooled(x):
        """As TensorFlow pads with stride 2: less before than after, where the sum is odd."""
        height, width = x.shape[:2]
        before = [max(3 - (n % 2 or 2), 0) // 2 for n in (height, width)]
        result = np.zeros((-(-height // 2), -(-width // 2), x.shape[2]))
        for i, j in np.ndindex(result.shape[:2]):
            rows, columns = (max(2 * k - b, 0) for k, b in zip((i, j), before, strict=True))
            ends = (2 * k - b + 3 for k, b in zip((i, j), before, strict=True))
            result[i, j] = x[rows : next(ends), columns : next(ends)].max(axis=(0, 1))
        return result

    image = images(1, 5, 6, 2)
    x = image[0] / 255
    for _ in range(3):
        x = pooled(convolved(x, *next(layers)))
        for _ in range(2):
            y = convolved(np.maximum(x, 0), *next(layers))
            x = x + convolved(np.maximum(y, 0), *next(layers))
    np.testing.assert_allclose(body(image)[0], np.maximum(x, 0).ravel(), rtol=1e-4, atol=1e-5)


def test_convolutions_of_ones_own():
    """(40, 30) with stride 3 and zeros around: ceil(40 / 3) x ceil(30 / 3), 5 filters."""
    body = cnn((40, 30, 3), [[5, 4, 3]], hidden_sizes=())
    assert body(images(1, 40, 30, 3)).shape == (1, 14 * 10 * 5)


def test_bytes_are_scaled_to_one():
    """A single 1 x 1 filter with weights 1 and bias 0 adds up the channels of every pixel."""
    body = cnn((2, 3, 2), [(1, 1, 1)], hidden_sizes=(), activation="linear")
    body.layers[1].kernel.assign(tf.ones((1, 1, 2, 1)))
    image = images(1, 2, 3, 2)
    np.testing.assert_allclose(body(image), image.sum(-1).reshape(1, 6) / 255, rtol=1e-6)
    assert body(np.full((1, 2, 3, 2), 255, np.uint8)).numpy().max() == pytest.approx(2)


def test_small_images_of_booleans():
    """10 x 10 becomes 8 x 8 square; the convolution of Booleans, written out in NumPy."""
    body = cnn((10, 10, 7), None, hidden_sizes=(), of_bytes=False)
    assert count_variables(body) == (3 * 3 * 7 + 1) * 16
    seen = images(1, 10, 10, 7) % 2
    kernel, _ = body.get_weights()
    parts = np.lib.stride_tricks.sliding_window_view(seen[0], (3, 3), (0, 1))  # [8, 8, 7, 3, 3]
    expected = np.maximum(np.einsum("yxcij,ijcf->yxf", parts, kernel), 0)
    np.testing.assert_allclose(body(seen)[0], expected.ravel(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("size", "filters"), [(35, 16), (36, 32)])
def test_nature_from_36_pixels_on(size, filters):
    first = next(x for x in cnn((90, size, 3)).layers if isinstance(x, keras.layers.Conv2D))
    assert first.filters == filters


def test_the_background_is_subtracted():
    """W (x - m) + b = W x + (b - m sum W): other biases in the first layer do the same."""
    plain, centered = cnn((48, 40, 4), hidden_sizes=(7,)), cnn((48, 40, 4), hidden_sizes=(7,))
    less = cnn((48, 40, 4), hidden_sizes=(7,), background=0.34)
    less.set_weights(plain.get_weights())
    centered.set_weights(plain.get_weights())
    kernel, bias = centered.layers[1].get_weights()
    centered.layers[1].bias.assign(bias - 0.34 * kernel.sum((0, 1, 2)))
    image = images(3, 48, 40, 4)
    np.testing.assert_allclose(less(image), centered(image), rtol=1e-4, atol=1e-5)
    assert np.abs(less(image) - plain(image)).max() > 1e-2


@pytest.mark.parametrize("conv", ["nature", "small"])
def test_channels_may_come_first(conv):
    last, first = cnn((48, 40, 4), conv, (16,)), cnn((4, 48, 40), conv, (16,))
    first.set_weights(last.get_weights())
    image = images(3, 48, 40, 4)
    expected = last(image)
    np.testing.assert_allclose(first(image.transpose(0, 3, 1, 2)), expected, atol=1e-6)
    assert np.ptp(expected) > 0


@pytest.fixture
def keras_settings():
    yield keras.config
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")
    keras.config.set_image_data_format("channels_last")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("floatx", "float64", "floatx is 'float64'"),
        ("dtype_policy", "mixed_float16", "dtype policy 'mixed_float16'"),
    ],
)
def test_types_of_numbers_that_keras_is_set_to_are_refused(keras_settings, name, value, words):
    getattr(keras_settings, f"set_{name}")(value)
    with pytest.raises(UserError, match=words):
        vpg("CartPole-v1")
    with pytest.raises(UserError, match=words):  # and no advice to trust the file
        load_policy("nowhere")


def test_graphs_and_strategies_of_tensorflow_are_refused():
    graph, strategy = tf.Graph().as_default(), tf.distribute.OneDeviceStrategy("cpu:0").scope()
    for context, words in ((graph, "Eager execution is disabled"), (strategy, "Strategy")):
        with context, pytest.raises(UserError, match=words):
            check_keras()


@pytest.mark.parametrize("conv", ["nature", "impala"])
def test_images_are_the_same_with_any_data_format_of_keras(keras_settings, conv):
    keras_settings.set_image_data_format("channels_first")
    assert cnn((84, 80, 4), conv)(np.zeros((2, 84, 80, 4), np.uint8)).shape == (2, 512)
