"""Squashed Gaussians where tanh rounds to 1, and the networks of the Q-functions."""

import keras
import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp
from gymnasium import spaces

from spinup_tf2.core.nets.checks import make_q_actor_critic
from spinup_tf2.core.nets.distributions import mode, sample, sample_and_log_prob
from spinup_tf2.core.nets.heads import SquashedGaussianPolicy
from spinup_tf2.core.nets.layers import count_variables
from spinup_tf2.core.nets.q_actor_critic import CNNQActorCritic, MLPQActorCritic

tfd = tfp.distributions
OBS = spaces.Box(-1, 1, (4,))
ACT = spaces.Box(-2, 1, (3,))
CHOICES = spaces.Discrete(5, start=1)
IMAGES = spaces.Box(0, 255, (40, 36, 2), np.uint8)


def observations(n, space=OBS, seed=0):
    rng = np.random.default_rng(seed)
    if space.dtype == np.uint8:
        return rng.integers(0, 256, (n, *space.shape), np.uint8)
    return rng.normal(size=(n, *space.shape)).astype(np.float32)


# ----------------------------------------------------------------------- squashed Gaussian


def squashed(mean, log_std):
    """The policy's distribution where its network gives these, each `[batch, act_dim]`."""
    policy = SquashedGaussianPolicy(keras.layers.Identity())
    return policy(np.concatenate([mean, log_std], axis=-1).astype(np.float32))


@pytest.mark.parametrize("u", [-20.0, 20.0])
def test_log_prob_where_tanh_rounds_to_one(u):
    """log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2u)): about -38.6, and not log(0)."""
    log_std = -1.0
    distribution = squashed([[u, u]], [[log_std, log_std]])
    act, logp = sample_and_log_prob(distribution, tf.zeros((1, 2)))
    np.testing.assert_array_equal(act, np.sign([[u, u]]))
    correction = 2 * (np.log(2) - u - np.logaddexp(0, -2 * u))
    assert correction == pytest.approx(-38.6137, abs=1e-4)
    expected = 2 * (scipy.stats.norm.logpdf(0, scale=np.exp(log_std)) - correction)
    np.testing.assert_allclose(logp, [expected], rtol=1e-6)


def test_gradients_where_tanh_rounds_to_one_are_finite():
    """d logp / d mean = 2 tanh(u) = 2; d logp / d log_std = -1 + 2 tanh(u) std noise = 1."""
    mean, log_std = tf.constant([[20.0]]), tf.constant([[0.0]])
    with tf.GradientTape() as tape:
        tape.watch([mean, log_std])
        policy = SquashedGaussianPolicy(keras.layers.Identity())
        _, logp = sample_and_log_prob(policy(tf.concat([mean, log_std], -1)), tf.ones((1, 1)))
    gradients = tape.gradient(logp, [mean, log_std])
    np.testing.assert_allclose(np.ravel(gradients), [2, 1], rtol=1e-5)


# ------------------------------------------------------------------------------- networks


def test_parameter_counts_of_spinning_up():
    """Hopper: SAC's policy has two outputs for each of the three dimensions, DDPG's has one."""
    hopper = (spaces.Box(-np.inf, np.inf, (11,)), spaces.Box(-1, 1, (3,)))
    sac = MLPQActorCritic(*hopper, stochastic=True, num_q=2)
    assert [count_variables(net) for net in (sac.pi, *sac.qs)] == [70406, 69889, 69889]
    assert sum(int(tf.size(v)) for v in sac.trainable_variables) == 70406 + 2 * 69889
    ddpg = MLPQActorCritic(*hopper, stochastic=False, num_q=1)
    assert [count_variables(net) for net in (ddpg.pi, *ddpg.qs)] == [69635, 69889]


