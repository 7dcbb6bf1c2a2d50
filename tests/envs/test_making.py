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
        ("HalfCheetah-v2", r"HalfCheetah-v2 is no longer there; use HalfCheetah-v5 .*\[mujoco\]"),
        ("CartPole", r"not registered with gymnasium.* Did you mean CartPole-v1\?"),
        ("Cartpole-v1", r"Did you mean CartPole-v1\?"),
        ("ALE/Pong", r"Did you mean ALE/Pong-v5\?"),
        ("LunarLander-v2", "^Environment version v2 for `LunarLander` is deprecated"),
        ("no_such_module:A-v0", "no_such_module:A-v0: there is no module no_such_module"),
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
