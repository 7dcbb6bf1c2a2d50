"""Environments that cannot be used."""

import gymnasium as gym
import pytest

from spinup_tf2.envs.making import EnvFn
from spinup_tf2.errors import UserError
from spinup_tf2.experiments.checks import check_environment


class BrokenEnv(gym.Env):
    def __init__(self):
        raise RuntimeError("no display")


def test_an_environment_that_cannot_be_made():
    gym.register("Broken-v0", BrokenEnv)
    with pytest.raises(UserError, match="Broken-v0 cannot be made: RuntimeError: no display"):
        check_environment(EnvFn("Broken-v0"))
    del gym.registry["Broken-v0"]
