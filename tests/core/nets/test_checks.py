"""What makes networks, and which of them are refused before a run is opened."""

from functools import partial
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from gymnasium import spaces

from spinup_tf2.core.nets.actor_critic import ActorCritic, CNNActorCritic, MLPActorCritic
from spinup_tf2.core.nets.checks import class_for, make_actor_critic, make_q_actor_critic
from spinup_tf2.core.nets.distributions import categorical, squashed_gaussian
from spinup_tf2.core.nets.heads import (
    DeterministicPolicy,
    GaussianPolicy,
    QFunction,
    SquashedGaussianPolicy,
    ValueFunction,
)
from spinup_tf2.core.nets.layers import mlp
from spinup_tf2.core.nets.q_actor_critic import CNNQActorCritic, MLPQActorCritic, QActorCritic
from spinup_tf2.errors import UserError

tfd = tfp.distributions
OBS = spaces.Box(-1, 1, (4,))
IMAGES = spaces.Box(0, 255, (40, 36, 2), np.uint8)
TWO, FIVE, BITS = spaces.Discrete(2), spaces.Discrete(5, start=1), spaces.MultiBinary(3)
BOX, ACT = spaces.Box(-1, 1, (2,)), spaces.Box(-2, 1, (3,))
SMALL = dict(conv="small", hidden_sizes=(8,))


class Policy(keras.Model):
    """A policy that is no Head: any distribution of the outputs of a layer."""

    def __init__(self, outputs, make):
        super().__init__()
        self.net, self.make = mlp(4, (), outputs), make

    def call(self, obs):
        return self.make(self.net(obs))


def bernoulli(logits):
    return tfd.Independent(tfd.Bernoulli(logits=logits), 1)


def unit_gaussian(mean):
    return tfd.MultivariateNormalDiag(mean, tf.ones_like(mean))


def through_tanh(mean):
    return tfd.TransformedDistribution(tfd.Normal(mean, 1.0), tfp.bijectors.Tanh())


class Unsqueezed(keras.Model):
    """A mistake that would broadcast silently: values `[batch, 1]`."""

    def __init__(self, inputs):
        super().__init__()
        self.net = mlp(inputs, (), 1)

    def call(self, obs, *act):
        return self.net(tf.concat([obs, *act], -1))


class Scaled(keras.layers.Layer):
    """A layer with an attribute `scale` of which Keras may know nothing."""

    def __init__(self, make):
        super().__init__()
        self.scale = make(self)

    def call(self, x):
        return x


def tf_variable(layer):
    return tf.Variable(1.0)


def ones(layer):
    return layer.add_weight(name="ones", shape=(2,), initializer="ones")


def make(space, pi, v=None, **requirements):
    """Make an on-policy actor-critic of one's own networks, as a run does."""
    v = v or ValueFunction(mlp(4, (), 1))
    return make_actor_critic(
        lambda *spaces: ActorCritic(pi, v, spaces[1]), OBS, space, None, **requirements
    )


def stack(*layers):
    return keras.Sequential([keras.Input((4,)), *layers])


def with_layer(layer, last=None):
    v = ValueFunction(stack(layer, last or keras.layers.Dense(1)))
    return make(TWO, Policy(2, categorical), v)


def tanh_policy():
    return DeterministicPolicy(mlp(4, (), 3, output_activation="tanh"))


def q_functions(number, inputs=7, outputs=1):
    return [QFunction(mlp(inputs, (), outputs)) for _ in range(number)]


def make_q(pi, qs, stochastic=False, num_q=1, space=ACT):
    """Make an off-policy actor-critic of one's own networks, as a run does."""
    return make_q_actor_critic(
        lambda *spaces: QActorCritic(pi, qs, spaces[1]), OBS, space, None, stochastic, num_q
    )


def sharing_a_body():
    body = mlp(4, (), 4)
    pi = DeterministicPolicy(keras.Sequential([body, mlp(4, (), 3, None, "tanh")]))
    return make_q(pi, [QFunction(mlp(7, (), 1), encoder=body)])


REGULARIZED = partial(keras.layers.Dense, 1, kernel_regularizer="l2")
BARE = r"^Scaled\.scale is a tf\.Variable.*add_weight"

