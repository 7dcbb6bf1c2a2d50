"""The actor-critics of the on-policy algorithms, and the base class of all actor-critics."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from spinup_tf2.arguments.checks import check_network_arguments
from spinup_tf2.core.nets.distributions import Distribution, mode, sample
from spinup_tf2.core.nets.heads import ValueFunction, both, policy_for, value_beside
from spinup_tf2.core.nets.layers import Activation, cnn, count_variables, mlp
from spinup_tf2.core.nets.recurrent import Memory, RecurrentNet, Trunk, recurrent_mlp
from spinup_tf2.envs.spaces import ActionSpec, action_spec, network_observation_space, to_network

# ------------------------------------------------------------------------------- the base class


class BaseActorCritic:
    """A policy `pi` and its critics; acts on observations given as NumPy arrays.

    The class attributes below are not inherited: because a subclass may have other networks, it
    starts from the defaults and sets its own.

    Attributes:
        for_images: The class that takes its place if observations are images.
        takes_init: Whether the algorithm initializes the weights even if `init` is None.
        jit_compile: Whether XLA can compile the networks.
        env_observation_space: The environment's own observation space, before it is flattened; None
            until a run begins.
        memory: The recurrent memory, if there is one: then the networks take `Sequences` instead of
            observations. None otherwise.

    Args:
        pi: The policy.
        action_spec: Description of the actions.
        arguments: The constructor arguments, apart from the spaces, from which saved agents are
            rebuilt; None if that is not possible.
    """

    for_images: ClassVar[type | None] = None
    takes_init: ClassVar[bool] = False
    jit_compile: ClassVar[bool] = False

    env_observation_space: spaces.Space | None = None
    memory: Memory | None = None

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        for name in ("for_images", "takes_init", "jit_compile"):
            if name not in vars(cls):
                setattr(cls, name, getattr(BaseActorCritic, name))

    def __init__(self, pi: keras.Model, action_spec: ActionSpec, arguments: dict | None):
        self.pi = pi
        self.action_spec = action_spec
        self.arguments = arguments
        self._described = self._parts()
        # Seeded by keras.utils.set_random_seed, like the networks.
        self._rng = np.random.default_rng(np.random.randint(2**31))  # noqa: NPY002

    @property
    def networks(self) -> list[keras.Model]:
        """The policy, followed by its critics."""
        raise NotImplementedError

    def outputs(self, obs: tf.Tensor, noise: tf.Tensor) -> dict[str, tf.Tensor]:
        """The function of tensors that is saved as the actor-critic's SavedModel."""
        raise NotImplementedError

    def _parts(self):
        """Return what `arguments` describe: the networks, and the activations of their layers."""
        layers = [layer for net in self.networks for layer in net._flatten_layers()]
        return self.networks, [getattr(each, "activation", None) for each in layers]

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """The parameters of all networks, each once."""
        return unique(each for net in self.networks for each in net.trainable_variables)

    @property
    def variables(self) -> list[keras.Variable]:
        """All variables of all networks, each once."""
        return unique(each for net in self.networks for each in net.variables)

    @property
    def recipe(self) -> tuple[Callable[..., "BaseActorCritic"], dict | None]:
        """What has made these networks, and its arguments; None if a part has been replaced."""
        return type(self), self.arguments if self._parts() == self._described else None

    def __reduce__(self) -> tuple:
        """Copy and pickle networks by what made them, and their weights; Keras models cannot be."""
        make, arguments = self.recipe
        if arguments is None or self.env_observation_space is None:
            raise TypeError(
                f"This {type(self).__name__} cannot be pickled or copied: either no run has begun "
                "with it, or it has networks that its arguments do not describe. Return weights "
                "instead: [variable.numpy() for variable in ac.variables]."
            )
        spaces = self.env_observation_space, self.action_spec.space
        weights = [variable.numpy() for variable in self.variables]
        return _made_again, (make, *spaces, arguments, weights, self._rng)

    def set_weights(self, values: Iterable[Any]) -> None:
        """Assign values to all `variables`, in order."""
        for variable, value in zip(self.variables, values, strict=True):
            variable.assign(value)

    def act(self, obs: Any, deterministic: bool = False) -> np.ndarray:
        """Return an action for the environment's `step`.

        Args:
            obs: An observation as the environment returns it; or several as the networks see them,
                `[batch, obs_dim]` or images, for actions `[batch, *act_shape]`.
            deterministic: Whether to take the mode of the policy instead of a sample.
        """
        batch, single = self._batch(obs)
        act = self._choose(self.pi(batch), len(batch), deterministic)
        act = self.action_spec.to_env(act.numpy())
        return act[0] if single else act

    def _choose(self, distribution, n, deterministic=False):
        """Return the mode or a sample of a distribution for n observations."""
        if deterministic:
            return mode(distribution)
        return sample(distribution, self.action_spec.draw_noise(self._rng, n))

    def _batch(self, obs):
        """Return observations as the networks see them, `[batch, ...]`, and whether it was one."""
        space = self.env_observation_space
        whole = isinstance(obs, Mapping) or (isinstance(space, spaces.Tuple) and type(obs) is tuple)
        if space is not None and (whole or np.shape(obs) == space.shape):
            return to_network(space, obs)[None], True
        obs = np.asarray(obs)
        if obs.dtype != np.uint8 or obs.ndim < 3:  # not images
            obs = obs.astype(np.float32)
        return (obs[None], True) if obs.ndim in (1, 3) else (obs, False)


