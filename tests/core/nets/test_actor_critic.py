"""Policies against SciPy, and samples against the distributions they come from."""

import keras
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
from gymnasium import spaces

from spinup_tf2.arguments.rules import ACTIVATIONS
from spinup_tf2.core.nets import distributions
from spinup_tf2.core.nets.actor_critic import CNNActorCritic, MLPActorCritic
from spinup_tf2.core.nets.distributions import sample
from spinup_tf2.core.nets.layers import activation_name, count_variables, tanh
from spinup_tf2.envs.spaces import action_spec
from spinup_tf2.errors import UserError

OBS = spaces.Box(-1, 1, (4,))
IMAGES = spaces.Box(0, 255, (40, 36, 2), np.uint8)
ACTION_SPACES = [
    spaces.Box(-1, 1, (3,)),
    spaces.Box(-1, 1, (2, 2)),
    spaces.Discrete(5, start=1),
    spaces.MultiDiscrete([3, 2, 4]),
    spaces.MultiBinary(3),
]


def observations(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 4)).astype(np.float32)


def test_parameter_counts_of_spinning_up():
    """CartPole: pi 4610, v 4545. Hopper: pi 5126, of which 3 are log_std, v 4993."""
    ac = MLPActorCritic(OBS, spaces.Discrete(2))
    assert (count_variables(ac.pi), count_variables(ac.v)) == (4610, 4545)
    ac = MLPActorCritic(spaces.Box(-1, 1, (11,)), spaces.Box(-1, 1, (3,)))
    assert (count_variables(ac.pi), count_variables(ac.v)) == (5126, 4993)


def test_log_std_starts_at_minus_a_half_and_is_trained():
    ac = MLPActorCritic(OBS, spaces.Box(-1, 1, (3,)))
    np.testing.assert_array_equal(ac.pi.log_std, [-0.5] * 3)
    assert any(v is ac.pi.log_std for v in ac.pi.trainable_variables)


def test_several_choices_are_independent_and_padding_counts_for_nothing():
    ac = MLPActorCritic(OBS, spaces.MultiDiscrete([3, 2, 4]))
    obs = observations(5)
    act = np.array([[0, 1, 3]] * 5)
    logits = np.split(ac.pi.net(obs).numpy(), [3, 5], axis=-1)
    expected = sum(
        scipy.special.log_softmax(part, axis=-1)[:, a]
        for part, a in zip(logits, (0, 1, 3), strict=True)
    )
    np.testing.assert_allclose(ac.pi(obs).log_prob(act), expected, rtol=1e-5)
    with tf.GradientTape() as tape:
        entropy = tf.reduce_sum(ac.pi(obs).entropy())
    gradient = tape.gradient(entropy, ac.pi.trainable_variables)
    assert np.isfinite(entropy)
    assert all(np.isfinite(g).all() for g in gradient)


@pytest.mark.parametrize("space", ACTION_SPACES, ids=str)
def test_samples_have_the_frequencies_that_log_prob_claims(space):
    ac = MLPActorCritic(OBS, space)
    spec = action_spec(space)
    n = 20000
    obs = np.repeat(observations(1), n, axis=0)
    distribution = ac.pi(obs)
    act = sample(distribution, spec.draw_noise(np.random.default_rng(3), n)).numpy()
    assert act.shape == (n, *spec.shape)
    if spec.num_choices is None:
        np.testing.assert_allclose(act.mean(0), distribution.mean()[0], atol=0.03)
        np.testing.assert_allclose(act.std(0), np.exp(-0.5), rtol=0.03)
    else:
        unique, counts = np.unique(act, axis=0, return_counts=True)
        probability = np.exp(ac.pi(obs[: len(unique)]).log_prob(unique))
        assert probability.sum() == pytest.approx(1, abs=1e-4)
        np.testing.assert_allclose(counts / n, probability, atol=0.015)


def images(n, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, *IMAGES.shape), np.uint8)


