"""A2C learns, with larger steps than its defaults take, which are for Atari games."""

import pytest

from spinup_tf2 import a2c
from spinup_tf2.utils.run_utils import EnvFn
from tests.on_policy_runs import train

pytestmark = pytest.mark.learning


def last_return(path, env_id, **kwargs):
    """The average return of the last three of 25 epochs."""
    kwargs = dict(steps_per_epoch=4000, epochs=25, lr=3e-3, lr_schedule="linear") | kwargs
    _, rows = train(a2c, path, EnvFn(env_id), **kwargs)
    return sum(float(row["AverageEpRet"]) for row in rows[-3:]) / 3


def test_cartpole_is_solved_within_100000_steps(tmp_path):
    """By one of three seeds at least: so large steps are a gamble, which four of five win."""
    returns = [
        last_return(tmp_path / f"{seed}", "CartPole-v1", seed=seed, max_grad_norm=None)
        for seed in range(3)
    ]
    assert max(returns) >= 450, returns


@pytest.mark.slow
def test_inverted_pendulum_stands_within_100000_steps(tmp_path):
    pytest.importorskip("mujoco")
    assert last_return(tmp_path / "run", "InvertedPendulum-v5", ent_coef=0.0) > 500
