"""That the units are called dead that are 0 everywhere, and no others."""

import dead_units
import gymnasium as gym
import numpy as np
import pytest

from spinup_tf2.core.nets.acting import layers_of
from spinup_tf2.core.nets.actor_critic import CNNActorCritic
from tests import images  # noqa: F401 (registers Lamp-v0)


@pytest.mark.parametrize(
    ("activation", "dead"), [("relu", [2 / 4, 2 / 6, 2 / 5]), ("elu", [0] * 3)]
)
def test_the_share_of_each_layer(activation, dead):
    """Two units of each layer never see enough; one of the first does in a part of one frame."""
    obs_space = gym.spaces.Box(0, 255, (36, 36, 2), np.uint8)
    layers = dict(conv=[[4, 8, 4], [6, 3, 1]], hidden_sizes=[5], activation=activation)
    ac = CNNActorCritic(obs_space, gym.spaces.Discrete(3), **layers)
    obs = np.zeros((7, 36, 36, 2), np.uint8)
    ac.step(obs[0])
    obs[3, 8:16, 8:16] = 255
    for layer in layers_of(ac.pi.net):
        if hasattr(layer, "kernel"):
            layer.kernel.assign(layer.kernel * 0)
            layer.bias.assign([-1.0, -1.0] + [1.0] * (layer.bias.shape[0] - 2))
    first = next(x for x in layers_of(ac.pi.net) if hasattr(x, "kernel"))
    first.kernel.assign(np.broadcast_to([0, 0, 1, 0], first.kernel.shape))
    first.bias.assign([-1.0, -1.0, -1.0, 1.0])
    assert dead_units.dead_shares(ac.pi.net, obs) == pytest.approx(dead)
