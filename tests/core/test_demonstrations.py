"""Actions that a behavior_policy gives take the place of the policy's."""

from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces

from spinup_tf2.core.on_policy import Demonstrations
from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.envs.spaces import action_spec
from spinup_tf2.errors import UserError
from tests.core.test_vector_env import Counter

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
    indices = range(5, 5 + len(obs))
    envs = SimpleNamespace(action_spec=spec, elapsed=np.zeros(len(obs), int), indices=indices)
    demonstrations = Demonstrations(lambda obs, noise: (act, {}), behavior_policy, envs)
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


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_it_may_return_the_policys_own_action(space):
    """Its copy, in the form that the environment takes."""
    space.seed(0)
    spec, seen = action_spec(space), []
    act = np.stack([spec.from_env(space.sample()) for _ in range(3)])

    def behavior_policy(t, obs, own):
        seen.append(np.copy(own))
        assert space.contains(own)
        return own

    found = taken(space, behavior_policy, np.zeros((3, 1)), act)
    np.testing.assert_array_equal(found, act)
    np.testing.assert_array_equal(seen, spec.to_env(act))


def test_it_gets_as_much_as_it_takes():
    obs, act, asked = np.array([[1.0], [2.0]]), np.array([3, 4]), []
    forms = [
        lambda t, obs, mine=None: asked.append((t, *obs, mine)),
        lambda *given: asked.append(given[2:]),
        lambda t, obs, act: asked.append((act,)),
        lambda t, obs, act, env: asked.append((act, env)),
    ]
    for form in forms:
        taken(SPACES[1], form, obs, act)
    with_start = [(1,), (2,)]  # the space starts at -2
    assert asked == [(0, 1, None), (0, 2, None), (), (), *with_start, (1, 5), (2, 6)]


def test_time_is_that_of_each_episode():
    """Episodes of 4 steps, and one that is reset after 2. The policy acts where None is shown."""
    asked = []

    def policy(obs, noise):
        return np.ones(len(obs), int), dict(val=obs)

    def behavior_policy(t, obs):
        asked.append((t, *obs))  # the observation is the time as well

    with VectorEnv(lambda: Counter(4), 2) as envs:
        actor = Demonstrations(policy, behavior_policy, envs)
        for steps in (6, 5):
            for obs, act, extras, _ in envs.steps(actor, envs.reset(), np.zeros((steps, 2))):
                assert act.tolist() == [1, 1]
                np.testing.assert_array_equal(extras["val"], obs)
    times = [0, 1, 2, 3, 0, 1, 0, 1, 2, 3, 0]
    assert asked == [(t, t) for t in times for _ in range(2)]


@pytest.mark.parametrize(
    ("space", "shown"),
    [
        (spaces.Discrete(5, start=-2), 3),
        (spaces.Discrete(5), 1.5),
        (spaces.MultiDiscrete([3, 2]), [2, 2]),
        (spaces.Box(-1, 1, (2,)), [0.0, np.nan]),
        (spaces.Box(-1, 1, (2,)), [0.0]),
    ],
)
def test_what_is_no_action_is_refused(space, shown):
    with pytest.raises(UserError, match="the action space is"):
        taken(space, lambda t, obs: shown, np.zeros((1, 1)))
