"""Actions that a behavior_policy gives take the place of the policy's."""

from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces
from spinup_tf2.core.demonstrations import Demonstrations
from spinup_tf2.core.vector_env import VectorEnv

from spinup_tf2.envs.spaces import action_spec
from spinup_tf2.errors import UserError
from tests.core.rollout.test_vector_env import Counter

SPACES = [
    spaces.Box(-1, 1, (2, 3)),
    spaces.Discrete(5, start=-2),
    spaces.MultiDiscrete([3, 2], start=[1, 5]),
    spaces.MultiDiscrete([[3, 2], [4, 4]]),
    spaces.MultiBinary((2, 2)),
]


def taken(space, behavior_policy, obs, act=None):
    """The actions for `obs` where the policy says `act`, or 0, for environments that begin."""
    spec = action_spec(space)
    act = np.zeros((len(obs), *spec.shape), spec.dtype) if act is None else act
    envs = SimpleNamespace(action_spec=spec, elapsed=np.zeros(len(obs), int))
    demonstrations = Demonstrations(lambda obs, noise, which: (act, None), behavior_policy, envs)
    return demonstrations(obs, None)[0]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_the_environment_gets_the_action_that_was_shown(space):
    space.seed(0)
    spec, shown = action_spec(space), [space.sample() for _ in range(3)]
    act = np.zeros((3, *spec.shape), spec.dtype)
    obs = np.arange(3, dtype=np.float32)[:, None]
    found = spec.to_env(taken(space, lambda t, obs: shown[int(obs[0])], obs, act))
    np.testing.assert_array_equal(found, shown)
    assert all(space.contains(a) for a in found)
    assert not act.any()  # the policy's own actions are not overwritten


def test_what_is_shown_to_the_behavior_policy_is_its_own():
    """It may change it; what is stored is what the environment showed."""
    obs = np.ones((2, 3), np.float32)
    taken(SPACES[1], lambda t, obs: obs.fill(9), obs)
    assert (obs == 1).all()


@pytest.mark.parametrize("vectorization", ["sync", "threads"])
def test_time_is_that_of_each_episode(vectorization):
    """Episodes of 4 steps, and one that is reset after 2. The policy acts where None is shown."""
    asked = []

    def act_and_value(obs, noise):
        return np.ones(len(obs), int), obs

    def behavior_policy(t, obs):
        asked.append((t, *obs))  # the observation is the time as well

    with VectorEnv(lambda: Counter(4), 2, vectorization=vectorization) as envs:
        act = Demonstrations(
            lambda obs, noise, which: (np.ones(len(obs), int), obs), behavior_policy, envs
        )
        for steps in (6, 5):
            transitions = [*envs.steps(act, envs.reset(), np.zeros((steps, 2)))]
            assert [(each.act.tolist(), each.val.tolist()) for each in transitions] == [
                ([1, 1], each.obs.tolist()) for each in transitions
            ]
    times = [0, 1, 2, 3, 0, 1, 0, 1, 2, 3, 0]
    assert asked == [(t, t) for t in times for _ in range(2)]


def test_an_action_of_another_shape_is_refused():
    with pytest.raises(UserError, match=r"shape \(1,\); the action space is Box"):
        taken(spaces.Box(-1, 1, (2,)), lambda t, obs: [0.0], np.zeros((1, 1)))


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
    with pytest.raises(UserError, match="the action space is"):
        taken(space, lambda t, obs: shown, np.zeros((1, 1)))


def test_bounds_of_a_box_are_no_limits():
    """The policy's own actions exceed them as well."""
    act = taken(spaces.Box(-1, 1, (1,)), lambda t, obs: [3.0], np.zeros((1, 1)))
    assert act == [[3.0]]
