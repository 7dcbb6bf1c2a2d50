"""Runs with environments that raise."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
import tensorflow as tf

from spinup_tf2 import ppo, sac
from spinup_tf2.core.workers.faults import EnvironmentFailure
from spinup_tf2.core.workers.randomness import FIRST_TEST_ENV, environment_seed
from tests import off_policy_runs
from tests import on_policy_runs as runs


class Fragile(gym.Env):
    """Raises in its 50th step, if the first seed it gets is one of `seeds`. Episodes have 7."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, seeds=()):
        self.seeds, self.steps, self.seed = seeds, 0, None

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


class Crashing(gym.Env):
    """A bandit: action 0 costs about 1, action 1 about 2, and action 2 crashes."""

    observation_space = gym.spaces.Box(0, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.ones(1, np.float32), {}

    def step(self, action):
        if action == 2:
            raise ConnectionError("the simulator is gone")
        return np.ones(1, np.float32), self.np_random.normal(-1 - action, 0.5), True, False, {}


def train(algorithm, path, seeds, **kwargs):
    module = runs if algorithm is ppo else off_policy_runs
    small = dict(steps_per_epoch=60, num_envs=2, epochs=3, ac_kwargs=dict(hidden_sizes=(8,)))
    env_fn = partial(Fragile, seeds=[environment_seed(0, i) for i in seeds])
    return module.train(algorithm, path, env_fn, **{**small, **kwargs})[1]


@pytest.mark.parametrize("algorithm", [ppo, sac])
def test_a_run_goes_on_with_a_new_environment(algorithm, tmp_path, capsys):
    """Environment 1 raises in the second epoch, in the first step of its eighth episode."""
    rows = train(algorithm, tmp_path / "run", [1], env_retries=1)
    assert [row["TotalEnvInteracts"] for row in rows] == ["60", "120", "180"]
    # The episode that was lost is none; others have seven steps.
    assert {row[key] for row in rows for key in ("AverageEpRet", "EpLen")} == {"7.0"}
    err = capsys.readouterr().err
    assert err.count("Warning: environment 1 (Fragile, rank 0 on ") == 1
    assert "ConnectionError: the simulator is gone, in step 1 of its episode, after 49 s" in err


def test_nobody_learns_to_crash(tmp_path, capsys):
    """Although every reward is negative. Of the other actions, the better one is learned."""
    small = dict(steps_per_epoch=200, num_envs=2, epochs=15, pi_lr=0.01, vf_lr=0.01)
    kwargs = dict(env_retries=10**6, ac_kwargs=dict(hidden_sizes=(8,)), target_kl=None)
    ac, rows = runs.train(ppo, tmp_path, Crashing, train_pi_iters=20, **small, **kwargs)
    probability = tf.nn.softmax(ac.pi(np.ones((1, 1))).logits).numpy()[0]
    assert capsys.readouterr().err.count("the simulator is gone") > 100
    assert probability[2] < 0.34
    assert probability[0] > 5 * probability[1]
    assert -2.1 < float(rows[0]["AverageEpRet"]) < -1.3


@pytest.mark.parametrize("algorithm", [ppo, sac])
def test_a_run_ends_with_its_environment(algorithm, tmp_path):
    with pytest.raises(
        EnvironmentFailure, match=r"^environment 1 .*the simulator is gone, in step"
    ):
        train(algorithm, tmp_path, [1])
    rows = (tmp_path / "progress.txt").read_text().splitlines()
    assert len(rows) == 2  # the head, and the epoch before


def test_environments_for_evaluation_are_named_and_made_anew(tmp_path, capsys):
    """They start anew in each epoch, with episodes of seven steps: the eighth is played again."""
    kwargs = dict(steps_per_epoch=20, epochs=8, num_test_episodes=1)
    rows = train(sac, tmp_path, [FIRST_TEST_ENV], env_retries=1, **kwargs)
    assert [row["AverageTestEpRet"] for row in rows] == ["7.0"] * 8
    assert [row["TestEpLen"] for row in rows] == ["7.0"] * 8
    told = capsys.readouterr().err
    assert "Warning: test environment 0 (" in told
    assert "after 49 steps in all" in told
