"""Actions that a behavior_policy gives take the place of the policy's."""

import numpy as np
import pytest
from gymnasium import spaces

from spinup_tf2.core.rollout.demonstrations import Demonstrations
from spinup_tf2.envs.spaces import action_spec
from spinup_tf2.errors import UserError

SPACES = [
    spaces.Box(-1, 1, (2, 3)),
    spaces.Discrete(5, start=-2),
    spaces.MultiDiscrete([3, 2], start=[1, 5]),
    spaces.MultiDiscrete([[3, 2], [4, 4]]),
    spaces.MultiBinary((2, 2)),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_the_environment_gets_the_action_that_was_shown(space):
    space.seed(0)
    spec, shown = action_spec(space), [space.sample() for _ in range(3)]
    demonstrations = Demonstrations(lambda t, obs: shown[int(obs[0])], spec, 3)
    obs = np.arange(3, dtype=np.float32)[:, None]
    act = np.zeros((3, *spec.shape), spec.dtype)
    found = spec.to_env(demonstrations.replace(obs, act))
    np.testing.assert_array_equal(found, shown)
    assert all(space.contains(a) for a in found)
    assert not act.any()  # the policy's own actions are not overwritten


def test_what_is_shown_to_the_behavior_policy_is_its_own():
    """It may change it; what is stored is what the environment showed."""
    demonstrations = Demonstrations(lambda t, obs: obs.fill(9), action_spec(SPACES[1]), 2)
    obs = np.ones((2, 3), np.float32)
    demonstrations.replace(obs, np.zeros(2, np.int32))
    assert (obs == 1).all()


def test_time_is_that_of_each_episode():
    asked = []
    demonstrations = Demonstrations(lambda t, obs: asked.append(t), action_spec(SPACES[1]), 2)
    obs, act = np.zeros((2, 1), np.float32), np.array([3, 4])
    for ends in ([False, False], [False, True], [True, False], [False, False]):
        np.testing.assert_array_equal(demonstrations.replace(obs, act), act)  # None: as it was
        demonstrations.step(np.array(ends))
    assert asked == [0, 0, 1, 1, 2, 0, 0, 1]


def test_an_action_of_another_shape_is_refused():
    demonstrations = Demonstrations(lambda t, obs: [0.0], action_spec(spaces.Box(-1, 1, (2,))), 1)
    with pytest.raises(UserError, match=r"shape \(1,\); the action space is Box"):
        demonstrations.replace(np.zeros((1, 1)), np.zeros((1, 2), np.float32))


@pytest.mark.parametrize(
    ("space", "shown"),
    [
        (spaces.Discrete(5, start=-2), 3),
        (spaces.Discrete(5), 1.5),
        (spaces.MultiDiscrete([3, 2]), [2, 2]),
        (spaces.Box(-1, 1, (2,)), [0.0, np.nan]),
    ],
    ids=["no such choice", "no choice", "one choice too high", "not finite"],
)
def test_what_is_no_action_is_refused(space, shown):
    spec = action_spec(space)
    demonstrations = Demonstrations(lambda t, obs: shown, spec, 1)
    with pytest.raises(UserError, match="the action space is"):
        demonstrations.replace(np.zeros((1, 1)), np.zeros((1, *spec.shape), spec.dtype))


def test_bounds_of_a_box_are_no_limits():
    """The policy's own actions exceed them as well."""
    demonstrations = Demonstrations(lambda t, obs: [3.0], action_spec(spaces.Box(-1, 1, (1,))), 1)
    assert demonstrations.replace(np.zeros((1, 1)), np.zeros((1, 1), np.float32)) == [[3.0]]
