"""The actor-critics of the on-policy algorithms, and what they share with the off-policy ones."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from spinup_tf2.arguments.checks import check_network_arguments
from spinup_tf2.core.nets.bodies import cnn, cnn_shapes, mlp, mlp_shapes, vector_size
from spinup_tf2.core.nets.distributions import (
    Distribution,
    mode,
    sample,
)
from spinup_tf2.core.nets.heads import (
    ValueFunction,
    both,
    policy_for,
    policy_shapes,
    value_beside,
)
from spinup_tf2.core.nets.recurrent import (
    Memory,
    RecurrentNet,
    Trunk,
    recurrent_shapes,
)
from spinup_tf2.envs.spaces import ActionSpec, action_spec, to_network
from spinup_tf2.errors import UserError

# ----------------------------------------------------------------------- what all have in common


class BaseActorCritic:
    """A policy `pi` with the networks that criticize it; acts on observations as NumPy arrays.

    The class attributes below are not inherited: a derived class may have other networks, so that
    it begins with the defaults and sets them itself.

    Attributes:
        for_images: The class that takes its place where observations are images.
        takes_init: Whether the algorithm draws its first weights, even where `init` is None.
        jit_compile: Whether XLA can compile its networks.
        variable_shapes: A static method, `variable_shapes(observation_space, action_space,
            **arguments)`: the shapes of `variables` in any order, known before any is made. Where
            there is one, a saved agent can be built again with the class's constructor.
        env_observation_space: The environment's own, before it is flattened; None until a run
            begins.
        memory: What the networks remember from step to step, if they do: then they see `Sequences`
            in the place of observations. Else None.

    Args:
        arguments: Those of the constructor, all but the spaces, that `variable_shapes` takes; None
            if these networks cannot be made again with them.
    """

    for_images: ClassVar[type | None] = None
    takes_init: ClassVar[bool] = False
    jit_compile: ClassVar[bool] = False
    variable_shapes: ClassVar[Callable[..., list[tuple]] | None] = None

    env_observation_space: spaces.Space | None = None
    memory: Memory | None = None

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        for name in ("for_images", "takes_init", "jit_compile", "variable_shapes"):
            if name not in vars(cls):
                setattr(cls, name, getattr(BaseActorCritic, name))

    def __init__(self, pi: keras.Model, action_spec: ActionSpec, arguments: dict | None):
        self.pi = pi
        for each in self.networks:
            if not isinstance(each, keras.Layer):
                raise UserError(
                    f"{type(self).__name__} was given a {type(each).__name__}, {each!r}, as one of "
                    "its networks; they are Keras models (keras.Model)."
                )
        self.action_spec = action_spec
        self.arguments = arguments
        layers = [layer for net in self.networks for layer in net._flatten_layers()]
        self._made = self.networks, [(each, getattr(each, "activation", None)) for each in layers]
        # Seeded by keras.utils.set_random_seed, as the networks are.
        self._rng = np.random.default_rng(np.random.randint(2**31))  # noqa: NPY002

    @property
    def networks(self) -> list[keras.Model]:
        """The policy, and the others."""
        raise NotImplementedError

    def outputs(self, obs: tf.Tensor, noise: tf.Tensor) -> dict[str, tf.Tensor]:
        """What is saved of the actor-critic as a function of tensors."""
        raise NotImplementedError

    @property
    def changed(self) -> bool:
        """Whether a network or an activation is another than it was made with."""
        networks, activations = self._made
        return self.networks != networks or any(
            getattr(layer, "activation", None) is not activation
            for layer, activation in activations
        )

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """The parameters of all networks, each once."""
        return unique(each for net in self.networks for each in net.trainable_variables)

    @property
    def variables(self) -> list[keras.Variable]:
        """All variables of all networks, each once."""
        return unique(each for net in self.networks for each in net.variables)

    def act(self, obs: Any, deterministic: bool = False) -> np.ndarray:
        """Sample an action for the environment's `step`, or with `deterministic` take the mode.

        Args:
            obs: An observation as the environment gives it; or several as the networks see them,
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


