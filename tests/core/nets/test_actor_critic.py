"""Policies against SciPy, and samples against the distributions they come from."""

from contextlib import nullcontext
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp
from gymnasium import spaces

from spinup_tf2.arguments.rules import ACTIVATIONS
from spinup_tf2.core.nets.actor_critic import ActorCritic, CNNActorCritic, MLPActorCritic
from spinup_tf2.core.nets.checks import class_for, make_actor_critic, make_q_actor_critic
from spinup_tf2.core.nets.distributions import categorical, sample, squashed_gaussian
from spinup_tf2.core.nets.heads import CategoricalPolicy, GaussianPolicy, ValueFunction
from spinup_tf2.core.nets.layers import activation_name, count_variables, mlp, tanh
from spinup_tf2.core.nets.q_actor_critic import CNNQActorCritic, MLPQActorCritic
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


def test_gaussian_log_prob_equals_scipy():
    ac = MLPActorCritic(OBS, spaces.Box(-1, 1, (3,)))
    obs, act = observations(7), np.random.default_rng(1).normal(size=(7, 3)).astype(np.float32)
    mean = ac.pi.net(obs).numpy()
    expected = scipy.stats.norm.logpdf(act, mean, np.exp(-0.5)).sum(-1)
    np.testing.assert_allclose(ac.pi(obs).log_prob(act), expected, rtol=1e-5)


def test_categorical_log_prob_equals_log_softmax():
    ac = MLPActorCritic(OBS, spaces.Discrete(5))
    obs, act = observations(7), np.arange(7) % 5
    log_softmax = scipy.special.log_softmax(ac.pi.net(obs).numpy(), axis=-1)
    np.testing.assert_allclose(
        ac.pi(obs).log_prob(act), log_softmax[np.arange(7), act], rtol=1e-5, atol=1e-6
    )


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


