"""What a checkpoint belongs to: arguments of environments that JSON cannot hold."""

import gymnasium as gym
import pytest

from spinup_tf2.envs.making import EnvFn
from spinup_tf2.errors import UserError
from spinup_tf2.training.same_run import check_same_run, describe_run


class Sized(gym.Env):
    observation_space = action_space = gym.spaces.Discrete(2)

    def __init__(self, size=None):
        self.size = size


@pytest.fixture
def described():
    """What a run with an environment of this size is."""

    def describe(size):
        env_fn = EnvFn("Sized-v0", dict(size=size))
        arguments = dict(env_fn=env_fn, num_envs=1, seed=0)
        return describe_run("ppo", arguments, env_fn(), [], "ppo", True, "exp", None)

    gym.register("Sized-v0", entry_point=Sized)
    yield describe
    del gym.registry["Sized-v0"]


def test_a_command_holds_only_what_comes_back(described):
    assert described([2, 3])["command"]["env_kwargs"] == {"size": [2, 3]}
    assert described((2, 3))["command"]["env_kwargs"] == {"size": {"__tuple__": [2, 3]}}
    assert described({1: 2})["command"] is None


def test_another_environment_is_another_run(described):
    check_same_run(described((2, 3)), described((2, 3)), "run")
    with pytest.raises(UserError, match=r"its environment was .* and is now"):
        check_same_run(described((2, 3)), described((2, 4)), "run")
