"""The fast ways of acting equal the Keras models."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from gymnasium import spaces

from spinup_tf2.core.nets.acting import Actor, Critic, numpy_steps
from spinup_tf2.core.nets.actor_critic import ActorCritic, CNNActorCritic, MLPActorCritic
from spinup_tf2.core.nets.distributions import mode, sample
from spinup_tf2.core.nets.heads import CategoricalPolicy, GaussianPolicy, ValueFunction
from spinup_tf2.core.nets.layers import mlp
from spinup_tf2.core.nets.numpy_policy import ACTIVATIONS
from spinup_tf2.core.nets.q_actor_critic import MLPQActorCritic, QActorCritic
from spinup_tf2.errors import UserError

OBS = spaces.Box(-1, 1, (4,))
IMAGES = spaces.Box(0, 255, (40, 36, 2), np.uint8)
BOX, FIVE = spaces.Box(-1, 1, (3,)), spaces.Discrete(5)
ACTION_SPACES = [BOX, FIVE, spaces.MultiDiscrete([3, 2, 4]), spaces.MultiBinary(3)]
CLOSE = dict(rtol=1e-5, atol=1e-5)


def batch(n=50, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 4)).astype(np.float32)


def perturb(model, seed):
    """Random weights and biases, larger than initialisers make them."""
    rng = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(size=variable.shape, scale=0.7))


def noise_for(ac, n=50):
    return ac.action_spec.draw_noise(np.random.default_rng(1), n)


@pytest.mark.parametrize("space", ACTION_SPACES, ids=str)
@pytest.mark.parametrize("hidden_sizes", [(), (8,), (32, 16)])
def test_numpy_equals_keras(space, hidden_sizes):
    ac = MLPActorCritic(OBS, space, hidden_sizes)
    act, value, noise = Actor(ac), Critic(ac.v), noise_for(ac)
    assert act.mirror is not None
    for seed in range(2):
        perturb(ac.pi, seed)
        perturb(ac.v, seed)
        act.refresh()
        value.refresh()
        found, extras = act(batch(), noise)
        assert extras == {}  # separate networks: values come later, all at once
        np.testing.assert_allclose(found, sample(ac.pi(batch()), noise), **CLOSE)
        np.testing.assert_allclose(value(batch()), ac.v(batch()), **CLOSE)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_in_numpy(activation):
    ac = MLPActorCritic(OBS, BOX, (32, 16), activation)
    perturb(ac.v, 0)
    value = Critic(ac.v)
    assert value.mirror is not None
    np.testing.assert_allclose(value(batch()), ac.v(batch()), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("space", "stochastic"),
    [(BOX, True), (BOX, False), (FIVE, True)],
    ids=["squashed", "deterministic", "choices"],
)
@pytest.mark.parametrize("hidden_sizes", [(), (32, 16)])
def test_numpy_equals_keras_for_bounded_actions(space, stochastic, hidden_sizes):
    ac = MLPQActorCritic(OBS, space, hidden_sizes, stochastic=stochastic, num_q=1)
    act, noise = Actor(ac), noise_for(ac)
    assert act.mirror is not None
    perturb(ac.pi, 0)
    act.refresh()
    found, _ = act(batch(), noise)
    assert found.dtype == (np.int64 if space is FIVE else np.float32)
    pi = ac.pi(batch())
    np.testing.assert_allclose(found, sample(pi, noise), **CLOSE)
    np.testing.assert_allclose(act(batch(), 0 * noise)[0], mode(pi), **CLOSE)
    one, _ = act(batch()[7:8], noise[7:8])  # one observation is no exception
    np.testing.assert_allclose(one, found[7:8], **CLOSE)
    if stochastic and space is BOX:
        assert np.abs(found).max() <= 1
        assert not np.allclose(found, act(batch(), 0 * noise)[0])


def test_log_std_is_clipped_as_in_keras():
    """One at 50 acts as one at 2, one at -50 as one at -20, next to no noise."""
    ac = MLPQActorCritic(OBS, spaces.Box(-1, 1, (2,)), (), stochastic=True, num_q=1)
    (layer,) = ac.pi.net.layers
    layer.kernel.assign(tf.zeros((4, 4)))
    layer.bias.assign([0.1, 0.2, 50.0, -50.0])
    act, _ = Actor(ac)(batch(1), np.array([[0.05, 3]], np.float32))
    np.testing.assert_allclose(act, np.tanh([[0.1 + np.exp(2) * 0.05, 0.2]]), rtol=1e-6)


def test_stale_weights_are_used_until_refresh():
    ac = MLPActorCritic(OBS, BOX)
    act, noise = Actor(ac), np.zeros((50, 3), np.float32)
    before, _ = act(batch(), noise)
    perturb(ac.pi, 0)
    np.testing.assert_array_equal(act(batch(), noise)[0], before)
    act.refresh()
    assert not np.allclose(act(batch(), noise)[0], before)


class Reversed(keras.Sequential):
    """A stack of Dense layers that computes something else of them."""

    def call(self, x, *args, **kwargs):
        return -super().call(x, *args, **kwargs)


def test_a_class_of_ones_own_that_is_a_sequential_computes_what_it_says():
    nested = keras.Sequential([keras.Input((4,)), Reversed([keras.layers.Dense(2)])])
    for net in (Reversed([keras.Input((4,)), keras.layers.Dense(2)]), nested):
        pi, v = CategoricalPolicy(net, [2], True), ValueFunction(mlp(4, (), 1))
        ac = ActorCritic(pi, v, spaces.Discrete(2))
        act, noise = Actor(ac), noise_for(ac)
        np.testing.assert_array_equal(act(batch(), noise)[0], sample(pi(batch()), noise))
        with pytest.raises(UserError, match="no copy in NumPy"):
            numpy_steps(pi)


class OwnPolicy(keras.Model):
    """A network that NumPy has no copy of."""

    def __init__(self):
        super().__init__()
        self.hidden = keras.layers.Dense(8, "tanh")
        self.norm = keras.layers.LayerNormalization()
        self.logits = keras.layers.Dense(3)
        self.traces = 0

    def call(self, obs):
        self.traces += 1
        return tfp.distributions.Categorical(logits=self.logits(self.norm(self.hidden(obs))))


def test_other_models_are_compiled_once():
    pi = OwnPolicy()
    pi(batch())
    ac = ActorCritic(pi, keras.Sequential(), spaces.Discrete(3))
    act, noise = Actor(ac), noise_for(ac)
    assert act.mirror is None
    first, _ = act(batch(), noise)
    traces = pi.traces
    np.testing.assert_array_equal(first, sample(pi(batch()), noise))
    act(batch(seed=1), noise)
    assert pi.traces == traces + 1  # the eager call above, and no retracing
    perturb(pi, 0)
    np.testing.assert_array_equal(act(batch(), noise)[0], sample(pi(batch()), noise))


def test_own_activations_and_own_deterministic_policies_are_compiled():
    ac = MLPActorCritic(OBS, spaces.Discrete(3), (8,), lambda x: tf.sin(x))
    value = Critic(ac.v)
    assert Actor(ac).mirror is value.mirror is None
    for n in (50, 3, 1):  # any batch size
        np.testing.assert_allclose(value(batch(n)), ac.v(batch(n)), **CLOSE)
    pi = keras.Sequential([keras.Input((4,)), keras.layers.LayerNormalization()])
    ac = QActorCritic(pi, [], spaces.Box(-1, 1, (4,)))
    act = Actor(ac)
    assert act.mirror is None
    np.testing.assert_allclose(act(batch(), noise_for(ac))[0], pi(batch()), **CLOSE)


@pytest.mark.parametrize("shared", [True, False])
def test_images(shared):
    """Networks that share layers give values with the actions; others leave them to the Critic."""
    ac = CNNActorCritic(IMAGES, FIVE, hidden_sizes=(16,), shared=shared)
    assert ac.shared == shared
    obs = np.random.default_rng(0).integers(0, 256, (5, *IMAGES.shape), np.uint8)
    perturb(ac.pi.net.layers[-1], 0)
    perturb(ac.v.net.layers[-1], 1)
    noise = noise_for(ac, 5)
    act, extras = Actor(ac)(obs, noise)
    np.testing.assert_array_equal(act, sample(ac.pi(obs), noise))
    np.testing.assert_allclose(Critic(ac.v)(obs), ac.v(obs), **CLOSE)
    assert [*extras] == ["val"] * shared
    for val in extras.values():
        np.testing.assert_allclose(val, ac.v(obs), **CLOSE)


class Doubled(GaussianPolicy):
    """Derived from a policy that has a copy in NumPy, which is not its own."""

    def head(self, output):
        return super().head(2 * output)


class DoubledInNumPyAsWell(Doubled):
    def head(self, output):
        return super().head(output)

    def numpy_head(self):
        gaussian = super().numpy_head()
        return lambda mean, noise: gaussian(2 * mean, noise)


@pytest.mark.parametrize("make", [Doubled, DoubledInNumPyAsWell])
def test_a_derived_policy_has_the_numpy_that_it_says_itself(make):
    pi = make(mlp(4, (8,), 3), 3)
    ac = ActorCritic(pi, keras.Sequential(), BOX)
    act, noise = Actor(ac), noise_for(ac)
    assert (act.mirror is not None) == (make is DoubledInNumPyAsWell)
    np.testing.assert_allclose(act(batch(), noise)[0], sample(pi(batch()), noise), **CLOSE)
