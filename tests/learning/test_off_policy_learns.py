"""DDPG, TD3 and SAC learn to swing a pendulum up and to hold it: -200 on average, or better.

All arguments have their defaults, with which the policy has not even acted until then: random
interactions are enough to learn from.
"""

import pytest

from spinup_tf2 import ddpg, sac, td3
from spinup_tf2.utils.run_utils import EnvFn
from tests.runs import train

pytestmark = [pytest.mark.learning, pytest.mark.slow]


@pytest.mark.parametrize(("algorithm", "interactions"), [(ddpg, 6000), (td3, 8000), (sac, 6000)])
def test_pendulum_stands(tmp_path, algorithm, interactions):
    kwargs = dict(steps_per_epoch=2000, epochs=interactions // 2000)
    _, rows = train(algorithm, tmp_path / "run", EnvFn("Pendulum-v1"), **kwargs)
    assert max(float(row["AverageTestEpRet"]) for row in rows) >= -200
