"""Environments that return what they must not: one sentence says which, what, and what to do."""

import re
from collections import namedtuple
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.core.workers.faults import EnvironmentFailure

from spinup_tf2.envs.spaces import action_spec, bounded_action_spec
from spinup_tf2.errors import UserError

BOX = spaces.Box(-np.inf, np.inf, (3,), np.float32)
PARTS = spaces.Dict(a=BOX, b=spaces.Discrete(4))
IMAGE = spaces.Box(0, 255, (40, 40, 1), np.uint8)


class Tensor:
    """A number as an array of another library."""

    def __init__(self, number):
        self.number = number

    def __array__(self, dtype=None, copy=None):
        return np.array(self.number, dtype)

    def __float__(self):
        return float(self.number)

    def __bool__(self):
        return bool(self.number)


class Wrong(gym.Env):
    """Its second step returns what it is told to, by the names of what a step returns."""

    action_space = spaces.Discrete(2)

    def __init__(self, space=BOX, **wrong):
        self.observation_space, self.wrong = space, wrong
        self.steps = 0

    def _obs(self):
        space = self.observation_space
        return (
            np.zeros(space.shape, space.dtype) if isinstance(space, spaces.Box) else space.sample()
        )

    def reset(self, *, seed=None, options=None):
        return self.wrong.get("first", (self._obs(), {}))

    def step(self, action):
        self.steps += 1
        right = dict(obs=self._obs(), rew=1.0, terminated=False, truncated=False, info={})
        return tuple((right | self.wrong if self.steps == 2 else right).values())


class Old(Wrong):
    """As gym had it: step returns four values. kind: what is old beside."""

    def __init__(self, kind):
        super().__init__()
        if kind != "step":
            self.reset = {"reset": self.reset_to_obs, "seed": self.reset_without_seed}[kind]

    def reset_to_obs(self, *, seed=None, options=None):
        return self._obs()

    def reset_without_seed(self):
        return self._obs()

    def step(self, action):
        return self._obs(), 1.0, False, {}


def told(env_fn, vectorization="sync", **kwargs):
    """What a failure says, without the name of the environment."""

    def play():
        with VectorEnv(env_fn, 2, vectorization=vectorization, **kwargs) as envs:
            envs.reset()
            for _ in range(2):
                envs.step(np.zeros(2, int))

    with pytest.raises(EnvironmentFailure) as failed:
        play()
    message = str(failed.value)
    name = r"environment [01] \((Wrong|Old|Registered-v0), rank 0 on [^)]*\) (took|returned) "
    assert re.match(name, message)
    assert "gymnasium.utils.env_checker.check_env" in message
    assert "env_retries" not in message
    assert "\n" not in message
    return message[message.index(") ") + 2 :]


@pytest.mark.parametrize(
    ("space", "wrong", "expected"),
    [
        (
            BOX,
            dict(obs=np.zeros(2)),
            "as observation an array of shape (2,) and dtype float64 in step 2",
        ),
        (
            BOX,
            dict(obs=None),
            "as observation None in step 2 of its episode; an element of its obs",
        ),
        (BOX, dict(obs=[[1], [1, 2]]), "as observation [[1], [1, 2]] in"),
        (BOX, dict(obs=np.zeros(3, complex)), "of shape (3,) and dtype complex128 in"),
        (BOX, dict(obs=["a", "b", "c"]), "as observation ['a', 'b', 'c'] in"),
        (BOX, dict(first=(None, {})), "as observation None when it was reset; an element of"),
        (IMAGE, dict(obs=np.zeros((40, 40, 1))), "of shape (40, 40, 1) and dtype float64 in"),
        (
            spaces.Discrete(4),
            dict(obs=-1),
            "as observation -1 in step 2 of its episode; an element",
        ),
        (spaces.Discrete(4), dict(obs=np.int64(4)), "as observation np.int64(4) in"),
        (spaces.Discrete(4), dict(obs=1.5), "as observation 1.5 in"),
        (spaces.MultiDiscrete([2, 3]), dict(obs=np.array([0, -1])), "of shape (2,) and dtype int"),
        (PARTS, dict(obs={"a": np.zeros(3)}), "as observation {'a': array([0., 0., 0.])} in"),
        (PARTS, dict(obs={"a": np.zeros(3), "b": -1}), "'b': -1} in"),
        (PARTS, dict(obs=None), "as observation None in"),
        (BOX, dict(rew=np.ones(1)), "as reward [1.0], an array of shape (1,) and dtype float64 in"),
        (BOX, dict(rew=1j), "as reward 1j in step 2 of its episode; a number is expected."),
        (BOX, dict(rew="1"), "as reward '1' in"),
        (BOX, dict(rew=None), "as reward None in"),
        (BOX, dict(terminated=None), "as terminated None in step 2 of its episode; True or False"),
        (BOX, dict(truncated=0), "as truncated 0 in"),
        (BOX, dict(info=None), "as info None in step 2 of its episode; a dict is expected."),
        (
            BOX,
            dict(terminated=True, info={"is_success": np.nan}),
            "as is_success nan in step 2",
        ),
        (BOX, dict(terminated=True, info={"is_success": None}), "is_success None in"),
        (
            BOX,
            dict(terminated=True, info={"is_success": "False"}),
            "'False' in step 2 of its episode; True or False",
        ),
        (
            BOX,
            dict(terminated=True, info={"is_success": np.array([True, False])}),
            "is_success an array of shape (2,)",
        ),
        (BOX, dict(first=(np.zeros(3), None)), "as info None when it was reset"),
        (BOX, dict(sixth=0), "6 values in step 2 of its episode; five are expected: observation,"),
    ],
)
def test_what_must_not_be_is_named(space, wrong, expected):
    message = told(partial(Wrong, space, **wrong), env_retries=3)
    assert expected in message
    if "obs" in wrong:
        assert str(space) in message