def unique(variables: Iterable[keras.Variable]) -> list[keras.Variable]:
    """Each variable once, in the order in which it comes first."""
    return list({id(variable): variable for variable in variables}.values())


# --------------------------------------------------------------------- a policy and its values


class ActorCritic(BaseActorCritic):
    """A policy `pi` and a value function `v`: what the on-policy algorithms train.

    ===================  =======================================================================
    `pi(obs)`            distribution over actions, for float32 observations `[batch, obs_dim]`
                         or images, uint8 `[batch, height, width, channels]`
    `v(obs)`             values `[batch]`
    `pi_and_v(obs)`      both; `shared` says whether they have variables in common
    `step(obs)`          NumPy `(act, val, logp)` for an observation of the environment, or a batch
    `act(obs)`           only the action, for the environment; `deterministic=True` gives the mode
    ===================  =======================================================================

    With a memory (`memory` of the default networks), `step` and `act` take the `state` that the
    step before has returned, or None where an episode begins, and return the next one as well:
    `(act, val, logp, state)` and `(act, state)`.

    To use networks of your own, make two Keras models with the first two of these contracts and
    return `ActorCritic(pi, v, action_space)` from a function
    `actor_critic(observation_space, action_space, **ac_kwargs)`. Where both begin with the same
    layers, override `pi_and_v`, so that these are computed once.
    """

    def __init__(
        self,
        pi: keras.Model,
        v: keras.Model,
        action_space: spaces.Space,
        arguments: dict | None = None,
    ):
        self.v = v
        super().__init__(pi, action_spec(action_space), arguments)

    @property
    def networks(self) -> list[keras.Model]:
        """The policy and the value function."""
        return [self.pi, self.v]

    @property
    def shared(self) -> bool:
        """Whether policy and value function have parameters in common, and so train together."""
        separate = len(self.pi.trainable_variables) + len(self.v.trainable_variables)
        return len(self.trainable_variables) < separate

    def pi_and_v(self, obs: tf.Tensor) -> tuple[Distribution, tf.Tensor]:
        """`pi(obs)` and `v(obs)`."""
        return self.pi(obs), self.v(obs)

    def begin_batch(self) -> None:
        """Called before a batch is collected."""

    def with_update(self, update: Callable[[dict], dict]) -> Callable[[dict], dict]:
        """An `update(batch)` of this actor-critic, with what these networks themselves learn."""
        return update

    def outputs(self, obs: tf.Tensor, noise: tf.Tensor, *state: tf.Tensor) -> dict[str, tf.Tensor]:
        """What is saved of the actor-critic as a function of tensors."""
        distribution, val, *next_state = self._step(obs, *state)
        outputs = {"pi": sample(distribution, noise), "mu": mode(distribution), "v": val}
        return outputs | dict(zip(("state",), next_state, strict=False))

    def step(self, obs: Any, state: np.ndarray | None = None) -> tuple[np.ndarray, ...]:
        """Sample an action, as `act` does; returns it with its value and log-probability."""
        batch, single = self._batch(obs)
        distribution, val, *next_state = self._step(batch, *self._state(state, batch, single))
        act = sample(distribution, self.action_spec.draw_noise(self._rng, len(batch)))
        a, logp = self.action_spec.to_env(act.numpy()), distribution.log_prob(act)
        results = (a, *(x.numpy() for x in (val, logp, *next_state)))
        return tuple(x[0] for x in results) if single else results

    def act(self, obs: Any, deterministic: bool = False, state: np.ndarray | None = None) -> Any:
        """The action, and with a memory the next state, `(act, state)`.

        Args:
            obs, deterministic: As BaseActorCritic takes them.
            state: With a memory, what the step before has returned, or None where an episode
                begins.
        """
        if self.memory is None and state is None:
            return super().act(obs, deterministic)
        batch, single = self._batch(obs)
        distribution, _, *next_state = self._step(batch, *self._state(state, batch, single))
        noise = self.action_spec.draw_noise(self._rng, len(batch))
        act = mode(distribution) if deterministic else sample(distribution, noise)
        results = self.action_spec.to_env(act.numpy()), next_state[0].numpy()
        return tuple(x[0] for x in results) if single else results

    def _step(self, batch, *state):
        """Distribution and values of a step, and the next state if there is one."""
        return self.memory.step(batch, *state) if self.memory else self.pi_and_v(batch)

    def _state(self, state, batch, single):
        """What `_step` takes beside the batch."""
        if self.memory is not None:
            return [self.memory.state_for(state, len(batch), single)]
        if state is not None:
            raise UserError("state was given, and these networks have no memory; leave it out.")
        return []


