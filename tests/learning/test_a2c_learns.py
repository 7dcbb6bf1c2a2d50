"""A2C learns, with gradients as long as they are: the default limit is for Atari games."""

import pytest

from spinup_tf2 import a2c
from spinup_tf2.utils.run_utils import EnvFn
from tests.runs import train

pytestmark = [pytest.mark.learning, pytest.mark.slow]


def average_returns(path, env_id, epochs, **kwargs):
    settings = dict(steps_per_epoch=4000, epochs=epochs, max_grad_norm=None)
    _, rows = train(a2c, path, EnvFn(env_id), **settings, **kwargs)
    return [float(row["AverageEpRet"]) for row in rows if row["AverageEpRet"]]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_cartpole_is_solved_within_120000_steps(tmp_path, seed):
    assert max(average_returns(tmp_path / "run", "CartPole-v1", 30, seed=seed)) >= 450


def test_inverted_pendulum_stands_within_120000_steps(tmp_path):
    pytest.importorskip("mujoco")
    returns = average_returns(tmp_path / "run", "InvertedPendulum-v5", 30, ent_coef=0.0)
    assert sum(returns[-5:]) / 5 > 500 or max(returns) == 1000
