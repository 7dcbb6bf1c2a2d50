"""A2C: time limits, and several updates in an epoch. Its updates are in test_on_policy_by_hand."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from spinup_tf2 import a2c
from spinup_tf2.core.gradient_steps import GradientSteps
from tests import on_policy_runs as runs


def train(path, env_fn=None, **kwargs):
    """A small run of A2C: four environments, and two epochs of ten updates."""
    return runs.train(a2c, path, env_fn, **dict(num_envs=4) | kwargs)


@pytest.fixture
def recorded(monkeypatch):
    """For each update of a run: the batch, and what it returned."""
    updates, step = [], GradientSteps.step

    def remember(self, batch):
        info = step(self, batch)
        updates.append(({k: x.numpy() for k, x in batch.items()}, info))
        return info

    monkeypatch.setattr(GradientSteps, "step", remember)
    return updates


class Counter(gym.Env):
    """Shows (number of the episode, step in it); the reward counts the steps of its whole life."""

    def __init__(self):
        self.observation_space = spaces.Box(0, np.inf, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.episode = self.life = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.t = self.episode + 1, 0
        return np.array([self.episode, 0], np.float32), {}

    def step(self, action):
        self.t, self.life = self.t + 1, self.life + 1
        obs = np.array([self.episode, self.t], np.float32)
        return obs, float(self.life), False, False, {}


def test_a_time_limit_is_bootstrapped_from_the_observation_it_led_to(tmp_path, recorded):
    """And the first observation of the next episode is acted on as it is, not zeroed."""
    kwargs = dict(max_ep_len=3, num_envs=1, steps_per_epoch=5, epochs=1, gamma=0.9, lr=0)
    ac, _ = train(tmp_path / "run", Counter, **kwargs)
    [(batch, _)] = recorded
    np.testing.assert_array_equal(batch["obs"], [[1, 0], [1, 1], [1, 2], [2, 0], [2, 1]])
    v = lambda *obs: float(ac.v(np.array([obs], np.float32))[0])  # noqa: E731
    assert abs(v(1, 3) - v(2, 0)) > 1e-2
    third = 3 + 0.9 * v(1, 3)
    fifth = 5 + 0.9 * v(2, 2)
    ret = [1 + 0.9 * (2 + 0.9 * third), 2 + 0.9 * third, third, 4 + 0.9 * fifth, fifth]
    np.testing.assert_allclose(batch["ret"], ret, rtol=1e-5)
    val = [v(*obs) for obs in batch["obs"]]
    np.testing.assert_allclose(batch["adv"], np.subtract(ret, val), rtol=1e-4)


# ----------------------------------------------------------------- several updates in an epoch


def test_episodes_are_counted_across_updates_and_epochs(tmp_path):
    """Episodes of 7 steps in epochs of 10, two updates each. The reward of step s of a life is s:

    episodes return 1 + ... + 7 = 28, 8 + ... + 14 = 77, 15 + ... + 21 = 126, 22 + ... + 28 = 175;
    they end in steps 7 | 14 | 21 and 28.
    """
    kwargs = dict(max_ep_len=7, num_envs=3, steps_per_epoch=30, epochs=3)
    _, rows = train(tmp_path / "run", Counter, **kwargs)
    assert [float(row["AverageEpRet"]) for row in rows] == [28, 77, 150.5]
    assert (float(rows[2]["MinEpRet"]), float(rows[2]["MaxEpRet"])) == (126, 175)
    assert [float(row["EpLen"]) for row in rows] == [7, 7, 7]
    assert [row["TotalEnvInteracts"] for row in rows] == ["30", "60", "90"]
