"""Environments that return what they must not: one sentence says which, what, and what to do."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.core.workers.faults import EnvironmentFailure
from spinup_tf2.envs.protocol import CheckedEnv, ProtocolError, check_is_env
from spinup_tf2.errors import UserError

BOX = spaces.Box(-np.inf, np.inf, (3,), np.float32)
PARTS = spaces.Dict(a=BOX, b=spaces.Discrete(4))
IMAGE = spaces.Box(0, 255, (40, 40, 1), np.uint8)
FOUR = spaces.Discrete(4)
WHOLE = spaces.Dict(a=spaces.Box(0, 9, (1,), np.int64))


class Tensor:
    """A number as an array of another library."""

    def __init__(self, number):
        self.number = number

    def __array__(self, dtype=None, copy=None):
        return np.array(self.number, dtype)

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
        is_box = isinstance(space, spaces.Box)
        return np.zeros(space.shape, space.dtype) if is_box else space.sample()

    def reset(self, *, seed=None, options=None):
        return self.wrong.get("first", (self._obs(), {}))

    def step(self, action):
        self.steps += 1
        right = dict(obs=self._obs(), rew=1.0, terminated=False, truncated=False, info={})
        return tuple((right | self.wrong if self.steps == 2 else right).values())


def play(env, steps=2):
    env = CheckedEnv(env, 1000)
    env.reset()
    return [env.step(0) for _ in range(steps)]


def ended(success):
    return dict(terminated=True, info={"is_success": success})


@pytest.mark.parametrize(
    ("space", "wrong", "expected"),
    [
        (BOX, dict(obs=np.zeros(2)), "as observation an array of shape (2,) and dtype float64 in"),
        (BOX, dict(obs=None), "as observation None in step 2; an element of its observation space"),
        (BOX, dict(obs=[[1], [1, 2]]), "as observation [[1], [1, 2]] in"),
        (BOX, dict(obs=np.zeros(3, complex)), "of shape (3,) and dtype complex128 in"),
        (IMAGE, dict(obs=np.zeros((40, 40, 1))), "of shape (40, 40, 1) and dtype float64 in"),
        (FOUR, dict(obs=-1), "as observation -1 in step 2; an element"),
        (FOUR, dict(obs=1.5), "as observation 1.5 in"),
        (spaces.MultiDiscrete([2, 3]), dict(obs=np.array([0, -1])), "of shape (2,) and dtype int"),
        (PARTS, dict(obs={"a": np.zeros(3)}), "as observation {'a': array([0., 0., 0.])} in"),
        (PARTS, dict(obs={"a": np.zeros(3), "b": -1}), "'b': -1} in"),
        (WHOLE, dict(obs={"a": np.ones(1)}), "{'a': array([1.])} in"),
        (BOX, dict(rew=np.ones(1)), "as reward [1.0], an array of shape (1,) and dtype float64 in"),
        (BOX, dict(rew=1j), "as reward 1j in step 2; a number is expected."),
        (BOX, dict(rew=None), "as reward None in"),
        (BOX, dict(terminated=None), "as terminated None in step 2; True or False"),
        (BOX, dict(truncated=0), "as truncated 0 in"),
        (BOX, dict(info=None), "as info None in step 2; a dict is expected."),
        (BOX, ended(np.nan), "as is_success nan in step 2"),
        (BOX, ended("False"), "'False' in step 2; True or False"),
        (BOX, ended(np.array([True, False])), "is_success an array of shape (2,)"),
        (BOX, dict(sixth=0), "False, {}, 0) in step 2; five values are expected"),
        (
            BOX,
            dict(first=np.zeros(3)),
            "an array of shape (3,) and dtype float64 in step 2; a pair",
        ),
        (BOX, dict(first=(np.zeros(3), None)), "as info None in"),
    ],
)
def test_what_must_not_be_is_named(space, wrong, expected):
    with pytest.raises(ProtocolError) as caught:
        play(Wrong(space, **wrong))
    message = caught.value.sentence("The environment", "in step 2")
    assert message.startswith("The environment returned ")
    assert expected in message
    assert message.endswith("gymnasium.utils.env_checker.check_env looks for such mistakes.")
    assert "\n" not in message


@pytest.mark.parametrize("vectorization", ["sync", "async", "threads"])
def test_nothing_is_tried_again(vectorization, capfd):
    def play_together():
        make = partial(Wrong, rew=np.ones(1))
        with VectorEnv(make, 2, vectorization=vectorization, env_retries=3) as envs:
            envs.reset()
            for _ in range(2):
                envs.step(np.zeros(2, int))

    with pytest.raises(
        EnvironmentFailure, match=r"\(Wrong, rank 0 on .*\) returned as reward .* 2 "
    ):
        play_together()
    assert capfd.readouterr().err == ""


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
        (BOX, ended(np.float32(1))),
        (BOX, ended(np.array(False))),
        (spaces.Discrete(4, start=2), dict(obs=np.int32(5))),
        (spaces.Discrete(4, start=2), dict(obs=np.array(2))),
        (spaces.MultiDiscrete([2, 3]), dict(obs=[1, 2])),
        (PARTS, dict(obs={"a": [1, 2, 3], "b": 3, "c": "what nobody sees"})),
    ],
)
def test_what_may_be_passes(space, right):
    last = play(Wrong(space, **right))[-1]
    for name, value in zip(("obs", "rew", "terminated", "truncated", "info"), last, strict=True):
        assert name not in right or value is right[name] or value == right[name]


def test_the_time_limit():
    env = CheckedEnv(Wrong(), 3)
    for _ in range(2):
        env.reset()
        assert [env.step(0)[3] for _ in range(3)] == [False, False, True]


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda: None, "$"),
        (lambda: Wrong, "$"),
        (lambda: gym.make_vec("CartPole-v1", 2), " Return a single one, .* as num_envs"),
    ],
)
def test_what_is_no_environment_of_gymnasium_is_refused(make, advice):
    expected = rf"^env_fn returned .*; it must return a gymnasium.Env\.{advice}"
    with pytest.raises(UserError, match=expected):
        check_is_env(make())