@pytest.mark.parametrize("space", ACTION_SPACES, ids=str)
def test_step_and_act_take_one_observation_or_a_batch(space):
    ac = MLPActorCritic(OBS, space)
    act, val, logp = ac.step(observations(3))
    assert (act.shape, val.shape, logp.shape) == ((3, *space.shape), (3,), (3,))
    act, val, logp = ac.step(observations(1)[0])
    assert (act.shape, val.shape, logp.shape) == (space.shape, (), ())
    flat = ac.action_spec.from_env(act)
    np.testing.assert_allclose(ac.pi(observations(1)).log_prob(flat[None])[0], logp, rtol=1e-5)
    act = ac.act(observations(1)[0])
    assert act.shape == space.shape
    assert isinstance(space, spaces.Box) or space.contains(act)  # a Gaussian has no bounds
    first, second = (ac.act(observations(3), deterministic=True) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_activations_by_name_by_tensorflow_function_and_by_own_function():
    x = observations(2)
    for name, function in [
        ("relu", tf.nn.relu),
        ("tanh", tf.tanh),
        ("elu", lambda y: tf.nn.elu(y)),
    ]:
        tf.keras.utils.set_random_seed(0)
        by_name = mlp(4, (8,), 2, name)(x)
        tf.keras.utils.set_random_seed(0)
        np.testing.assert_allclose(mlp(4, (8,), 2, function)(x), by_name, rtol=1e-6)


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
        MLPActorCritic(OBS, TWO, activation=layer)
    for activation, slope in [
        ("leaky_relu", 0.2),
        (lambda x: keras.activations.leaky_relu(x, 0.01), 0.01),
        (keras.layers.LeakyReLU(), 0.3),
    ]:
        layers = MLPActorCritic(OBS, TWO, activation=activation).pi.net.layers
        np.testing.assert_allclose(layers[0].activation(tf.constant([-1.0])), [-slope])


@pytest.mark.parametrize(
    "returned", [None, (1, 2), SimpleNamespace(pi=mlp(4, (), 2), v=mlp(4, (), 1))], ids=type
)
def test_only_actor_critics_are_taken(returned):
    message = rf"returned {type(returned).__name__}; .* return .*\.ActorCritic\(pi, v, action_space"
    with pytest.raises(UserError, match=message):
        make_actor_critic(lambda *spaces: returned, OBS, spaces.Discrete(2), None)


@pytest.mark.parametrize(
    ("actor_critic", "kwargs", "message"),
    [
        (MLPActorCritic, dict(hidden=(3,)), "cannot make the networks: .*unexpected .* 'hidden'"),
        (MLPQActorCritic, {}, "MLPQActorCritic cannot make the networks: missing .* 'stochastic'"),
        (lambda space: None, {}, "too many positional arguments. It takes space, and"),
        (mlp(4, (), 2), {}, "is a Sequential; give the class or function that makes the networks"),
        (MLPActorCritic(OBS, spaces.Discrete(2)), {}, "is a MLPActorCritic; give the class or"),
        (3, {}, "actor_critic is a int; give the class"),
    ],
)
def test_what_cannot_make_networks_is_refused(actor_critic, kwargs, message):
    with pytest.raises(UserError, match=message):
        make_actor_critic(actor_critic, OBS, spaces.Discrete(2), kwargs)
    if actor_critic is not MLPQActorCritic:
        with pytest.raises(UserError, match=message):
            make_q_actor_critic(actor_critic, OBS, spaces.Box(-1, 1, (2,)), kwargs, True, 2)


class Policy(keras.Model):
    """A policy that is no Head: any distribution of the outputs of a layer."""

    def __init__(self, outputs, make):
        super().__init__()
        self.net, self.make = mlp(4, (), outputs), make

    def call(self, obs):
        return self.make(self.net(obs))


def bernoulli(logits):
    return tfp.distributions.Independent(tfp.distributions.Bernoulli(logits=logits), 1)


def unit_gaussian(mean):
    return tfp.distributions.MultivariateNormalDiag(mean, tf.ones_like(mean))


TWO, BOX = spaces.Discrete(2), spaces.Box(-1, 1, (2,))


@pytest.mark.parametrize(
    ("space", "pi", "message"),
    [
        (
            TWO,
            CategoricalPolicy(mlp(4, (), 3), (2,), True),
            "^pi gives 3 logits .*needs 2: give",
        ),
        (
            TWO,
            CategoricalPolicy(mlp(4, (), 1), (2,), True),
            "^pi gives 1 logits .*needs 2: give",
        ),
        (TWO, Policy(3, categorical), r"^pi gives 3 logits .* Discrete\(2\) needs 2: give"),
        (TWO, Policy(1, categorical), r"^pi gives 1 logits .* Discrete\(2\) needs 2: give"),
        (TWO, Policy(2, unit_gaussian), r"returned Multi\w*; .* Discrete\(2\) use Categorical"),
        (BOX, GaussianPolicy(mlp(4, (), 3), 2), "^pi gives 3 means .*needs 2: give"),
        (BOX, GaussianPolicy(mlp(4, (), 1), 2), "^pi gives 1 means .*needs 2: give"),
        (BOX, Policy(3, unit_gaussian), r"^pi gives 3 means .*Box.* needs 2: give"),
        (BOX, Policy(2, categorical), r"returned Categorical; .*Box.* use MultivariateNormalDiag"),
        (
            spaces.MultiBinary(3),
            Policy(4, bernoulli),
            "^pi gives 4 x 2 logits .* needs 3 x 2: give",
        ),
    ],
)
def test_policies_of_another_size_are_refused(space, pi, message):
    def own(observation_space, action_space):
        return ActorCritic(pi, ValueFunction(mlp(4, (), 1)), action_space)

    with pytest.raises(UserError, match=message):
        make_actor_critic(own, OBS, space, None)


@pytest.mark.parametrize(
    ("space", "pi"),
    [
        (TWO, Policy(2, categorical)),
        (TWO, Policy(1, lambda x: tfp.distributions.Bernoulli(logits=x[:, 0]))),
        (TWO, Policy(1, lambda x: categorical(tf.zeros(2)))),  # does not look
        (BOX, Policy(2, lambda x: unit_gaussian(tf.zeros(2)))),
        (
            BOX,
            Policy(2, lambda x: tfp.distributions.Independent(tfp.distributions.Normal(x, 1.0), 1)),
        ),
        (BOX, Policy(2, lambda x: squashed_gaussian(x, tf.ones_like(x)))),
        (spaces.MultiBinary(3), Policy(3, bernoulli)),
    ],
)
def test_policies_of_the_right_size_are_taken(space, pi):
    def own(observation_space, action_space):
        return ActorCritic(pi, ValueFunction(mlp(4, (), 1)), action_space)

    assert make_actor_critic(own, OBS, space, None).pi is pi


class Scaled(keras.layers.Layer):
    """A layer with an attribute `scale` of which Keras may know nothing."""

    def __init__(self, make):
        super().__init__()
        self.scale = make(self)

    def call(self, x):
        return x


def ones(layer):
    return layer.add_weight(name="ones", shape=(2,), initializer="ones")


@pytest.mark.parametrize(
    ("make", "refused"),
    [
        (lambda layer: tf.Variable([1.0, 1.0]), True),
        (lambda layer: [tf.Variable(1.0)], True),
        (lambda layer: {"x": tf.Variable(1.0)}, True),
        (lambda layer: tfp.distributions.Normal(tf.Variable(0.0), 1.0), True),
        (ones, False),
        (lambda layer: ones(layer).value, False),
        (lambda layer: tfp.distributions.Normal(ones(layer).value, 1.0), False),
    ],
    ids=["bare", "list", "dict", "module", "weight", "value", "module of a weight"],
)
def test_variables_that_keras_does_not_track_are_refused(make, refused):
    def own(observation_space, action_space):
        ac = MLPActorCritic(observation_space, action_space, hidden_sizes=())
        net = keras.Sequential([keras.Input((4,)), Scaled(make), keras.layers.Dense(1)])
        return ActorCritic(ac.pi, ValueFunction(net), action_space)

    expected = pytest.raises(UserError, match=r"^Scaled\.scale is a tf\.Variable.*add_weight")
    with expected if refused else nullcontext():
        make_actor_critic(own, OBS, spaces.Discrete(2), None)


def test_losses_of_layers_which_nobody_would_add_are_refused():
    def own(observation_space, action_space):
        ac = MLPActorCritic(observation_space, action_space, hidden_sizes=())
        dense = keras.layers.Dense(1, kernel_regularizer=keras.regularizers.L2(0.1))
        net = keras.Sequential([keras.Input((4,)), dense])
        return ActorCritic(ac.pi, ValueFunction(net), action_space)

    with pytest.raises(UserError, match="losses of their own, as those of kernel_regularizer"):
        make_actor_critic(own, OBS, spaces.Discrete(2), None)


# ------------------------------------------------------------------------------------- images


def images(n, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, *IMAGES.shape), np.uint8)


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


