"""Environments by name."""

import cloudpickle
import gymnasium as gym
import pytest

from spinup_tf2.envs.making import EnvFn
from spinup_tf2.errors import UserError


def test_env_fn():
    env_fn = cloudpickle.loads(cloudpickle.dumps(EnvFn("Pendulum-v1", {"g": 5.0})))
    assert env_fn == EnvFn("Pendulum-v1", {"g": 5.0})
    assert env_fn().unwrapped.g == 5.0
    assert EnvFn("ProbeGoal-v0")().spec.id == "ProbeGoal-v0"


def test_mujoco_that_is_not_installed(monkeypatch):
    def make(*_, **__):
        raise gym.error.DependencyNotInstalled("MuJoCo is not installed")

    monkeypatch.setattr(gym, "make", make)
    with pytest.raises(UserError, match=r'HalfCheetah-v5 needs MuJoCo .*"spinup_tf2\[mujoco\]"'):
        EnvFn("HalfCheetah-v5")()
    with pytest.raises(UserError, match="use HalfCheetah-v5"):
        EnvFn("HalfCheetah-v4")()
    with pytest.raises(gym.error.DependencyNotInstalled):
        EnvFn("LunarLander-v3")()
