"""The fast ways of acting equal the Keras models."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from gymnasium import spaces

from spinup_tf2.core.nets import acting
from spinup_tf2.core.nets.actor_critic import (
    ActorCritic,
    CNNActorCritic,
    MLPActorCritic,
)
from spinup_tf2.core.nets.checks import make_q_actor_critic
from spinup_tf2.core.nets.distributions import mode, sample
from spinup_tf2.core.nets.heads import CategoricalPolicy, GaussianPolicy, ValueFunction
from spinup_tf2.core.nets.layers import mlp
from spinup_tf2.core.nets.q_actor_critic import MLPQActorCritic, QActorCritic
from spinup_tf2.envs.spaces import action_spec, bounded_action_spec
from spinup_tf2.errors import UserError

OBS = spaces.Box(-1, 1, (4,))
ACTION_SPACES = [
    spaces.Box(-1, 1, (3,)),
    spaces.Discrete(5),
    spaces.MultiDiscrete([3, 2, 4]),
    spaces.MultiBinary(3),
]
MIRRORED = ["tanh", "relu", "sigmoid", "silu", "softplus", "softsign", "elu", "linear"]


def batch(n=50, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 4)).astype(np.float32)


def perturb(model, seed):
    """Random weights and biases, larger than initialisers make them."""
    rng = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(size=variable.shape, scale=0.7))


@pytest.mark.parametrize("space", ACTION_SPACES, ids=str)
@pytest.mark.parametrize("activation", MIRRORED)
@pytest.mark.parametrize("hidden_sizes", [(), (8,), (32, 16)])
def test_numpy_equals_keras(space, activation, hidden_sizes):
    ac = MLPActorCritic(OBS, space, hidden_sizes, activation)
    act, value = acting.Actor(ac), acting.Critic(ac.v)
    assert act.mirror is not None
    noise = action_spec(space).draw_noise(np.random.default_rng(1), 50)
    for seed in range(2):
        perturb(ac.pi, seed)
        perturb(ac.v, seed)
        act.refresh()
        value.refresh()
        expected = sample(ac.pi(batch()), noise)
        np.testing.assert_allclose(act(batch(), noise)[0], expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(value(batch()), ac.v(batch()), rtol=1e-5, atol=1e-5)


def test_stale_weights_are_used_until_refresh():
    ac = MLPActorCritic(OBS, spaces.Box(-1, 1, (3,)))
    act = acting.Actor(ac)
    noise = np.zeros((50, 3), np.float32)
    before, extras = act(batch(), noise)
    assert extras == {}  # separate networks: values come later, all at once
    perturb(ac.pi, 0)
    np.testing.assert_array_equal(act(batch(), noise)[0], before)
    act.refresh()
    assert not np.allclose(act(batch(), noise)[0], before)


class Reversed(keras.Sequential):
    """A stack of Dense layers that computes something else of them."""

    def call(self, x, *args, **kwargs):
        return -super().call(x, *args, **kwargs)


def test_a_class_of_ones_own_that_is_a_sequential_computes_what_it_says():
    def net(outputs, kind=Reversed):
        layers = [keras.layers.Dense(8, "tanh"), keras.layers.Dense(outputs)]
        return kind([keras.Input((4,)), *layers])

    nested = keras.Sequential([keras.Input((4,)), Reversed([keras.layers.Dense(2)])])
    for each in (net(2), nested):
        pi, v = CategoricalPolicy(each, [2], True), ValueFunction(net(1))
        ac = ActorCritic(pi, v, spaces.Discrete(2))
        act, value = acting.Actor(ac), acting.Critic(v)
        noise = action_spec(spaces.Discrete(2)).draw_noise(np.random.default_rng(1), 50)
        np.testing.assert_array_equal(act(batch(), noise)[0], sample(pi(batch()), noise))
        np.testing.assert_allclose(value(batch()), v(batch()), rtol=1e-5, atol=1e-5)
        with pytest.raises(UserError, match="no copy in NumPy"):
            acting.numpy_steps(pi)


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
    act = acting.Actor(ActorCritic(pi, keras.Sequential(), spaces.Discrete(3)))
    assert act.mirror is None
    noise = np.random.default_rng(0).gumbel(size=(50, 3)).astype(np.float32)
    first, _ = act(batch(), noise)
    traces = pi.traces
    np.testing.assert_array_equal(first, sample(pi(batch()), noise))
    act(batch(seed=1), noise)
    assert pi.traces == traces + 1  # the eager call above, and no retracing
    perturb(pi, 0)
    np.testing.assert_array_equal(act(batch(), noise)[0], sample(pi(batch()), noise))


def test_custom_activation_falls_back_to_the_compiled_call():
    ac = MLPActorCritic(OBS, spaces.Discrete(3), (8,), lambda x: tf.sin(x))
    act = acting.Actor(ac)
    assert act.mirror is None
    value = acting.Critic(ac.v)
    for n in (50, 3, 1):  # any batch size
        np.testing.assert_allclose(value(batch(n)), ac.v(batch(n)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("space", ACTION_SPACES, ids=str)
@pytest.mark.parametrize("shared", [True, False])
def test_images(space, shared):
    """Networks that share layers give values with the actions; others leave them to the Critic."""
    images = spaces.Box(0, 255, (40, 36, 2), np.uint8)
    ac = CNNActorCritic(images, space, hidden_sizes=(16,), shared=shared)
    obs = np.random.default_rng(0).integers(0, 256, (5, *images.shape), np.uint8)
    noise = action_spec(space).draw_noise(np.random.default_rng(1), 5)
    perturb(ac.pi.net.layers[-1], 0)
    perturb(ac.v.net.layers[-1], 1)
    assert ac.shared == shared
    act, extras = acting.Actor(ac)(obs, noise)
    np.testing.assert_allclose(act, sample(ac.pi(obs), noise), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(acting.Critic(ac.v)(obs), ac.v(obs), rtol=1e-5, atol=1e-5)
    if shared:
        np.testing.assert_allclose(extras["val"], ac.v(obs), rtol=1e-5, atol=1e-5)
    else:
        assert extras == {}


# ---------------------------------------------------------------- off-policy actor-critics


@pytest.mark.parametrize(
    ("space", "stochastic"),
    [
        (spaces.Box(-1, 1, (3,)), True),
        (spaces.Box(-1, 1, (3,)), False),
        (spaces.Discrete(5), True),
    ],
    ids=["squashed", "deterministic", "choices"],
)
@pytest.mark.parametrize("activation", MIRRORED)
@pytest.mark.parametrize("hidden_sizes", [(), (32, 16)])
def test_numpy_equals_keras_for_bounded_actions(space, stochastic, activation, hidden_sizes):
    ac = MLPQActorCritic(OBS, space, hidden_sizes, activation, stochastic=stochastic, num_q=1)
    act = acting.Actor(ac)
    assert act.mirror is not None
    noise = ac.action_spec.draw_noise(np.random.default_rng(1), 50)
    for seed in range(2):
        perturb(ac.pi, seed)
        act.refresh()
        found, extras = act(batch(), noise)
        assert extras == {}
        assert found.dtype == (np.int64 if space == spaces.Discrete(5) else np.float32)
        pi = ac.pi(batch())
        np.testing.assert_allclose(found, sample(pi, noise), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(act(batch(), 0 * noise)[0], mode(pi), rtol=1e-5, atol=1e-5)
        for i in (0, 7):  # one observation is no exception
            one, _ = act(batch()[i : i + 1], noise[i : i + 1])
            np.testing.assert_allclose(one, found[i : i + 1], rtol=1e-5, atol=1e-5)
    if stochastic and isinstance(space, spaces.Box):
        assert np.abs(found).max() <= 1
        assert not np.allclose(found, act(batch(), 0 * noise)[0])


def test_log_std_is_clipped_as_in_keras():
    """One at 50 acts as one at 2, one at -50 as one at -20, next to no noise."""
    ac = MLPQActorCritic(OBS, spaces.Box(-1, 1, (2,)), (), stochastic=True, num_q=1)
    (layer,) = ac.pi.net.layers
    layer.kernel.assign(tf.zeros((4, 4)))
    layer.bias.assign([0.1, 0.2, 50.0, -50.0])
    act, _ = acting.Actor(ac)(batch(1), np.array([[0.05, 3]], np.float32))
    np.testing.assert_allclose(act, np.tanh([[0.1 + np.exp(2) * 0.05, 0.2]]), rtol=1e-6)


@pytest.mark.parametrize("stochastic", [True, False])
def test_images_for_bounded_actions(stochastic):
    images, space = spaces.Box(0, 255, (40, 36, 2), np.uint8), spaces.Box(-1, 1, (3,))
    kwargs = dict(hidden_sizes=(16,))
    ac = make_q_actor_critic(MLPQActorCritic, images, space, kwargs, stochastic, 2)
    act = acting.Actor(ac)
    assert act.mirror is None
    obs = np.random.default_rng(0).integers(0, 256, (5, *images.shape), np.uint8)
    noise = ac.action_spec.draw_noise(np.random.default_rng(1), 5)
    for seed in range(2):
        perturb(ac.pi.net.layers[-1], seed)
        pi = ac.pi(obs)
        np.testing.assert_allclose(act(obs, noise)[0], sample(pi, noise), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(act(obs, 0 * noise)[0], mode(pi), rtol=1e-5, atol=1e-5)


def test_own_deterministic_policies_are_compiled():
    pi = keras.Sequential([keras.Input((4,)), keras.layers.LayerNormalization()])
    space = spaces.Box(-1, 1, (4,))
    act = acting.Actor(QActorCritic(pi, [], space))
    assert act.mirror is None
    noise = bounded_action_spec(space).draw_noise(np.random.default_rng(0), 50)
    np.testing.assert_allclose(act(batch(), noise)[0], pi(batch()), rtol=1e-5, atol=1e-6)


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
    act = acting.Actor(ActorCritic(pi, keras.Sequential(), spaces.Box(-1, 1, (3,))))
    assert (act.mirror is not None) == (make is DoubledInNumPyAsWell)
    noise = np.random.default_rng(1).normal(size=(50, 3)).astype(np.float32)
    np.testing.assert_allclose(
        act(batch(), noise)[0], sample(pi(batch()), noise), rtol=1e-5, atol=1e-6
    )