@pytest.mark.parametrize("space", ACTION_SPACES, ids=str)
@pytest.mark.parametrize("shared", [True, False])
def test_pi_and_v_are_pi_and_v(space, shared):
    ac = CNNActorCritic(IMAGES, space, "small", (16,), shared=shared)
    obs = images(3)
    distribution, val = ac.pi_and_v(obs)
    act = sample(distribution, action_spec(space).draw_noise(np.random.default_rng(0), 3))
    expected = ac.pi(obs).log_prob(act)
    np.testing.assert_allclose(distribution.log_prob(act), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(val, ac.v(obs), rtol=1e-5, atol=1e-6)
    assert val.shape == (3,)


@pytest.mark.parametrize("space", ACTION_SPACES, ids=str)
def test_perceptrons_that_share_their_hidden_layers(space):
    """Separate by default. Shared, each output has its own last layer of 8 + 1 parameters."""
    outputs = count_variables(MLPActorCritic(OBS, space, (8,)).pi)
    shared = MLPActorCritic(OBS, space, (8,), shared=True)
    assert not MLPActorCritic(OBS, space, (8,)).shared
    assert shared.shared
    assert count_variables(shared) == outputs + 9
    obs = np.random.default_rng(0).normal(size=(3, *OBS.shape)).astype(np.float32)
    distribution, val = shared.pi_and_v(obs)
    act = sample(distribution, action_spec(space).draw_noise(np.random.default_rng(0), 3))
    expected = shared.pi(obs).log_prob(act)
    np.testing.assert_allclose(distribution.log_prob(act), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(val, shared.v(obs), rtol=1e-5, atol=1e-6)


def test_a_shared_body_is_computed_once():
    """The activation is called in each of its two layers."""
    calls = []

    def counting(x):
        calls.append(x)
        return tf.nn.relu(x)

    kwargs = dict(conv=[(4, 3, 2)], hidden_sizes=(8,), activation=counting)
    for shared, expected in ((True, 2), (False, 4)):
        ac = CNNActorCritic(IMAGES, spaces.Discrete(3), **kwargs, shared=shared)
        calls.clear()
        ac.pi_and_v(images(1))
        assert len(calls) == expected


def test_gradients_of_a_shared_body_add_up():
    """d(pi + v) = d(pi) + d(v) in the body; a Box policy's log_std belongs to the policy alone."""
    ac = CNNActorCritic(IMAGES, spaces.Box(-1, 1, (2,)), "small", (8,))
    obs, act = images(4), np.zeros((4, 2), np.float32)

    def gradient(loss):
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(loss())
        grads = tape.gradient(value, ac.trainable_variables)
        zeros = (np.zeros(v.shape) for v in ac.trainable_variables)
        return [z if g is None else g.numpy() for z, g in zip(zeros, grads, strict=True)]

    def both():
        distribution, val = ac.pi_and_v(obs)
        return distribution.log_prob(act) + val

    parts = [gradient(lambda: ac.pi(obs).log_prob(act)), gradient(lambda: ac.v(obs))]
    for total, from_pi, from_v in zip(gradient(both), *parts, strict=True):
        atol = 1e-5 * max(1, np.abs(total).max())
        np.testing.assert_allclose(total, from_pi + from_v, atol=atol)


def test_images_are_for_the_image_networks():
    """Of all spaces but images, MLPActorCritic is the default; who trains apart does not share."""
    box = spaces.Discrete(2)
    assert type(make_actor_critic(MLPActorCritic, OBS, box, None, False)) is MLPActorCritic
    for asked_for in (MLPActorCritic, CNNActorCritic):
        small = dict(conv="small", hidden_sizes=(8,))
        assert make_actor_critic(asked_for, IMAGES, box, small).shared
        assert not make_actor_critic(asked_for, IMAGES, box, small, shared=False).shared
    with pytest.raises(
        UserError, match=r"share variables.*shared=False.* or ppg with arch='shared'"
    ):
        make_actor_critic(MLPActorCritic, IMAGES, box, dict(small, shared=True), shared=False)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: type("My", (MLPActorCritic,), {})(IMAGES, TWO),
            "^My is for vectors, and .*for_im",
        ),
        (
            lambda: MLPQActorCritic(IMAGES, BOX, stochastic=True, num_q=2),
            "^MLPQActorCritic is for vectors, and observations have the shape",
        ),
        (lambda: CNNActorCritic(OBS, TWO), r"images of three dimensions.*have the shape \(4,\)"),
        (
            lambda: CNNQActorCritic(OBS, BOX, stochastic=True, num_q=2),
            "images of three dimensions.*or MLPQActorCritic",
        ),
    ],
)
def test_networks_for_other_observations_are_refused(make, message):
    with pytest.raises(UserError, match=message):
        make()