@pytest.mark.parametrize("observation_space", [OBS, IMAGES], ids=["vectors", "images"])
@pytest.mark.parametrize(
    ("space", "stochastic"),
    [(ACT, True), (ACT, False), (spaces.Box(-1, 1, (2, 2)), True), (CHOICES, True)],
    ids=str,
)
def test_shapes(observation_space, space, stochastic):
    num_q = 1 + stochastic
    kwargs = dict(hidden_sizes=(8,))
    ac = make_q_actor_critic(
        MLPQActorCritic, observation_space, space, kwargs, stochastic=stochastic, num_q=num_q
    )
    assert type(ac) is (MLPQActorCritic if observation_space is OBS else CNNQActorCritic)
    obs, spec = observations(7, observation_space), ac.action_spec
    pi = ac.pi(obs)
    assert isinstance(pi, tfd.Distribution) == stochastic
    act = sample(pi, spec.draw_noise(np.random.default_rng(0), 7))
    values = ac.q_values(obs) if space is CHOICES else ac.q_values(obs, act)
    assert act.shape == (7, *spec.shape)
    assert [tuple(q.shape) for q in values] == [(7, 5) if space is CHOICES else (7,)] * num_q
    for q, val in zip(ac.qs, values, strict=True):
        alone = q(obs) if space is CHOICES else q(obs, act)
        np.testing.assert_allclose(alone, val, rtol=1e-6)
    if num_q == 2:  # of weights of their own
        assert not np.allclose(*values)
    for deterministic in (True, False):
        assert ac.act(obs, deterministic).shape == (7, *space.shape)
        assert space.contains(ac.act(obs[0], deterministic))
    expected = spec.to_env(mode(pi).numpy())
    np.testing.assert_allclose(ac.act(obs, deterministic=True), expected, rtol=1e-6)


def test_act_is_between_the_bounds_of_the_environment():
    """A policy that says 1 and -1 gives high and low; Discrete actions begin at `start`."""
    space = spaces.Box(np.array([-1, 5], np.float32), np.array([3, 100], np.float32))
    ac = MLPQActorCritic(OBS, space, (), stochastic=False, num_q=1)
    ac.pi.net.layers[-1].bias.assign([100.0, -100.0])
    np.testing.assert_array_equal(ac.act(np.zeros(4)), [3, 5])
    choices = spaces.Discrete(3, start=7)
    ac = MLPQActorCritic(OBS, choices, (), stochastic=True, num_q=2)
    ac.pi.net.layers[-1].bias.assign([0.0, 0.0, 100.0])
    assert ac.act(np.zeros(4)) == 9


@pytest.mark.parametrize(("space", "num_q"), [(ACT, 2), (CHOICES, 1)], ids=str)
def test_convolutions_of_the_q_functions_are_shared_and_computed_once(space, num_q):
    ac = make_q_actor_critic(CNNQActorCritic, IMAGES, space, dict(hidden_sizes=(8,)), True, num_q)
    inputs = [observations(2, IMAGES)]
    if space is ACT:
        inputs.append(np.zeros((2, 3), np.float32))
    graph = tf.function(ac.q_values).get_concrete_function(*map(tf.constant, inputs)).graph
    assert sum(op.type == "Conv2D" for op in graph.get_operations()) == 3  # layers of 'nature'

    # Three convolutions once, and for each Q-function two dense layers; kernels and biases.
    assert len(ac.q_variables) == 2 * (3 + 2 * num_q)
    assert len({id(v) for v in ac.q_variables}) == len(ac.q_variables)
    assert {id(v) for v in ac.q_encoder.trainable_variables} < {id(v) for v in ac.q_variables}
    # The policy has its own.
    assert len(ac.pi.trainable_variables) == 2 * (3 + 2)
    assert not {id(v) for v in ac.pi.trainable_variables} & {id(v) for v in ac.q_variables}
    for variables in (ac.trainable_variables, ac.variables):
        ids = [id(v) for v in variables]
        assert len(ids) == len(set(ids))
        assert {*ids} >= {id(v) for v in (*ac.pi.trainable_variables, *ac.q_variables)}
    assert len(ac.trainable_variables) == len(ac.q_variables) + 10


def test_a_policy_at_the_bounds_of_its_actions_has_a_gradient():
    """Every action rounds to 1, and yet Q = -a has a gradient that leads back."""
    ac = MLPQActorCritic(OBS, ACT, (8,), stochastic=False, num_q=1)
    *_, bias = ac.pi.trainable_variables
    bias.assign(tf.fill(bias.shape, 12.0))
    obs = observations(5)
    with tf.GradientTape() as tape:
        act = ac.pi(obs)
        loss = tf.reduce_mean(act)
    np.testing.assert_array_equal(act, np.ones((5, 3)))
    assert np.all(tape.gradient(loss, bias.value).numpy() > 0)
    np.testing.assert_array_equal(ac.act(obs[0]), ACT.high)