def memory_arguments(memory: str | None, memory_size: int, seq_len: int) -> dict[str, Any]:
    """What must be known of a memory to make it again; nothing where there is none.

    Raises:
        UserError: An argument cannot be used, also where there is no memory.
    """
    known = dict(memory=memory, memory_size=memory_size)
    check_network_arguments(known | dict(seq_len=seq_len))
    return known if memory else {}


class CNNActorCritic(ActorCritic):
    """Convolutional networks for images, whose bytes they scale to 0 ... 1 themselves.

    Args:
        observation_space: A Box of uint8 `[height, width, channels]`, or
            `[channels, height, width]`.
        action_space: Box, Discrete, MultiDiscrete or MultiBinary.
        conv: The convolutions: 'nature' (Mnih et al. 2015), 'small' (four layers of 32 filters,
            3 x 3 with stride 2), 'impala' (Espeholt et al. 2018), or a list of (filters, kernel
            size, stride).
        hidden_sizes: Widths of the dense layers behind the convolutions.
        activation: Of all hidden layers, as in MLPActorCritic.
        shared: Whether policy and value function have all of these layers in common.
        log_std_init: The logarithm of the standard deviation with which Box actions are first
            drawn.
        memory, memory_size, seq_len: As in MLPActorCritic.
        background: The grey, between 0 and 1, that is subtracted from the scaled pixels. Where
            most pixels have the same colour, give it here: an input that is always there moves all
            weights of a filter together, which can kill it.
    """

    takes_init = True

    def __init__(
        self,
        observation_space: spaces.Box,
        action_space: spaces.Space,
        conv: str | Sequence[tuple[int, int, int]] = "nature",
        hidden_sizes: Sequence[int] = (512,),
        activation: str | Callable[[tf.Tensor], tf.Tensor] | None = "relu",
        shared: bool = True,
        log_std_init: float = -0.5,
        memory: str | None = None,
        memory_size: int = 64,
        seq_len: int = 25,
        background: float = 0.0,
    ):
        layers: dict[str, Any] = dict(
            conv=conv, hidden_sizes=hidden_sizes, activation=activation, background=background
        )
        arguments = dict(layers, shared=shared)
        check_network_arguments(arguments | dict(log_std_init=log_std_init))
        arguments |= memory_arguments(memory, memory_size, seq_len)

        def make_body():
            body = cnn(observation_space.shape, **layers)
            return Trunk(body, body.output_shape[-1], memory, memory_size) if memory else body

        def head(body, outputs):
            if memory:
                return RecurrentNet(body, outputs)
            return keras.Sequential([body, keras.layers.Dense(outputs)])

        body = make_body()
        v_body = body if shared else make_body()
        pi = policy_for(action_space, lambda outputs: head(body, outputs), log_std_init)
        super().__init__(pi, ValueFunction(head(v_body, 1)), action_space, arguments)
        self.memory = Memory(self.pi, self.v, seq_len) if memory else None

    @staticmethod
    def variable_shapes(
        observation_space: spaces.Box,
        action_space: spaces.Space,
        *,
        conv: str | Sequence[tuple[int, int, int]],
        hidden_sizes: Sequence[int],
        activation: str,
        shared: bool,
        memory: str | None = None,
        memory_size: int = 64,
        background: float = 0.0,
    ) -> list[tuple]:
        body, features = cnn_shapes(observation_space.shape, conv)

        def net_shapes(outputs):
            layers = mlp_shapes(features, hidden_sizes, outputs)
            return body + recurrent_shapes(layers, memory, memory_size)

        value = net_shapes(1)[-2:] if shared else net_shapes(1)  # only the output is its own
        return policy_shapes(action_space, net_shapes) + value

    def pi_and_v(self, obs: tf.Tensor) -> tuple[Distribution, tf.Tensor]:
        return both(self.pi, self.v, obs) if self.shared else super().pi_and_v(obs)


