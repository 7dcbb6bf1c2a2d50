"""Networks that are built again from a run's weights, as the default ones are."""

from spinup_tf2.core.nets.actor_critic import ActorCritic
from spinup_tf2.core.nets.heads import ValueFunction, policy_for
from spinup_tf2.core.nets.layers import mlp


class WideActorCritic(ActorCritic):
    """One hidden layer for the policy, and one that is twice as wide for the values."""

    def __init__(self, observation_space, action_space, width=32):
        (obs_dim,) = observation_space.shape
        pi = policy_for(action_space, lambda outputs: mlp(obs_dim, (width,), outputs))
        v = ValueFunction(mlp(obs_dim, (2 * width,), 1))
        super().__init__(pi, v, action_space, arguments=dict(width=width))
