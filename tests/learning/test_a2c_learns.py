"""A2C learns, with larger steps than its defaults take, which are for Atari games."""

import pytest

from spinup_tf2 import a2c
from spinup_tf2.utils.run_utils import EnvFn
from tests.runs import train

pytestmark = [pytest.mark.learning, pytest.mark.slow]


def average_returns(path, env_id, epochs, **kwargs):
    _, rows = train(a2c, path, EnvFn(env_id), steps_per_epoch=4000, epochs=epochs, **kwargs)
    return [float(row["AverageEpRet"]) for row in rows if row["AverageEpRet"]]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_cartpole_is_solved_within_120000_steps(tmp_path, seed):
    kwargs = dict(seed=seed, max_grad_norm=None)
    assert max(average_returns(tmp_path / "run", "CartPole-v1", 30, **kwargs)) >= 450


def test_inverted_pendulum_stands_within_120000_steps(tmp_path):
    pytest.importorskip("mujoco")
    kwargs = dict(lr=3e-3, lr_schedule="linear", ent_coef=0.0)
    returns = average_returns(tmp_path / "run", "InvertedPendulum-v5", 30, **kwargs)
    assert sum(returns[-5:]) / 5 > 500 or max(returns) == 1000
