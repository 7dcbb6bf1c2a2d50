"""Numbers that are not finite end a run in their epoch, and what was saved before stays."""

import re
from functools import cache, partial
from pathlib import Path
from tempfile import mkdtemp

import gymnasium as gym
import numpy as np
import pytest

from spinup_tf2 import a2c, ppo, sac, trpo
from spinup_tf2.core.workers.randomness import environment_seed
from spinup_tf2.files.saves import WEIGHTS
from spinup_tf2.training.finite import NonFiniteError
from tests import off_policy_runs
from tests import on_policy_runs as runs
from tests.progress import rows_without_time

ALGORITHMS = [ppo, a2c, trpo, sac]

# Environment 1 of two falls ill in its 50th step, the 10th of the third epoch.
STEPS, ILL_AFTER = 20, 49


class Ill(gym.Env):
    """A walk at random. From a step on, `spoil(obs, rew)` changes what the second one gives."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, spoil=lambda obs, rew: (obs, rew)):
        self.spoil, self.steps, self.ill = spoil, 0, False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.ill = self.ill or seed == environment_seed(0, 1)
        self.t = 0
        return np.zeros(3, np.float32), {}

    def step(self, action):
        self.t += 1
        self.steps += 1
        obs = self.np_random.normal(size=3).astype(np.float32)
        rew = float(obs[0] - np.square(action).sum())
        if self.ill and self.steps > ILL_AFTER:
            obs, rew = self.spoil(obs, rew)
        return obs, rew, self.t == 7, False, {}


def no_observation(obs, rew):
    obs[2] = np.nan
    return obs, rew


def infinite_reward(obs, rew):
    return obs, -np.inf


def huge_reward(obs, rew):
    """Finite, but sums and squares of it are not."""
    return obs, 3e38


def train(algorithm, path, env_fn=Ill, **kwargs):
    small = dict(steps_per_epoch=2 * STEPS, num_envs=2, save_freq=1, epochs=5)
    small["ac_kwargs"] = dict(hidden_sizes=(8,))
    if algorithm is a2c:
        small["n_steps"] = STEPS
    module = runs
    if algorithm is sac:
        module = off_policy_runs
        small |= dict(start_steps=20, update_after=20, max_ep_len=30)
    return module.train(algorithm, path, env_fn, **{**small, **kwargs})


def saved(path):
    """The weights in tf2_save, by name."""
    with np.load(path / "tf2_save" / WEIGHTS) as arrays:
        return {**arrays}


@cache
def two_healthy_epochs(algorithm):
    path = Path(mkdtemp(prefix="healthy"))
    train(algorithm, path, epochs=2)
    return rows_without_time(path / "progress.txt"), saved(path)


OBSERVATION = (
    "The observation of environment 1 (Ill, rank 0 on ",
    ", component 2, is nan after step 10",
)
REWARD = "The reward of environment 1 (Ill, rank 0 on ", " is -inf after step 10"
LOSS = "Loss", " in the update"


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
@pytest.mark.parametrize(
    ("algorithm", "spoil", "message"),
    [
        *((algorithm, no_observation, OBSERVATION) for algorithm in (ppo, sac)),
        *((algorithm, infinite_reward, REWARD) for algorithm in (ppo, sac)),
        *((algorithm, huge_reward, LOSS) for algorithm in ALGORITHMS),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_the_run_ends_in_the_epoch(tmp_path, algorithm, spoil, message):
    """And what is left is what two epochs without a fault leave."""
    start, reason = message
    with pytest.raises(NonFiniteError, match=f"^{re.escape(start)}") as error:
        train(algorithm, tmp_path, partial(Ill, spoil))
    assert f"{reason} of epoch {2 + (algorithm is sac)}" in str(error.value)
    expected_rows, expected = two_healthy_epochs(algorithm)
    assert rows_without_time(tmp_path / "progress.txt") == expected_rows
    found = saved(tmp_path)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_parameters_end_the_run(tmp_path):
    """The only loss there has been is finite, and so is everything that was logged."""
    with pytest.raises(NonFiniteError, match=r"numbers in \S+ are not finite in epoch 0 \(rank 0"):
        train(a2c, tmp_path, lr=1e39)
    assert not (tmp_path / "tf2_save").exists()