@pytest.mark.parametrize("vectorization", ["async", "threads"])
def test_it_is_the_same_in_processes_and_threads(vectorization, capfd):
    for wrong in (dict(obs=None), dict(rew=np.ones(1)), dict(info=None)):
        make = partial(Wrong, **wrong)
        assert told(make, vectorization, env_retries=3) == told(make, env_retries=3)
    assert capfd.readouterr().err == ""  # nothing was tried again


@pytest.mark.parametrize("kind", ["step", "reset", "seed"])
@pytest.mark.parametrize("wrapped", [False, True])
def test_an_environment_of_gym_is_told_what_it_is(kind, wrapped):
    make = partial(Old, kind)
    if wrapped:
        make = lambda: gym.wrappers.TimeLimit(Old(kind), 9)  # noqa: E731 (it unpacks five values)
    message = told(make, env_retries=3)
    assert "written for gym, gymnasium's predecessor: upgrade it to reset(seed, options)" in message
    assert "https://shimmy.farama.org" in message
    given = {
        "step": "returned 4 values in step 1 of its episode; five are expected",
        "reset": "an array of shape (3,) and dtype float32 when it was reset; a pair is expected",
        "seed": "took no seed and no options when it was reset",
    }
    assert given[kind] in message


def test_a_mistake_of_another_kind_is_not_taken_for_gym():
    class Broken(gym.Wrapper):
        def reset(self, *, seed=None, options=None):
            return self.env.reset() + None

    with (
        pytest.raises(
            EnvironmentFailure, match=r"raised TypeError: unsupported operand .* when it was reset"
        ),
        VectorEnv(lambda: Broken(Old("seed"))) as envs,
    ):
        envs.reset()


@pytest.mark.parametrize("wrong", [dict(info=None), dict(obs=None), dict(rew="1")])
@pytest.mark.filterwarnings("ignore")
def test_gymnasiums_own_wrappers_may_notice_it_first(wrong):
    gym.register("Registered-v0", entry_point=partial(Wrong, PARTS, **wrong))
    try:
        message = told(lambda: gym.wrappers.RecordEpisodeStatistics(gym.make("Registered-v0")))
    finally:
        del gym.registry["Registered-v0"]
    assert "in step 2 of its episode; " in message


@pytest.mark.parametrize(
    ("space", "right"),
    [
        (BOX, dict(obs=[1, 2, 3])),
        (BOX, dict(obs=np.zeros(3, bool))),
        (BOX, dict(obs=np.zeros(3, int))),
        (BOX, dict(rew=np.float16(1))),
        (BOX, dict(rew=np.ones(()))),
        (BOX, dict(rew=True)),
        (BOX, dict(terminated=np.bool_(True))),
        (BOX, dict(truncated=np.array(True))),
        (BOX, dict(rew=Tensor(1.0), terminated=Tensor(False))),
        (BOX, dict(terminated=True, info={"is_success": np.float32(1)})),
        (BOX, dict(terminated=True, info={"is_success": np.array(False)})),
        (spaces.Discrete(4, start=2), dict(obs=np.int32(5))),
        (spaces.Discrete(4, start=2), dict(obs=np.array(2))),
        (spaces.MultiDiscrete([2, 3]), dict(obs=[1, 2])),
        (PARTS, dict(obs={"a": [1, 2, 3], "b": 3, "c": "what nobody sees"})),
    ],
)
def test_what_may_be_passes(space, right):
    with VectorEnv(partial(Wrong, space, **right)) as envs:
        envs.reset()
        for _ in range(3):
            _, rew, *_ = envs.step(np.zeros(1, int))
            assert rew == 1


def test_a_tuple_may_have_names():
    class Named(Wrong):
        def step(self, action):
            return namedtuple("Step", "obs rew terminated truncated info")(*super().step(action))

    with VectorEnv(Named) as envs:
        envs.reset()
        assert envs.step(np.zeros(1, int))[1] == 1


def test_what_is_no_environment_of_gymnasium_is_refused():
    of_gym = type("Env", (), {"__module__": "gym.core"})  # which is not installed
    with pytest.raises(UserError, match=r"^env_fn returned None, a builtins.NoneType, and no gymn"):
        VectorEnv(lambda: None)
    with pytest.raises(
        UserError, match=r"a .*\.Arm, and no gymnasium.Env. It seems to be .* gym, "
    ):
        VectorEnv(type("Arm", (of_gym,), {}))


def test_no_actions_are_refused_before_anything_is_made():
    empty = spaces.Box(-1, 1, (0,), np.float32)
    for make_spec in (action_spec, bounded_action_spec):
        with pytest.raises(UserError, match=r"The action space Box\(.*\) has no dimensions"):
            make_spec(empty)