@pytest.mark.parametrize(
    ("space", "of_images"), [*((each, False) for each in ACTION_SPACES), (spaces.Discrete(3), True)]
)
def test_step_and_act_take_one_observation_or_a_batch(space, of_images):
    ac = CNNActorCritic(IMAGES, space, "small", (8,)) if of_images else MLPActorCritic(OBS, space)
    several = images(3) if of_images else observations(3)
    act, val, logp = ac.step(several)
    assert (act.shape, val.shape, logp.shape) == ((3, *space.shape), (3,), (3,))
    act, val, logp = ac.step(several[0])
    assert (act.shape, val.shape, logp.shape) == (space.shape, (), ())
    flat = ac.action_spec.from_env(act)
    np.testing.assert_allclose(ac.pi(several[:1]).log_prob(flat[None])[0], logp, rtol=1e-5)
    act = ac.act(several[0])
    assert act.shape == space.shape
    assert isinstance(space, spaces.Box) or space.contains(act)  # a Gaussian has no bounds
    mode = ac.action_spec.to_env(distributions.mode(ac.pi(several)).numpy())
    np.testing.assert_allclose(ac.act(several, deterministic=True), mode, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        *(("relu", keras.layers.ReLU), ("elu", keras.layers.ELU)),
        *(("tanh", type("Tanh", (), {})), ("linear", type("Identity", (), {}))),  # as PyTorch's
    ],
)
def test_activations_by_class(name, layer):
    ac = MLPActorCritic(OBS, spaces.Discrete(2), activation=layer)
    assert ac.pi.net.layers[0].activation is keras.activations.get(name)
    assert activation_name(layer) == name  # with which the networks are built again
    with pytest.raises(UserError, match=r"activation is <class .*Dense'>; it must be one of"):
        MLPActorCritic(OBS, spaces.Discrete(2), activation=keras.layers.Dense)


def test_names_of_activations():
    names = [name for name in ACTIVATIONS if name != "swish"]  # another name of silu
    assert [activation_name(keras.activations.get(name)) for name in names] == names
    assert activation_name("swish") == "silu"
    assert activation_name(None) == "linear"
    assert activation_name(tanh) == "tanh"
    assert activation_name(lambda x: x) is None
    assert activation_name(keras.layers.ReLU()) is None


@pytest.mark.parametrize("layer", [keras.layers.LeakyReLU, type("LeakyReLU", (), {})])
def test_classes_with_another_slope_than_the_function_are_refused(layer):
    """0.3 in Keras, 0.01 in PyTorch; what the message names instead has the slope it says."""
    assert keras.layers.LeakyReLU().negative_slope == pytest.approx(0.3)
    with pytest.raises(UserError, match=r"LeakyReLU'>; .*leaky_relu, which has 0\.2, or lambda x:"):
        MLPActorCritic(OBS, spaces.Discrete(2), activation=layer)
    for activation, slope in [
        ("leaky_relu", 0.2),
        (lambda x: keras.activations.leaky_relu(x, 0.01), 0.01),
        (keras.layers.LeakyReLU(), 0.3),
    ]:
        layers = MLPActorCritic(OBS, spaces.Discrete(2), activation=activation).pi.net.layers
        np.testing.assert_allclose(layers[0].activation(tf.constant([-1.0])), [-slope])


# ------------------------------------------------------------------------------------- images


@pytest.mark.parametrize("shared", [True, False])
def test_parameters_of_image_networks(shared):
    """A body of (2 * 9 + 1) * 4 + (20 * 18 * 4 + 1) * 8, and 9 for each output of the heads."""
    body = 76 + 11_528
    kwargs = dict(conv=[(4, 3, 2)], hidden_sizes=(8,), shared=shared)
    ac = CNNActorCritic(IMAGES, spaces.Discrete(3), **kwargs)
    assert ac.shared == shared
    assert count_variables(ac.pi) == body + 27
    assert count_variables(ac.v) == body + 9
    total = sum(int(tf.size(v)) for v in ac.trainable_variables)
    assert total == (body if shared else 2 * body) + 36
    assert len({id(v) for v in ac.trainable_variables}) == len(ac.trainable_variables)


def test_perceptrons_share_their_hidden_layers_if_they_are_asked_to():
    """Then each output has its own last layer of 8 + 1 parameters."""
    space = ACTION_SPACES[0]
    separate, shared = (MLPActorCritic(OBS, space, (8,), shared=x) for x in (False, True))
    assert not MLPActorCritic(OBS, space, (8,)).shared
    assert count_variables(shared) == count_variables(separate.pi) + 9


@pytest.mark.parametrize("space", [ACTION_SPACES[0], ACTION_SPACES[3]], ids=str)
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("of_images", [True, False])
def test_pi_and_v_are_pi_and_v(space, shared, of_images):
    if of_images:
        ac, obs = CNNActorCritic(IMAGES, space, "small", (16,), shared=shared), images(3)
    else:
        ac, obs = MLPActorCritic(OBS, space, (8,), shared=shared), observations(3)
    assert ac.shared == shared
    distribution, val = ac.pi_and_v(obs)
    act = sample(distribution, action_spec(space).draw_noise(np.random.default_rng(0), 3))
    expected = ac.pi(obs).log_prob(act)
    np.testing.assert_allclose(distribution.log_prob(act), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(val, ac.v(obs), rtol=1e-5, atol=1e-6)
    assert val.shape == (3,)