REFUSED = [
    # What cannot make networks.
    (lambda: make_actor_critic(3, OBS, TWO, {}), "actor_critic is a int; give the class"),
    (lambda: make_actor_critic(mlp(4, (), 2), OBS, TWO, {}), "is a Sequential; give the class"),
    (
        lambda: make_actor_critic(MLPActorCritic(OBS, TWO), OBS, TWO, {}),
        "is a MLPActorCritic; give the class or function",
    ),
    (
        lambda: make_actor_critic(MLPActorCritic, OBS, TWO, dict(hidden=(3,))),
        "MLPActorCritic cannot make the networks: .*unexpected .* 'hidden'",
    ),
    (
        lambda: make_actor_critic(MLPQActorCritic, OBS, TWO, {}),
        "MLPQActorCritic cannot make the networks: missing .* 'stochastic'",
    ),
    (
        lambda: make_actor_critic(lambda *spaces: SimpleNamespace(), OBS, TWO, {}),
        r"returned SimpleNamespace; .* return .*\.ActorCritic\(pi, v, action_space",
    ),
    (
        lambda: make_q_actor_critic(lambda *spaces: None, OBS, ACT, {}, True, 2),
        r"returned NoneType; .* return .*\.QActorCritic\(pi, \[q",
    ),
    # Networks for other observations, and arguments of networks.
    (lambda: CNNActorCritic(OBS, TWO), r"images of three dimensions.*have the shape \(4,\)"),
    (
        lambda: make_q_actor_critic(MLPQActorCritic, OBS, ACT, dict(num_q=3), True, 2),
        "the algorithm itself chooses",
    ),
    (
        lambda: make_q_actor_critic(MLPQActorCritic, OBS, ACT, dict(hidden_sizes=8), True, 2),
        "hidden_sizes is 8",
    ),
    (
        lambda: make_q_actor_critic(MLPQActorCritic, IMAGES, ACT, dict(conv="large"), True, 2),
        "conv is 'large'",
    ),
    # Policies of another kind or size.
    (lambda: make(TWO, mlp(4, (), 2)), r"pi\(obs\) returned \w*Tensor; it must return a distrib"),
    (lambda: make(TWO, Policy(3, categorical)), r"^pi gives logits .*\(3,\) .*e\(2\) needs \(2,\)"),
    (lambda: make(TWO, Policy(1, categorical)), r"^pi gives logits .*\(1,\) .* needs \(2,\)"),
    (lambda: make(TWO, Policy(2, unit_gaussian)), r"Multi\w*; .* Discrete\(2\) use Categorical"),
    (lambda: make(BOX, Policy(3, unit_gaussian)), r"^pi gives means .*\(3,\) .* needs \(2,\)"),
    (lambda: make(BOX, Policy(2, categorical)), "returned Categorical; .*Box.* use Multivar"),
    (
        lambda: make(BOX, GaussianPolicy(mlp(4, (), 1), 2)),
        r"^pi gives means .*\(1,\) .*needs \(2,\)",
    ),
    (lambda: make(BITS, Policy(4, bernoulli)), r"^pi gives logits .*\(4, 2\) .* needs \(3, 2\)"),
    (
        lambda: make(BOX, Policy(2, lambda x: tfd.Normal(x, 1.0))),
        r"log_prob of shapes .*\(2, 2\)\); .*Independent",
    ),
    # Values that would be broadcast.
    (lambda: make(TWO, Policy(2, categorical), Unsqueezed(4)), r"v\(obs\).*\[\(2, 1\)\].*Squeeze"),
    (lambda: make_q(tanh_policy(), [Unsqueezed(7)]), r"\[\(2, 1\)\].*needs 1 of shape \(2,\)"),
    (lambda: make_q(tanh_policy(), q_functions(1), num_q=2), r"\[\(2,\)\]; .* needs 2 of shape"),
    (lambda: make_q(tanh_policy(), q_functions(2)), r"\[\(2,\), \(2,\)\]; this algorithm needs 1"),
    (
        lambda: make_q(Policy(5, categorical), q_functions(1, 4, 3), True, space=FIVE),
        r"\[\(2, 3\)\].*needs 1 of shape \(2, 5\)",
    ),
    # What must be shared, or separate.
    (
        lambda: make_actor_critic(MLPActorCritic, IMAGES, TWO, SMALL | dict(shared=True), False),
        r"share variables.*shared=False",
    ),
    (
        lambda: make_actor_critic(MLPActorCritic, OBS, TWO, dict(shared=False), True),
        "share no variables.*shared=True",
    ),
    (sharing_a_body, "the policy and the Q-functions share variables"),
    # Policies that DDPG and TD3, or SAC, cannot train.
    (lambda: make_q(tanh_policy(), q_functions(2), True, 2), "must return a distribution"),
    (lambda: make_q(mlp(4, (), 2), q_functions(1)), r"shape \(2, 2\);.*of actions \(2, 3\)"),
    (
        lambda: make_q(SquashedGaussianPolicy(mlp(4, (), 6)), q_functions(1)),
        r"returned \w*TransformedDistribution.*needs a deterministic policy",
    ),
    (
        lambda: make_q(SquashedGaussianPolicy(mlp(4, (), 4)), q_functions(2), True, 2),
        r"^pi gives means .*\(2,\) .* needs \(3,\)",
    ),
    (
        lambda: make_q(Policy(3, unit_gaussian), q_functions(2), True, 2),
        "MultivariateNormalDiag, .* needs TransformedDistribution",
    ),
    (
        lambda: make_q(
            Policy(3, lambda x: tfd.Independent(through_tanh(x), 1)), q_functions(2), True, 2
        ),
        "Independent, .* needs TransformedDistribution",
    ),
    (
        lambda: make_q(Policy(3, through_tanh), q_functions(2), True, 2),
        r"log_prob of shapes .*\(2, 3\)\); ",
    ),
    (
        lambda: make_q(
            Policy(1, lambda x: tfd.Bernoulli(logits=x[:, 0])),
            *(q_functions(1, 4, 2), True, 1, TWO),
        ),
        "Bernoulli, .* for Discrete actions a Categorical",
    ),
    # Variables and losses of which Keras, or the algorithm, knows nothing.
    (lambda: with_layer(Scaled(tf_variable)), BARE),
    (lambda: with_layer(Scaled(lambda layer: [tf.Variable(1.0)])), BARE),
    (lambda: with_layer(Scaled(lambda layer: {"x": tf.Variable(1.0)})), BARE),
    (lambda: with_layer(Scaled(lambda layer: tfd.Normal(tf.Variable(0.0), 1.0))), BARE),
    (lambda: make_q(stack(Scaled(tf_variable), keras.layers.Dense(3)), q_functions(1)), BARE),
    (lambda: with_layer(Scaled(ones), REGULARIZED()), "losses of their own, as those of kernel_re"),
    # Closed forms.
    (
        lambda: make(
            BOX,
            Policy(2, lambda x: squashed_gaussian(x, tf.ones_like(x))),
            closed_forms=["entropy"],
        ),
        r"no entropy\(\) in closed form",
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[words for _, words in REFUSED])
def test_refused(call, message):
    with pytest.raises(UserError, match=message):
        call()


@pytest.mark.parametrize(
    ("space", "pi"),
    [
        (TWO, lambda: Policy(2, categorical)),
        (TWO, lambda: Policy(1, lambda x: tfd.Bernoulli(logits=x[:, 0]))),
        (TWO, lambda: Policy(1, lambda x: categorical(tf.zeros(2)))),  # does not look
        (BOX, lambda: Policy(2, lambda x: unit_gaussian(tf.zeros(2)))),
        (BOX, lambda: Policy(2, lambda x: tfd.Independent(tfd.Normal(x, 1.0), 1))),
        (BOX, lambda: Policy(2, lambda x: squashed_gaussian(x, tf.ones_like(x)))),
        (BITS, lambda: Policy(3, bernoulli)),
    ],
)
def test_policies_of_the_right_size_are_taken(space, pi):
    pi = pi()
    assert make(space, pi).pi is pi


@pytest.mark.parametrize(
    "weight",
    [ones, lambda layer: ones(layer).value, lambda layer: tfd.Normal(ones(layer).value, 1.0)],
    ids=["weight", "value", "module of a weight"],
)
def test_variables_that_keras_tracks_are_taken(weight):
    assert len(with_layer(Scaled(weight)).v.trainable_variables) == 3


def test_images_are_for_the_image_networks():
    """Of all spaces but images, MLPActorCritic is the default; who trains apart does not share."""
    assert type(make_actor_critic(MLPActorCritic, OBS, TWO, None, False)) is MLPActorCritic
    assert make_actor_critic(MLPActorCritic, OBS, TWO, None, shared=True).shared
    assert make_actor_critic(MLPActorCritic, IMAGES, TWO, SMALL).shared
    assert not make_actor_critic(CNNActorCritic, IMAGES, TWO, SMALL, shared=False).shared


def test_answers_are_not_inherited():
    class Derived(MLPActorCritic):
        pass

    class WithAnAnswer(CNNActorCritic):
        takes_init = True

    assert class_for(Derived, IMAGES) is Derived
    assert class_for(MLPActorCritic, IMAGES) is CNNActorCritic
    assert class_for(MLPQActorCritic, IMAGES) is CNNQActorCritic
    assert class_for(MLPActorCritic, OBS) is MLPActorCritic
    assert (MLPActorCritic.takes_init, Derived.takes_init) == (True, False)
    assert WithAnAnswer.takes_init


def test_subclasses_are_told_what_the_algorithm_needs():
    class Wide(MLPQActorCritic):
        pass

    ac = make_q_actor_critic(Wide, OBS, ACT, dict(hidden_sizes=(3,)), stochastic=False, num_q=1)
    assert len(ac.qs) == 1
    ac = make_q_actor_critic(partial(Wide, hidden_sizes=(3,)), OBS, ACT, None, True, 2)
    assert len(ac.qs) == 2
