"""Policies and value functions, and the actor-critics made of them.

A policy is a Keras model that maps observations `[batch, obs_dim]` to a distribution of
tensorflow-probability over actions; a value function maps them to `[batch]`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from spinup_tf2.arguments.checks import check_network_arguments
from spinup_tf2.core.nets.bodies import cnn, mlp
from spinup_tf2.core.nets.distributions import (
    Distribution,
    categorical,
    categoricals,
    check_closed_forms,
    gaussian,
    mode,
    sample,
)
from spinup_tf2.envs.spaces import ActionSpec, action_spec, is_image, network_dtype, to_network
from spinup_tf2.errors import UserError

NEVER = -1e9  # a logit with probability 0; minus infinity would make the entropy nan

# ------------------------------------------------------------------------------- networks


class GaussianPolicy(keras.Model):
    """A Gaussian with diagonal covariance; its log standard deviation does not see the state.

    net: a model from observations to the mean `[batch, act_dim]`.
    log_std_init: where the log standard deviation of every dimension starts.
    """

    def __init__(self, net: keras.Model, act_dim: int, log_std_init: float = -0.5):
        super().__init__()
        self.net = net
        self.log_std = self.add_weight(
            name="log_std",
            shape=(act_dim,),
            initializer=keras.initializers.Constant(log_std_init),
        )

    def call(self, obs: tf.Tensor) -> Distribution:
        return self.distribution(self.net(obs))

    def distribution(self, mean: tf.Tensor) -> Distribution:
        """The policy where the network's output is `mean`."""
        return gaussian(mean, tf.exp(self.log_std))


class CategoricalPolicy(keras.Model):
    """One discrete action (Discrete) or several independent ones (MultiDiscrete, MultiBinary).

    net: a model from observations to logits `[batch, sum(num_choices)]`.
    num_choices: how many values each of them has.
    single: whether the action is one number rather than a vector of length one.
    """

    def __init__(self, net: keras.Model, num_choices: Sequence[int], single: bool):
        super().__init__()
        self.net = net
        self.single = single
        # Logits of several actions are padded to a rectangle, with logits that are never picked.
        widest = max(num_choices)
        starts = np.cumsum([0, *num_choices[:-1]])
        column = np.arange(widest)
        self.padding = column >= np.array(num_choices)[:, None]
        self.index = np.where(self.padding, 0, starts[:, None] + column)

    def logits(self, flat: tf.Tensor) -> tf.Tensor:
        """Network outputs `[batch, sum(num_choices)]` as logits `[batch, (k,) values]`."""
        if self.single:
            return flat
        return tf.where(self.padding, NEVER, tf.gather(flat, self.index, axis=-1))

    def call(self, obs: tf.Tensor) -> Distribution:
        return self.distribution(self.net(obs))

    def distribution(self, flat: tf.Tensor) -> Distribution:
        """The policy where the network's output is `flat`."""
        logits = self.logits(flat)
        return categorical(logits) if self.single else categoricals(logits)


class ValueFunction(keras.Model):
    """V(s) as `[batch]`, from a network with one output."""

    def __init__(self, net: keras.Model):
        super().__init__()
        self.net = net

    def call(self, obs: tf.Tensor) -> tf.Tensor:
        return tf.squeeze(self.net(obs), axis=-1)  # critical: [batch], or losses broadcast


def policy_for(
    action_space: spaces.Space,
    make_net: Callable[[int], keras.Model],
    log_std_init: float = -0.5,
) -> GaussianPolicy | CategoricalPolicy:
    """The policy for an action space, on the network `make_net(number of outputs)`."""
    spec = action_spec(action_space)
    if spec.num_choices is None:
        (act_dim,) = spec.shape
        return GaussianPolicy(make_net(act_dim), act_dim, log_std_init)
    return CategoricalPolicy(
        make_net(sum(spec.num_choices)), spec.num_choices, single=spec.shape == ()
    )


# --------------------------------------------------------------------------- actor-critic


@dataclass(frozen=True)
class Recipe:
    """How one of the default actor-critics was made.

    arguments: of its constructor, all but the spaces.
    networks: what was made of them; no longer the actor-critic's own if somebody replaced them.
    """

    arguments: dict
    networks: list