def _made_again(make, observation_space, action_space, arguments, weights, rng):
    ac = make(network_observation_space(observation_space), action_space, **arguments)
    ac.set_weights(weights)
    ac.env_observation_space, ac._rng = observation_space, rng
    return ac


def unique(variables: Iterable[keras.Variable]) -> list[keras.Variable]:
    """Return the variables without duplicates, in the order of their first occurrence."""
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
    previous step returned, or None at the beginning of an episode, and also return the next one:
    `(act, val, logp, state)` and `(act, state)`.

    To use networks of your own, create two Keras models that fulfill the first two of these
    contracts and return `ActorCritic(pi, v, action_space)` from a function
    `actor_critic(observation_space, action_space, **ac_kwargs)`. If both begin with the same
    layers, override `pi_and_v`, so that these are computed only once.
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
        """Whether policy and value function have parameters in common, and are trained together."""
        separate = len(self.pi.trainable_variables) + len(self.v.trainable_variables)
        return len(self.trainable_variables) < separate

    def pi_and_v(self, obs: tf.Tensor) -> tuple[Distribution, tf.Tensor]:
        """Return `pi(obs)` and `v(obs)`."""
        return self.pi(obs), self.v(obs)

    def sizes(self) -> dict[str, int]:
        """Return the number of parameters of each network."""
        return dict(pi=count_variables(self.pi), v=count_variables(self.v))

    def outputs(self, obs: tf.Tensor, noise: tf.Tensor, *state: tf.Tensor) -> dict[str, tf.Tensor]:
        """The function of tensors that is saved as the actor-critic's SavedModel."""
        pi, val, *after = self.memory.step(obs, *state) if self.memory else self.pi_and_v(obs)
        act = sample(pi, noise)
        outputs = dict(pi=act, pi_logp=pi.log_prob(act), mu=mode(pi), v=val)
        return outputs | dict(zip(("state",), after, strict=False))

    def log_prob(self, obs: tf.Tensor, act: tf.Tensor, *state: tf.Tensor) -> tf.Tensor:
        """Return the log-probabilities `[batch]` of actions, as tensors."""
        pi = self.memory.step(obs, *state)[0] if self.memory else self.pi(obs)
        return pi.log_prob(act)

    def step(self, obs: Any, state: np.ndarray | None = None) -> tuple[np.ndarray, ...]:
        """Sample an action, as `act` does; return it with V(obs) and its log-probability."""
        batch, single = self._batch(obs)
        pi, val, *after = self._step(batch, state)
        act = self._choose(pi, len(batch))
        a, logp = self.action_spec.to_env(act.numpy()), pi.log_prob(act)
        results = (a, *(x.numpy() for x in (val, logp, *after)))
        return tuple(x[0] for x in results) if single else results

    def act(self, obs: Any, deterministic: bool = False, state: np.ndarray | None = None) -> Any:
        """Return an action, or with a memory `(act, state)`: the action and the next state.

        Args:
            obs, deterministic: See BaseActorCritic.
            state: With a memory, the state that the previous step returned, or None at the
                beginning of an episode.
        """
        if self.memory is None:
            return super().act(obs, deterministic)
        batch, single = self._batch(obs)
        pi, _, after = self._step(batch, state)
        act = self._choose(pi, len(batch), deterministic)
        results = self.action_spec.to_env(act.numpy()), after.numpy()
        return tuple(x[0] for x in results) if single else results

    def _step(self, batch, state):
        """Return pi(batch) and v(batch), and with a memory the next state."""
        if self.memory is None:
            return self.pi_and_v(batch)
        return self.memory.step(batch, self.memory.state_for(state, len(batch)))


class _OwnActorCritic(ActorCritic):
    """Heads on networks of this package: they may have a memory, or hidden layers in common."""

    def __init__(self, pi, v, action_space, arguments, seq_len):
        super().__init__(pi, v, action_space, arguments)
        if "memory" in arguments:
            self.memory = Memory(pi, v, seq_len)

    def pi_and_v(self, obs: tf.Tensor) -> tuple[Distribution, tf.Tensor]:
        return both(self.pi, self.v, obs) if self.shared else super().pi_and_v(obs)


