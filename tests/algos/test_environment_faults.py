"""Runs with environments that raise."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest

from spinup_tf2 import ppo, sac
from spinup_tf2.core.environment_faults import EnvironmentFailure
from spinup_tf2.core.vector_env import FIRST_TEST_ENV, environment_seed
from tests import off_policy_runs, runs


class Fragile(gym.Env):
    """Raises in its 50th step, if the first seed it gets is one of `seeds`. Episodes have 7."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, seeds=()):
        self.seeds = seeds
        self.steps, self.seed = 0, None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed = self.seed or seed
        self.t = 0
        return np.zeros(3, np.float32), {}

    def step(self, action):
        self.t += 1
        self.steps += 1
        if self.steps == 50 and self.seed in self.seeds:
            raise ConnectionError("the simulator is gone")
        return self.np_random.normal(size=3).astype(np.float32), 1.0, self.t == 7, False, {}


def train(algorithm, path, seeds, **kwargs):
    module = runs if algorithm is ppo else off_policy_runs
    small = dict(steps_per_epoch=60, num_envs=2, epochs=3, ac_kwargs=dict(hidden_sizes=(8,)))
    env_fn = partial(Fragile, seeds=[environment_seed(0, i) for i in seeds])
    return module.train(algorithm, path, env_fn, **{**small, **kwargs})[1]


@pytest.mark.parametrize("algorithm", [ppo, sac])
def test_a_run_goes_on_with_a_new_environment(algorithm, tmp_path, capsys):
    """Environment 1 raises in the second epoch, in the first step of its eighth episode."""
    rows = train(algorithm, tmp_path / "run", [1], env_retries=1)
    whole = train(algorithm, tmp_path / "whole", [])
    assert [row["TotalEnvInteracts"] for row in rows] == ["60", "120", "180"]
    assert rows[0]["AverageEpRet"] == whole[0]["AverageEpRet"] == "7.0"
    # Of steps 31 to 60, episodes end at 35, 42, 49 and 56, or at 35, 42, 49, 50 and 57.
    assert float(rows[1]["AverageEpRet"]) == pytest.approx((8 * 7 + 0) / 9)
    assert float(rows[1]["EpLen"]) == pytest.approx((8 * 7 + 1) / 9)
    err = capsys.readouterr().err
    assert err.count("Warning: environment 1 (Fragile, rank 0 on ") == 1
    assert "ConnectionError: the simulator is gone, in step 1 of its episode, after 49 s" in err


@pytest.mark.parametrize("algorithm", [ppo, sac])
def test_a_run_ends_with_its_environment(algorithm, tmp_path):
    with pytest.raises(
        EnvironmentFailure, match=r"^environment 1 .*the simulator is gone, in step"
    ):
        train(algorithm, tmp_path, [1])
    rows = (tmp_path / "progress.txt").read_text().splitlines()
    assert len(rows) == 2  # the head, and the epoch before


def test_environments_for_evaluation_are_named_and_made_anew(tmp_path, capsys):
    """They start anew in each epoch, with episodes of seven steps: the eighth one is lost."""
    kwargs = dict(steps_per_epoch=20, epochs=8, num_test_episodes=1)
    with pytest.raises(EnvironmentFailure, match=r"^test environment 0 .* after 49 steps in all"):
        train(sac, tmp_path / "ends", [FIRST_TEST_ENV], **kwargs)
    rows = train(sac, tmp_path / "run", [FIRST_TEST_ENV], env_retries=1, **kwargs)
    assert [row["AverageTestEpRet"] for row in rows] == ["7.0"] * 7 + ["0.0"]
    assert "Warning: test environment 0 (" in capsys.readouterr().err
