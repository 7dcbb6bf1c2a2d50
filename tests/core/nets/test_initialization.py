"""The initial weights of networks."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from spinup_tf2 import a2c, ddpg, ppo, sac, td3, trpo, vpg
from spinup_tf2.core.nets.actor_critic import ActorCritic, CNNActorCritic, MLPActorCritic
from spinup_tf2.core.nets.layers import first_weights
from spinup_tf2.core.nets.q_actor_critic import CNNQActorCritic, MLPQActorCritic
from spinup_tf2.errors import UserError
from spinup_tf2.training.run import Run

IMAGES = spaces.Box(0, 255, (40, 40, 2), np.uint8)
VECTORS = spaces.Box(-1, 1, (30,))
ACTIONS = spaces.Box(-1, 1, (2,))
ON_POLICY, OFF_POLICY = (vpg, trpo, ppo, a2c), (ddpg, td3, sac)
Q = dict(stochastic=True, num_q=2)


def networks(kind):
    """An actor-critic, and of each of its networks the number of layers with kernels."""
    if kind == "vectors":
        return MLPActorCritic(VECTORS, ACTIONS, (40, 20)), [3, 3]
    if kind == "images":
        return CNNActorCritic(IMAGES, spaces.Discrete(3), "nature", (20,), shared=False), [5, 5]
    if kind == "shared":
        return CNNActorCritic(IMAGES, ACTIONS, "nature", (20,)), [5, 5]
    if kind == "q of vectors":
        return MLPQActorCritic(VECTORS, ACTIONS, (40, 20), **Q), [3, 3, 3]
    ac = CNNQActorCritic(IMAGES, ACTIONS, "nature", (20,), **Q)
    obs = np.zeros((1, *IMAGES.shape), np.uint8)
    ac.pi(obs), ac.q_values(obs, np.zeros((1, 2), np.float32))
    return ac, [5, 5, 5]


every_kind = pytest.mark.parametrize(
    "kind", ["vectors", "images", "shared", "q of vectors", "q of images"]
)


def weights(network):
    """[(kernel as a matrix, bias)] of a network's layers, from the input to the output."""
    names = [(v.name, v.numpy()) for v in network.trainable_variables if v.name != "log_std"]
    assert [name for name, _ in names] == ["kernel", "bias"] * (len(names) // 2)
    arrays = [array for _, array in names]
    return [
        (kernel.reshape(-1, kernel.shape[-1]), bias)
        for kernel, bias in zip(arrays[::2], arrays[1::2], strict=True)
    ]


def check_uniform(array, limit):
    """Within the limit; of many numbers, the largest come close to it and the mean to 0."""
    assert np.abs(array).max() <= limit * (1 + 1e-6)
    if array.size >= 200:
        assert np.abs(array).max() > 0.97 * limit
        np.testing.assert_allclose(array.std(), limit / 3**0.5, rtol=0.12)
        assert abs(array.mean()) < 4 * limit / (3 * array.size) ** 0.5


@every_kind
@pytest.mark.parametrize("init", ["glorot", "torch", "orthogonal"])
def test_each_has_the_weights_of_its_name(kind, init):
    ac, layers = networks(kind)
    for variable in ac.trainable_variables:
        variable.assign(tf.fill(variable.shape, 7.0))
    first_weights(ac, type(ac), init, "torch")
    for network, expected in zip(ac.networks, layers, strict=True):
        found = weights(network)
        assert len(found) == expected
        for number, (kernel, bias) in enumerate(found):
            window = 1  # of Conv2D, whose kernels count for fan_out, too
            if kind.endswith(("images", "shared")) and number < 3:
                window = (8 * 8, 4 * 4, 3 * 3)[number]
            fan_in, fan_out = kernel.shape[0], window * kernel.shape[1]
            if init == "glorot":
                check_uniform(kernel, (6 / (fan_in + fan_out)) ** 0.5)
            elif init == "torch":
                check_uniform(kernel, fan_in**-0.5)
                check_uniform(bias, fan_in**-0.5)
                assert np.unique(bias).size == bias.size
            else:
                last = number == expected - 1
                gain = (0.01 if network is ac.pi else 1) if last else 2**0.5
                short = kernel if kernel.shape[0] <= kernel.shape[1] else kernel.T
                identity = np.eye(len(short))
                np.testing.assert_allclose(short @ short.T, gain**2 * identity, atol=1e-5)
            if init != "torch":
                np.testing.assert_array_equal(bias, 0)
    if hasattr(ac.pi, "log_std"):
        np.testing.assert_array_equal(ac.pi.log_std, 7)


@pytest.mark.parametrize("init", ["glorot", "torch", "orthogonal"])
def test_layers_differ_from_each_other_and_follow_the_seed(init):
    def start(seed):
        keras.utils.set_random_seed(seed)
        ac = MLPActorCritic(VECTORS, ACTIONS, (16, 16, 16))
        first_weights(ac, MLPActorCritic, init, "torch")
        return [kernel for kernel, _ in weights(ac.pi)]

    first, again, other = start(1), start(1), start(2)
    np.testing.assert_array_equal(first[1], again[1])
    assert not np.allclose(first[1], other[1])
    assert not np.allclose(first[1], first[2])


def test_a_network_without_layers_that_are_found_is_refused():
    class Hidden(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, x):
            return self.dense(x)[..., 0]

    ac = MLPActorCritic(VECTORS, ACTIONS)
    ac = ActorCritic(ac.pi, keras.Sequential([keras.Input((30,)), Hidden()]), ACTIONS)
    with pytest.raises(UserError, match="has no Dense and no Conv2D layer"):
        first_weights(ac, lambda: ac, "torch", "orthogonal")
    before = ac.pi.net.layers[0].kernel.numpy()
    first_weights(ac, lambda: ac, None, "torch")  # its own weights are welcome
    np.testing.assert_array_equal(ac.pi.net.layers[0].kernel, before)


@pytest.fixture
def begin(monkeypatch, tmp_path):
    """A function that returns the actor-critic of a run as it begins: nothing is trained."""
    monkeypatch.setattr(Run, "epochs", lambda self: iter(()))
    runs = itertools.count()

    def begin(algorithm, **kwargs):
        logger_kwargs = dict(output_dir=str(tmp_path / str(next(runs))), quiet=True)
        return algorithm("Pendulum-v1", logger_kwargs=logger_kwargs, **kwargs)

    return begin


def filled(ac):
    for variable in ac.trainable_variables:
        variable.assign(tf.ones_like(variable))
    return ac


def ones(*spaces):
    return filled(MLPActorCritic(*spaces, (8,)))


def q_ones(*spaces, stochastic, num_q):
    return filled(MLPQActorCritic(*spaces, (8,), stochastic=stochastic, num_q=num_q))


@pytest.mark.parametrize("algorithm", [*ON_POLICY, *OFF_POLICY], ids=lambda f: f.__name__)
def test_every_algorithm_begins_as_it_is_asked_to(algorithm, begin):
    """Seen at the biases, which only PyTorch draws, and the length of the policy's last kernel."""

    def looks(**kwargs):
        ac = begin(algorithm, **kwargs)
        (_, first_bias), *_, (last_kernel, _) = weights(ac.pi)
        lengths = np.linalg.norm(last_kernel, axis=0)
        small = bool(np.allclose(lengths, 0.01, rtol=1e-4))
        return "torch" if first_bias.any() else "orthogonal" if small else "glorot"

    assert looks(init="glorot") == "glorot"  # the default of none
    assert looks() == ("orthogonal" if algorithm is a2c else "torch")


@pytest.mark.parametrize("algorithm", [*ON_POLICY, *OFF_POLICY], ids=lambda f: f.__name__)
def test_networks_of_ones_own_keep_their_weights_unless_others_are_asked_for(algorithm, begin):
    own = dict(actor_critic=q_ones if algorithm in OFF_POLICY else ones)
    for variable in begin(algorithm, **own).trainable_variables:
        np.testing.assert_array_equal(variable, 1)
    for network in begin(algorithm, **own, init="orthogonal").networks:
        for kernel, bias in weights(network):
            assert not (kernel == 1).any()
            np.testing.assert_array_equal(bias, 0)
