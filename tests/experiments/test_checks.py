"""Environments that cannot be used."""

import gymnasium as gym
import pytest

from spinup_tf2.envs.making import EnvFn
from spinup_tf2.errors import UserError
from spinup_tf2.experiments.checks import check_environment, check_experiment


class BrokenEnv(gym.Env):
    def __init__(self):
        raise RuntimeError("no display")


@pytest.mark.parametrize("more", [dict(env_name="CartPole-v1"), dict(env_kwargs={})])
def test_a_function_makes_the_whole_environment(more):
    [name] = more
    with pytest.raises(UserError, match=f"env_fn and {name} were given; env_fn makes the whole"):
        check_experiment("ppo", dict(env_fn=lambda: gym.make("CartPole-v1"), **more), 1)


def test_an_environment_that_cannot_be_made():
    gym.register("Broken-v0", BrokenEnv)
    with pytest.raises(UserError, match="Broken-v0 cannot be made: RuntimeError: no display"):
        check_environment(EnvFn("Broken-v0"))
    del gym.registry["Broken-v0"]
