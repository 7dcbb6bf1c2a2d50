"""VPG and TRPO learn CartPole: 450 is more than nine tenths of the maximum."""

import pytest

from spinup_tf2 import trpo, vpg
from tests.runs import train

pytestmark = [pytest.mark.learning, pytest.mark.slow]


def best_return(algorithm, path, **kwargs):
    """The highest average return of an epoch; everything but `kwargs` is at its default."""
    _, rows = train(algorithm, path, steps_per_epoch=4000, train_v_iters=80, **kwargs)
    return max(float(row["AverageEpRet"]) for row in rows)


def test_trpo_solves_cartpole_within_80000_steps(tmp_path):
    assert best_return(trpo, tmp_path / "run", epochs=20) >= 450


def test_vpg_solves_cartpole_within_160000_steps(tmp_path):
    assert best_return(vpg, tmp_path / "run", epochs=40, pi_lr=3e-3) >= 450
