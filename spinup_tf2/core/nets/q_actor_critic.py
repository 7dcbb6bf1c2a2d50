"""The actor-critics of the off-policy algorithms: a policy and Q-functions.

Policies act in [-1, 1]; actions are rescaled to the environment's own bounds
(`spaces.bounded_action_spec`). So all dimensions have the same scale for the networks, whatever the
bounds, and log-probabilities are exact: they are those of actions in [-1, 1].
"""

from collections.abc import Sequence
from functools import partial

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from spinup_tf2.arguments.checks import check_network_arguments
from spinup_tf2.core.nets.actor_critic import BaseActorCritic, unique
from spinup_tf2.core.nets.distributions import mode, sample
from spinup_tf2.core.nets.heads import (
    DeterministicPolicy,
    GreedyPolicy,
    QFunction,
    SquashedGaussianPolicy,
    policy_for,
)
from spinup_tf2.core.nets.layers import Activation, cnn, count_variables, mlp, tanh
from spinup_tf2.envs.spaces import bounded_or_discrete_action_spec


class QActorCritic(BaseActorCritic):
    """A policy `pi` and one or more Q-functions `qs`: what the off-policy algorithms train.

    ====================  ======================================================================
    `pi(obs)`             for float32 observations `[batch, obs_dim]` or images, uint8
                          `[batch, height, width, channels]`: DDPG and TD3, actions
                          `[batch, act_dim]` in [-1, 1]; SAC, a distribution over these or, where
                          the action is discrete, over its values; DQN, actions `[batch]`
    `q_values(obs, act)`  a list of values `[batch]`, one of each Q-function; where the action is
                          discrete `q_values(obs)`, of `[batch, num_actions]`
    `act(obs)`            the action, between the environment's bounds, for an observation of the
                          environment (NumPy); `deterministic=True` gives the mode
    ====================  ======================================================================

    To use networks of your own, create Keras models `pi(obs)` and `q(obs, act)` that fulfill these
    contracts and return `QActorCritic(pi, [q], action_space)` (TD3 and SAC: `[q1, q2]`; DQN:
    `GreedyPolicy(q)` for pi) from a function `actor_critic(observation_space, action_space,
    **ac_kwargs)`. It is called twice, the second time for the target networks. If the Q-functions
    begin with the same layers, override `q_values`, so that these are computed only once.
    """

    shared = False  # policy and Q-functions are never trained together

    def __init__(
        self,
        pi: keras.Model,
        qs: Sequence[keras.Model],
        action_space: spaces.Space,
        arguments: dict | None = None,
    ):
        self.qs = list(qs)
        super().__init__(pi, bounded_or_discrete_action_spec(action_space), arguments)

    @property
    def networks(self) -> list[keras.Model]:
        """The policy, unless it only follows the Q-function (GreedyPolicy), and the Q-functions."""
        return [*self.qs] if isinstance(self.pi, GreedyPolicy) else [self.pi, *self.qs]

    def q_values(self, *inputs: tf.Tensor) -> list[tf.Tensor]:
        """Return the values of each Q-function."""
        return [q(*inputs) for q in self.qs]

    @property
    def q_names(self) -> list[str]:
        """Names of the Q-functions, q or q1 and q2."""
        return ["q"] if len(self.qs) == 1 else [f"q{i + 1}" for i in range(len(self.qs))]

    @property
    def q_variables(self) -> list[keras.Variable]:
        """The parameters of all Q-functions, each once."""
        return unique(variable for q in self.qs for variable in q.trainable_variables)

    def sizes(self) -> dict[str, int]:
        """Return the number of parameters of each network, and of all."""
        names = ["pi", *self.q_names][-len(self.networks) :]
        models = zip(names, self.networks, strict=True)
        sizes = {name: count_variables(model) for name, model in models}
        return sizes | dict(total=count_variables(self))

    def outputs(self, obs: tf.Tensor, noise: tf.Tensor) -> dict[str, tf.Tensor]:
        """The function of tensors that is saved as the policy's SavedModel."""
        pi = self.pi(obs)
        return {"pi": sample(pi, noise), "mu": mode(pi)}


