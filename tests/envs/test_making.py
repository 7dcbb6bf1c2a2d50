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


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("HalfCheetah-v2", "HalfCheetah-v2 cannot be made: The mujoco v2 and v3 based env"),
        ("CartPole", "CartPole is not registered with gymnasium.* as module:EnvId"),
        ("Cartpole-v1", r"Did you mean: `CartPole`\?"),
        ("LunarLander-v2", "Environment version v2 for `LunarLander` is deprecated"),
        ("no_such_module:A-v0", "No module named 'no_such_module'"),
    ],
)
def test_what_to_use_instead(env_id, message):
    with pytest.raises(UserError, match=message):
        EnvFn(env_id)()


def test_what_is_not_installed(monkeypatch):
    def make(*_, **__):
        raise gym.error.DependencyNotInstalled("MuJoCo is not\ninstalled, run ...")

    monkeypatch.setattr(gym, "make", make)
    with pytest.raises(UserError, match=r"HalfCheetah-v5 cannot be made: MuJoCo is not installed"):
        EnvFn("HalfCheetah-v5")()
