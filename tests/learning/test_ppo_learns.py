"""PPO learns, with its default settings."""

import csv

import pytest

from spinup_tf2 import ppo
from spinup_tf2.utils.run_utils import EnvFn

pytestmark = pytest.mark.learning


def last_return(path, env_id, epochs, **kwargs):
    """Train in `path`; the average return of the last three epochs."""
    logger_kwargs = dict(output_dir=str(path), quiet=True)
    ppo(EnvFn(env_id), epochs=epochs, logger_kwargs=logger_kwargs, **kwargs)
    with open(path / "progress.txt", newline="") as file:
        returns = [float(row["AverageEpRet"]) for row in csv.DictReader(file, delimiter="\t")]
    return sum(returns[-3:]) / 3


@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.slow), 1, 2])
def test_pole_is_balanced_within_100000_steps_and_stays_so(tmp_path, seed):
    """Five seeds: 456 to 500. Runs depend on how a processor rounds, as they do on the seed."""
    assert last_return(tmp_path / "run", "CartPole-v1", 25, seed=seed) >= 400


def test_inverted_pendulum_stands_within_80000_steps(tmp_path):
    """The task of Spinning Up's exercise 1.2, with the environment's current version."""
    pytest.importorskip("mujoco")
    assert last_return(tmp_path / "run", "InvertedPendulum-v5", 20) > 500


@pytest.mark.slow
def test_goal_is_found_in_a_dict_observation(tmp_path):
    """The best return is 0.7; whoever ignores one of the two entries gets -0.3 on average."""
    kwargs = dict(steps_per_epoch=1000, pi_lr=3e-3)
    assert last_return(tmp_path / "run", "ProbeGoal-v0", 15, **kwargs) > 0.6