class CNNQActorCritic(QActorCritic):
    """Multilayer perceptrons on convolutions, one stack for the policy and one for all Q-functions.

    Args:
        observation_space: A Box of uint8 or bool, `[height, width, channels]` or
            `[channels, height, width]`.
        action_space: A Box with finite bounds, or Discrete.
        conv: The convolutions: 'nature' (Mnih et al. 2015), 'small' (four layers of 32 filters,
            3 x 3 with stride 2), 'minatar' (one layer of 16 filters, 3 x 3; Young and Tian 2019),
            'impala' (Espeholt et al. 2018), or a list of (filters, kernel size, stride). None
            means 'nature', or 'minatar' for images of less than 36 x 36 pixels.
        hidden_sizes: Widths of the dense layers after the convolutions, in each network.
        activation, stochastic, num_q: As in MLPQActorCritic.
        background: Gray value that is subtracted from the scaled pixels, as in CNNActorCritic.
    """

    takes_init = True

    def __init__(
        self,
        observation_space: spaces.Box,
        action_space: spaces.Space,
        conv: str | Sequence[tuple[int, int, int]] | None = None,
        hidden_sizes: Sequence[int] = (256, 256),
        activation: Activation = "relu",
        background: float = 0.0,
        *,
        stochastic: bool,
        num_q: int,
    ):
        layers = dict(hidden_sizes=hidden_sizes, activation=activation)
        images = dict(conv=conv, background=background)
        check_network_arguments(layers | images)
        of_bytes = observation_space.dtype != bool
        encoder = partial(cnn, observation_space.shape, conv, (), activation, background, of_bytes)
        self.q_encoder = encoder()
        features = self.q_encoder.output_shape[-1]

        def pi_net(*output):
            return keras.Sequential([encoder(), _mlp(features, layers, *output)])

        pi = _policy_for(action_space, stochastic, pi_net)
        q_nets = [_q_net(features, action_space, layers) for _ in range(num_q)]
        qs = [QFunction(net, self.q_encoder) for net in q_nets]
        pi = pi or GreedyPolicy(keras.Sequential([self.q_encoder, q_nets[0]]))
        arguments = dict(layers, **images, stochastic=stochastic, num_q=num_q)
        super().__init__(pi, qs, action_space, arguments)

    def q_values(self, obs: tf.Tensor, *act: tf.Tensor) -> list[tf.Tensor]:
        features = self.q_encoder(obs)
        return [q.of_features(features, *act) for q in self.qs]


class MLPQActorCritic(QActorCritic):
    """Separate multilayer perceptrons for the policy and each Q-function.

    Args:
        observation_space: A Box of one dimension (`spaces.network_observation_space`).
        action_space: A Box with finite bounds, or Discrete.
        hidden_sizes: Widths of the hidden layers of all networks.
        activation: Activation of the hidden layers: one of `arguments.rules.ACTIVATIONS`, a class
            of such a name (`keras.layers.ReLU`, `torch.nn.Tanh`), or a function of a tensor.
        stochastic: Whether the policy is a squashed Gaussian (for Discrete: categorical) rather
            than deterministic (for Discrete: greedy).
        num_q: The number of Q-functions.
    """

    for_images = CNNQActorCritic
    takes_init = True
    jit_compile = True

    def __init__(
        self,
        observation_space: spaces.Box,
        action_space: spaces.Space,
        hidden_sizes: Sequence[int] = (256, 256),
        activation: Activation = "relu",
        *,
        stochastic: bool,
        num_q: int,
    ):
        layers = dict(hidden_sizes=hidden_sizes, activation=activation)
        check_network_arguments(layers)
        (obs_dim,) = observation_space.shape  # vectors; CNNQActorCritic is for images
        pi = _policy_for(action_space, stochastic, lambda *output: _mlp(obs_dim, layers, *output))
        qs = [QFunction(_q_net(obs_dim, action_space, layers)) for _ in range(num_q)]
        pi = pi or GreedyPolicy(qs[0].net)
        arguments = dict(layers, stochastic=stochastic, num_q=num_q)
        super().__init__(pi, qs, action_space, arguments)


def _mlp(inputs, layers, outputs, output_activation=None):
    return mlp(inputs, output_dim=outputs, output_activation=output_activation, **layers)


def _policy_for(action_space, stochastic, make_net):
    """Return the policy for an action space, with `make_net(outputs, output_activation)`.

    None: it has no network of its own, but takes the action of the largest Q-value.
    """
    if isinstance(action_space, spaces.Discrete):
        return policy_for(action_space, make_net) if stochastic else None
    act_dim = int(np.prod(action_space.shape))
    if stochastic:
        return SquashedGaussianPolicy(make_net(2 * act_dim))
    return DeterministicPolicy(make_net(act_dim, tanh))


def _q_net(features, action_space, layers):
    if isinstance(action_space, spaces.Discrete):
        return _mlp(features, layers, int(action_space.n))
    return _mlp(features + int(np.prod(action_space.shape)), layers, 1)