class Acting:
    """Actions for observations as NumPy arrays, from a policy `pi`.

    recipe: how to make these networks again; None where that is not known.
    env_observation_space: the environment's own, before it is flattened; None until a run begins.
    """

    recipe: Recipe | None = None
    env_observation_space: spaces.Space | None = None

    def __init__(self, pi: keras.Model, action_spec: ActionSpec):
        self.pi = pi
        self.action_spec = action_spec
        # Seeded by keras.utils.set_random_seed, as the networks are.
        self._rng = np.random.default_rng(np.random.randint(2**31))  # noqa: NPY002

    def act(self, obs: Any, deterministic: bool = False) -> np.ndarray:
        """Sample an action for the environment's `step`, or with `deterministic` take the mode.

        obs: an observation as the environment gives it; or several as the networks see them,
            `[batch, obs_dim]` or images, for actions `[batch, *act_shape]`.
        """
        batch, single = self._batch(obs)
        distribution = self.pi(batch)
        if deterministic:
            act = mode(distribution)
        else:
            act = sample(distribution, self.action_spec.draw_noise(self._rng, len(batch)))
        act = self.action_spec.to_env(act.numpy())
        return act[0] if single else act

    def _batch(self, obs):
        """Observations as the networks see them, `[batch, ...]`, and whether it was only one."""
        space = self.env_observation_space
        if space is not None and (isinstance(obs, Mapping) or np.shape(obs) == space.shape):
            return to_network(space, obs)[None], True
        obs = np.asarray(obs)
        if obs.dtype != np.uint8 or obs.ndim < 3:  # not images
            obs = obs.astype(np.float32)
        return (obs[None], True) if obs.ndim in (1, 3) else (obs, False)


class ActorCritic(Acting):
    """A policy `pi` and a value function `v`: what the on-policy algorithms train.

    ===================  =======================================================================
    `pi(obs)`            distribution over actions, for float32 observations `[batch, obs_dim]`
                         or images, uint8 `[batch, height, width, channels]`
    `v(obs)`             values `[batch]`
    `pi_and_v(obs)`      both; `shared` says whether they have variables in common
    `step(obs)`          NumPy `(act, val, logp)` for an observation of the environment, or a batch
    `act(obs)`           only the action, for the environment; `deterministic=True` gives the mode
    ===================  =======================================================================

    To use networks of your own, make two Keras models with the first two of these contracts and
    return `ActorCritic(pi, v, action_space)` from a function
    `actor_critic(observation_space, action_space, **ac_kwargs)`. Where both begin with the same
    layers, override `pi_and_v`, so that these are computed once.
    """

    def __init__(self, pi: keras.Model, v: keras.Model, action_space: spaces.Space):
        super().__init__(pi, action_spec(action_space))
        self.v = v

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """The parameters of both networks, each once."""
        return unique([*self.pi.trainable_variables, *self.v.trainable_variables])

    @property
    def shared(self) -> bool:
        """Whether policy and value function have parameters in common, and so train together."""
        separate = len(self.pi.trainable_variables) + len(self.v.trainable_variables)
        return len(self.trainable_variables) < separate

    def pi_and_v(self, obs: tf.Tensor) -> tuple[Distribution, tf.Tensor]:
        """`pi(obs)` and `v(obs)`."""
        return self.pi(obs), self.v(obs)

    @property
    def variables(self) -> list[keras.Variable]:
        """All variables of both networks, each once."""
        return unique([*self.pi.variables, *self.v.variables])

    def begin_batch(self) -> None:
        """Called before a batch is collected."""

    def with_update(self, update: Callable[[dict], dict]) -> Callable[[dict], dict]:
        """An `update(batch)` of this actor-critic, with what these networks themselves learn."""
        return update

    def outputs(self, obs: tf.Tensor, noise: tf.Tensor) -> dict[str, tf.Tensor]:
        """What is saved of the actor-critic as a function of tensors."""
        distribution, val = self.pi_and_v(obs)
        return {"pi": sample(distribution, noise), "mu": mode(distribution), "v": val}

    def step(self, obs: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sample an action, as `act` does; returns it with its value and log-probability."""
        batch, single = self._batch(obs)
        distribution = self.pi(batch)
        act = sample(distribution, self.action_spec.draw_noise(self._rng, len(batch)))
        outputs = self.v(batch).numpy(), distribution.log_prob(act).numpy()
        outputs = self.action_spec.to_env(act.numpy()), *outputs
        return tuple(x[0] if single else x for x in outputs)


def unique(variables: Iterable[keras.Variable]) -> list[keras.Variable]:
    """Each variable once, in the order in which it comes first."""
    return list({id(variable): variable for variable in variables}.values())


def make_actor_critic(
    actor_critic: Callable[..., ActorCritic],
    observation_space: spaces.Space,
    action_space: spaces.Space,
    ac_kwargs: dict | None,
    separate: bool,
    closed_forms: Sequence[str] = (),
) -> ActorCritic:
    """The actor-critic of a run, built and checked.

    Images are for CNNActorCritic, where the default MLPActorCritic was asked for.

    Args:
        separate: Whether the networks must not share variables.
        closed_forms: What the policy must have, of 'entropy' and 'kl_divergence'.

    Raises:
        UserError: It is not what the algorithm needs.
    """
    kwargs = dict(ac_kwargs or {})
    if actor_critic is MLPActorCritic and is_image(observation_space):
        actor_critic = CNNActorCritic
    if actor_critic is CNNActorCritic and separate:
        kwargs.setdefault("shared", False)
    ac = actor_critic(observation_space, action_space, **kwargs)
    obs = np.zeros((2, *observation_space.shape), network_dtype(observation_space))
    build(ac, obs)
    if separate and ac.shared:
        raise UserError(
            "The policy and the value function share variables; this algorithm trains them apart. "
            "Give each its own (ac_kwargs: shared=False), or use ppo or a2c."
        )
    if closed_forms:
        check_closed_forms(ac.pi, obs, closed_forms)
    return ac


def build(ac: ActorCritic, obs: np.ndarray) -> None:
    """Run an actor-critic once, so that all its variables exist, and check what it returns.

    Args:
        obs: Two observations, `[2, ...]`.

    Raises:
        UserError: `ac.pi` or `ac.v` is not what ActorCritic promises.
    """
    distribution, val = ac.pi(obs), ac.v(obs)
    if not isinstance(distribution, Distribution):
        raise UserError(
            f"The actor-critic's pi(obs) returned {type(distribution).__name__}; it must return a "
            "distribution of tensorflow_probability over the actions."
        )
    spec = ac.action_spec
    act = sample(distribution, spec.draw_noise(np.random.default_rng(0), 2))
    logp = distribution.log_prob(act)
    if tuple(act.shape) != (2, *spec.shape) or tuple(logp.shape) != (2,):
        raise UserError(
            f"For 2 observations the actor-critic's pi gives actions of shape {tuple(act.shape)} "
            f"and log_prob of shape {tuple(logp.shape)}; they must be {(2, *spec.shape)} "
            "and (2,). For actions with several dimensions, use MultivariateNormalDiag, or "
            "Independent(..., 1)."
        )
    if tuple(val.shape) != (2,):
        raise UserError(
            f"The actor-critic's v(obs) returned shape {tuple(val.shape)} for 2 observations; it "
            "must return (2,): squeeze the last axis."
        )


class MLPActorCritic(ActorCritic):
    """Separate multilayer perceptrons for the policy and the value function.

    observation_space: a Box of one dimension (`spaces.network_observation_space`).
    action_space: Box, Discrete, MultiDiscrete or MultiBinary.
    hidden_sizes: widths of the hidden layers of both networks.
    activation: of the hidden layers, one of `arguments.rules.ACTIVATIONS`, a class of such a name
        (`keras.layers.ReLU`, `torch.nn.Tanh`), or a function of a tensor.
    log_std_init: the logarithm of the standard deviation with which Box actions are first drawn.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        hidden_sizes: Sequence[int] = (64, 64),
        activation: str | Callable[[tf.Tensor], tf.Tensor] | None = "tanh",
        log_std_init: float = -0.5,
    ):
        arguments = dict(hidden_sizes=hidden_sizes, activation=activation)
        check_network_arguments(arguments | dict(log_std_init=log_std_init))
        obs_dim = observation_space.shape[0]
        pi = policy_for(
            action_space,
            lambda outputs: mlp(obs_dim, hidden_sizes, outputs, activation),
            log_std_init,
        )
        v = ValueFunction(mlp(obs_dim, hidden_sizes, 1, activation))
        super().__init__(pi, v, action_space)
        self.recipe = Recipe(arguments, [pi, v])


