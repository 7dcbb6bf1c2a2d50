"""VPG and TRPO learn CartPole: 450 is more than nine tenths of the maximum."""

import pytest

from spinup_tf2 import trpo, vpg
from tests.on_policy_runs import train

pytestmark = pytest.mark.learning


def last_return(algorithm, path, **kwargs):
    """The average return of the last three epochs; everything but `kwargs` is at its default."""
    _, rows = train(algorithm, path, steps_per_epoch=4000, train_v_iters=80, **kwargs)
    return sum(float(row["AverageEpRet"]) for row in rows[-3:]) / 3


@pytest.mark.slow
def test_trpo_balances_the_pole_within_100000_steps(tmp_path):
    """Five seeds: 468 to 500. Runs depend on how a processor rounds, as they do on the seed."""
    assert last_return(trpo, tmp_path / "run", epochs=25) >= 400


def test_vpg_solves_cartpole_within_240000_steps(tmp_path):
    assert last_return(vpg, tmp_path / "run", epochs=60, pi_lr=3e-3) >= 450