@pytest.mark.parametrize("net", [lambda obs: obs, tf.Module()])
def test_networks_are_keras_models(net):
    with pytest.raises(UserError, match=r"ActorCritic was given .*; networks are keras\.Model"):
        ActorCritic(net, mlp(4, (), 1), TWO)
    with pytest.raises(UserError, match=r"ActorCritic was given .*; networks are keras\.Model"):
        ActorCritic(mlp(4, (), 1), net, TWO)


def test_networks_that_must_share_do():
    box = spaces.Discrete(2)
    assert make_actor_critic(MLPActorCritic, OBS, box, None, shared=True).shared
    with pytest.raises(UserError, match=r"share no variables.*shared=True"):
        make_actor_critic(MLPActorCritic, OBS, box, dict(shared=False), shared=True)


def test_answers_are_not_inherited():
    class Derived(MLPActorCritic):
        pass

    class WithAnAnswer(CNNActorCritic):
        takes_init = True

    assert class_for(Derived, IMAGES) is Derived
    assert class_for(MLPActorCritic, IMAGES) is CNNActorCritic
    assert class_for(MLPActorCritic, OBS) is MLPActorCritic
    assert (MLPActorCritic.takes_init, Derived.takes_init) == (True, False)
    assert WithAnAnswer.takes_init


def test_step_and_act_take_one_image_or_a_batch():
    ac = CNNActorCritic(IMAGES, spaces.Discrete(3), "small", (8,))
    act, val, logp = ac.step(images(3))
    assert (act.shape, val.shape, logp.shape) == ((3,), (3,), (3,))
    act, val, logp = ac.step(images(1)[0])
    assert (act.shape, val.shape, logp.shape) == ((), (), ())
    deterministic = ac.act(images(3), deterministic=True)
    np.testing.assert_array_equal(deterministic, ac.pi.net(images(3)).numpy().argmax(-1))