class CNNActorCritic(ActorCritic):
    """Convolutional networks for images, whose bytes they scale to 0 ... 1 themselves.

    observation_space: a Box of uint8 `[height, width, channels]`, or `[channels, height, width]`.
    action_space: Box, Discrete, MultiDiscrete or MultiBinary.
    conv: the convolutions: 'nature' (Mnih et al. 2015), 'small' (four layers of 32 filters, 3 x 3
        with stride 2), or a list of (filters, kernel size, stride).
    hidden_sizes: widths of the dense layers behind the convolutions.
    activation: of all hidden layers, as in MLPActorCritic.
    shared: whether policy and value function have all of these layers in common.
    log_std_init: the logarithm of the standard deviation with which Box actions are first drawn.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        conv: str | Sequence[tuple[int, int, int]] = "nature",
        hidden_sizes: Sequence[int] = (512,),
        activation: str | Callable[[tf.Tensor], tf.Tensor] | None = "relu",
        shared: bool = True,
        log_std_init: float = -0.5,
    ):
        layers = dict(conv=conv, hidden_sizes=hidden_sizes, activation=activation)
        arguments = dict(layers, shared=shared)
        check_network_arguments(arguments | dict(log_std_init=log_std_init))
        body = lambda: cnn(observation_space.shape, **layers)  # noqa: E731
        self.body = body()
        v_body = self.body if shared else body()

        def head(body, outputs):
            return keras.Sequential([body, keras.layers.Dense(outputs)])

        pi = policy_for(action_space, lambda outputs: head(self.body, outputs), log_std_init)
        v = ValueFunction(head(v_body, 1))
        super().__init__(pi, v, action_space)
        self.recipe = Recipe(arguments, [pi, v])

    def pi_and_v(self, obs: tf.Tensor) -> tuple[Distribution, tf.Tensor]:
        if not self.shared:
            return super().pi_and_v(obs)
        features = self.body(obs)
        to_policy, to_value = self.pi.net.layers[-1], self.v.net.layers[-1]
        val = tf.squeeze(to_value(features), axis=-1)
        return self.pi.distribution(to_policy(features)), val