class CNNActorCritic(_OwnActorCritic):
    """Convolutional networks for images; they scale the bytes to 0 ... 1 themselves.

    Args:
        observation_space: A Box of uint8 or bool, `[height, width, channels]` or
            `[channels, height, width]`.
        action_space: Box, Discrete, MultiDiscrete or MultiBinary.
        conv: The convolutions: 'nature' (Mnih et al. 2015), 'small' (four layers of 32 filters,
            3 x 3 with stride 2), 'minatar' (one layer of 16 filters, 3 x 3; Young and Tian 2019),
            'impala' (Espeholt et al. 2018), or a list of (filters, kernel size, stride). None
            means 'nature', or 'minatar' for images of less than 36 x 36 pixels.
        hidden_sizes: Widths of the dense layers after the convolutions.
        activation: Activation of all hidden layers, as in MLPActorCritic.
        shared: Whether policy and value function have all of these layers in common.
        log_std_init: Initial logarithm of the standard deviation of Box actions.
        memory, memory_size, seq_len: As in MLPActorCritic.
        background: Gray value, between 0 and 1, that is subtracted from the scaled pixels. If most
            pixels have the same color, give it here: a constant input moves all weights of a filter
            together, which can kill it.
    """

    takes_init = True

    def __init__(
        self,
        observation_space: spaces.Box,
        action_space: spaces.Space,
        conv: str | Sequence[tuple[int, int, int]] | None = None,
        hidden_sizes: Sequence[int] = (512,),
        activation: Activation = "relu",
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
        of_memory = dict(memory=memory, memory_size=memory_size)
        check_network_arguments(
            dict(arguments, **of_memory, log_std_init=log_std_init, seq_len=seq_len)
        )
        arguments |= of_memory if memory else {}

        def make_body():
            body = cnn(observation_space.shape, **layers, of_bytes=observation_space.dtype != bool)
            return Trunk(body, body.output_shape[-1], memory, memory_size) if memory else body

        def head(body, outputs):
            if memory:
                return RecurrentNet(body, outputs)
            return keras.Sequential([body, keras.layers.Dense(outputs)])

        body = make_body()
        v_body = body if shared else make_body()
        pi = policy_for(action_space, lambda outputs: head(body, outputs), log_std_init)
        super().__init__(pi, ValueFunction(head(v_body, 1)), action_space, arguments, seq_len)


class MLPActorCritic(_OwnActorCritic):
    """Multilayer perceptrons for the policy and the value function, usually separate ones.

    Args:
        observation_space: A Box of one dimension (`spaces.network_observation_space`).
        action_space: Box, Discrete, MultiDiscrete or MultiBinary.
        hidden_sizes: Widths of the hidden layers of both networks.
        activation: Activation of the hidden layers: one of `arguments.rules.ACTIVATIONS`, a class
            of such a name (`keras.layers.ReLU`, `torch.nn.Tanh`), or a function of a tensor.
        log_std_init: Initial logarithm of the standard deviation of Box actions.
        shared: Whether policy and value function have the hidden layers in common.
        memory: 'lstm' or 'gru' for a recurrent layer of that kind after the hidden layers of each
            network, so that it remembers the episode so far. None: the networks see only the
            current observation.
        memory_size: Width of the recurrent layer.
        seq_len: With a memory, the number of steps over which gradients are backpropagated: batches
            are cut into segments of this length.
    """

    for_images = CNNActorCritic
    takes_init = True

    def __init__(
        self,
        observation_space: spaces.Box,
        action_space: spaces.Space,
        hidden_sizes: Sequence[int] = (64, 64),
        activation: Activation = "tanh",
        log_std_init: float = -0.5,
        shared: bool = False,
        memory: str | None = None,
        memory_size: int = 64,
        seq_len: int = 25,
    ):
        arguments: dict[str, Any] = dict(
            hidden_sizes=hidden_sizes, activation=activation, shared=shared
        )
        of_memory = dict(memory=memory, memory_size=memory_size)
        check_network_arguments(
            dict(arguments, **of_memory, log_std_init=log_std_init, seq_len=seq_len)
        )
        arguments |= of_memory if memory else {}
        (obs_dim,) = observation_space.shape  # vectors; CNNActorCritic is for images

        def make_net(outputs):
            layers = obs_dim, hidden_sizes, outputs, activation
            return recurrent_mlp(*layers, memory, memory_size) if memory else mlp(*layers)

        pi = policy_for(action_space, make_net, log_std_init)
        v = value_beside(pi) if shared else ValueFunction(make_net(1))
        super().__init__(pi, v, action_space, arguments, seq_len)
