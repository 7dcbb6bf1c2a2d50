"""DDPG, TD3 and SAC learn to swing a pendulum up and to hold it; DQN to balance a pole.

The pendulum costs 150 to 220, depending on where the test episodes begin; who does nothing pays
1200. All arguments have their defaults, with which the policy has not even acted until then: random
interactions are enough to learn from.
"""

import pytest

from spinup_tf2 import ddpg, dqn, sac, td3
from spinup_tf2.experiments.presets import load
from spinup_tf2.utils.run_utils import EnvFn
from tests.on_policy_runs import train

pytestmark = pytest.mark.learning


@pytest.mark.parametrize(
    ("algorithm", "epochs"),
    [(ddpg, 7), (td3, 9), pytest.param(sac, 6, marks=pytest.mark.slow)],
)
def test_pendulum_stands(tmp_path, algorithm, epochs):
    kwargs = dict(steps_per_epoch=1000, epochs=epochs)
    _, rows = train(algorithm, tmp_path / "run", EnvFn("Pendulum-v1"), **kwargs)
    assert sum(float(row["AverageTestEpRet"]) for row in rows[-3:]) / 3 >= -250


def test_pole_stands(tmp_path):
    """500 is the most that there is; random actions get 22. The last tests jump up and down."""
    _, rows = train(dqn, tmp_path / "run", EnvFn("CartPole-v1"), **load("dqn", "classic").settings)
    returns = sorted(float(row["AverageTestEpRet"]) for row in rows)
    assert returns[-3:] == [500] * 3