class MLPActorCritic(ActorCritic):
    """Multilayer perceptrons for the policy and the value function, usually separate ones.

    Args:
        observation_space: A Box of one dimension (`spaces.network_observation_space`).
        action_space: Box, Discrete, MultiDiscrete or MultiBinary.
        hidden_sizes: Widths of the hidden layers of both networks.
        activation: Of the hidden layers, one of `arguments.rules.ACTIVATIONS`, a class of such a
            name (`keras.layers.ReLU`, `torch.nn.Tanh`), or a function of a tensor.
        shared: Whether policy and value function have the hidden layers in common.
        log_std_init: The logarithm of the standard deviation with which Box actions are first
            drawn.
        memory: 'lstm' or 'gru': a layer of that kind behind the hidden layers of each network, so
            that it remembers the episode so far. None: it sees the present observation alone.
        memory_size: Width of that layer.
        seq_len: With a memory, how many steps a gradient goes back: batches are cut into segments
            of so many steps.
    """

    for_images = CNNActorCritic
    takes_init = True

    def __init__(
        self,
        observation_space: spaces.Box,
        action_space: spaces.Space,
        hidden_sizes: Sequence[int] = (64, 64),
        activation: str | Callable[[tf.Tensor], tf.Tensor] | None = "tanh",
        log_std_init: float = -0.5,
        shared: bool = False,
        memory: str | None = None,
        memory_size: int = 64,
        seq_len: int = 25,
    ):
        arguments = dict(hidden_sizes=hidden_sizes, activation=activation, shared=shared)
        check_network_arguments(arguments | dict(log_std_init=log_std_init))
        arguments |= memory_arguments(memory, memory_size, seq_len)
        obs_dim = vector_size(observation_space, type(self))

        def make_net(outputs):
            if memory is None:
                return mlp(obs_dim, hidden_sizes, outputs, activation)
            *widths, features = obs_dim, *hidden_sizes
            body = mlp(widths[0], widths[1:], features, activation, activation) if widths else None
            return RecurrentNet(Trunk(body, features, memory, memory_size), outputs)

        pi = policy_for(action_space, make_net, log_std_init)
        v = value_beside(pi) if shared else ValueFunction(make_net(1))
        super().__init__(pi, v, action_space, arguments)
        self.memory = Memory(self.pi, self.v, seq_len) if memory else None

    def pi_and_v(self, obs: tf.Tensor) -> tuple[Distribution, tf.Tensor]:
        return both(self.pi, self.v, obs) if self.shared else super().pi_and_v(obs)

    @staticmethod
    def variable_shapes(
        observation_space: spaces.Box,
        action_space: spaces.Space,
        *,
        hidden_sizes: Sequence[int],
        activation: str,
        shared: bool = False,
        memory: str | None = None,
        memory_size: int = 64,
    ) -> list[tuple]:
        def net_shapes(outputs):
            layers = mlp_shapes(observation_space.shape[0], hidden_sizes, outputs)
            return recurrent_shapes(layers, memory, memory_size)

        value = net_shapes(1)[-2:] if shared else net_shapes(1)  # only the output is its own
        return policy_shapes(action_space, net_shapes) + value
