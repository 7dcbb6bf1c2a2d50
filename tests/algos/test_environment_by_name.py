"""What the algorithms take as env_fn: a function, or the id of an environment."""

import gymnasium as gym
import pytest
from spinup_tf2.training.checkpoints import Checkpoints

from spinup_tf2 import ddpg, ppo
from spinup_tf2.errors import UserError
from spinup_tf2.utils.test_policy import load_policy_and_env
from tests import off_policy_runs
from tests import on_policy_runs as runs


@pytest.mark.parametrize(
    ("train", "algorithm", "env_id"),
    [(runs.train, ppo, "spinup_tf2:ProbeReward-v0"), (off_policy_runs.train, ddpg, "Pendulum-v1")],
    ids=["ppo", "ddpg"],
)
def test_an_id_is_what_the_command_line_takes(tmp_path, train, algorithm, env_id):
    ac, _ = train(algorithm, tmp_path / "run", env_id, epochs=1)
    env, get_action = load_policy_and_env(tmp_path / "run")
    obs, _ = env.reset(seed=0)
    env.step(get_action(obs))
    env.step(ac.act(obs))
    # So it can be resumed from the command line, too.
    assert Checkpoints(tmp_path / "run").describe()["command"]["env_name"] == env_id


@pytest.mark.parametrize(
    ("env_fn", "message"),
    [
        (gym.make("CartPole-v1"), "env_fn is <.*CartPole-v1>.*; it must be a function that makes"),
        (None, "env_fn is None; it must be a function"),
        ("CartPol-v1", "CartPol-v1 is not registered with gymnasium"),
        ("no_such_module:A-v0", "there is no module no_such_module"),
    ],
)
def test_what_is_neither_is_refused(tmp_path, env_fn, message):
    with pytest.raises((UserError, ImportError), match=message):
        ppo(env_fn, logger_kwargs=dict(output_dir=str(tmp_path / "run")))
    assert not (tmp_path / "run").exists()
