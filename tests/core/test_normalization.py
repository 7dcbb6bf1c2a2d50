"""Running statistics against numpy over everything at once, and against gymnasium's wrappers."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from spinup_tf2.core.acting import Actor, Critic
from spinup_tf2.core.normalization import NormalizedActorCritic, RewardScaler, RunningStatistics
from spinup_tf2.core.policies import CNNActorCritic, MLPActorCritic, sample
from spinup_tf2.core.saved_policy import SavedPolicy
from spinup_tf2.errors import UserError
from spinup_tf2.utils.mpi_tools import proc_id
from tests.fake_mpi import run_ranks

OBS, ACT = spaces.Box(-1, 1, (3,)), spaces.Box(-1, 1, (2,))


def samples(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, 3)) * [1, 20, 0.1] + [0, -300, 5]).astype(np.float32)


def test_statistics_are_those_of_everything_seen():
    statistics, x = RunningStatistics((3,)), samples()
    for piece in np.split(x, [7, 30, 31]):
        statistics.update(piece)
    np.testing.assert_allclose(statistics.mean, x.mean(axis=0, dtype=float), rtol=1e-9)
    np.testing.assert_allclose(statistics.var, x.var(axis=0, dtype=float), rtol=1e-9)
    assert statistics.trainable_variables == []


def test_normalised_samples_have_mean_0_and_variance_1():
    statistics, x = RunningStatistics((3,)), samples()
    np.testing.assert_allclose(statistics(x), x, rtol=1e-6)  # nothing seen: nothing changed
    statistics.update(x)
    y = statistics(x).numpy()
    assert y.dtype == np.float32
    np.testing.assert_allclose(y.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(y.std(axis=0), 1, rtol=1e-4)
    shift, scale = statistics.shift_and_scale()
    np.testing.assert_allclose((x - shift) * scale, y, rtol=1e-5, atol=1e-6)


def test_ranks_have_the_statistics_of_all():
    pieces = np.split(samples(), 3)

    def update():
        statistics = RunningStatistics((3,))
        statistics.update(pieces[proc_id()])
        return np.stack([statistics.mean.numpy(), statistics.var.numpy()])

    alone = RunningStatistics((3,))
    alone.update(samples())
    for found in run_ranks(3, update):
        np.testing.assert_allclose(found, [alone.mean.numpy(), alone.var.numpy()], rtol=1e-12)


def test_numpy_acts_as_the_normalised_networks():
    inner = MLPActorCritic(OBS, ACT)
    ac = NormalizedActorCritic(inner, OBS, ACT)
    act, value = Actor(ac), Critic(ac.v)
    ac.statistics.update(samples(seed=1))
    act.refresh()
    value.refresh()
    obs, noise = samples(), np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
    found, val = act(obs, noise)
    assert val is None
    np.testing.assert_allclose(found, sample(ac.pi(obs), noise), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(value(obs), ac.v(obs), rtol=1e-4, atol=1e-5)
    seen = ac.statistics(obs)
    np.testing.assert_allclose(ac.pi(obs).mean(), inner.pi(seen).mean(), rtol=1e-6)
    np.testing.assert_allclose(ac.pi_and_v(obs)[1], inner.v(seen), rtol=1e-6)
    assert ac.trainable_variables == inner.trainable_variables


def test_a_saved_policy_keeps_its_statistics_and_uses_them_unchanged(tmp_path):
    import tensorflow as tf

    ac = NormalizedActorCritic(MLPActorCritic(OBS, ACT), OBS, ACT)
    ac.statistics.update(samples())
    scaler = RewardScaler(2, 0.9)
    scaler(np.ones((5, 2), np.float32), np.zeros((5, 2), bool))
    tf.saved_model.save(SavedPolicy(ac, OBS, ACT, scaler.statistics.variables), tmp_path)
    loaded = tf.saved_model.load(tmp_path)
    obs = samples(4, seed=2)
    for _ in range(2):
        mean = loaded.policy(obs, np.zeros((4, 2), np.float32))["mu"]
        np.testing.assert_allclose(mean, ac.pi(obs).mean(), rtol=1e-5, atol=1e-6)
    saved = [variable.numpy() for variable in loaded.parameters]
    assert any(np.array_equal(x, scaler.statistics.var) for x in saved)


def test_what_describes_a_saved_policy_is_plain():
    """A dict that tf.Module has wrapped is not written as JSON by Python 3.13."""
    saved = SavedPolicy(MLPActorCritic(OBS, ACT), OBS, ACT)
    assert type(saved.info) is dict
    assert type(saved.info["observation_space"]) is dict


def test_images_are_refused():
    images = spaces.Box(0, 255, (40, 40, 1), np.uint8)
    with pytest.raises(UserError, match="the observations are images"):
        NormalizedActorCritic(CNNActorCritic(images, ACT, hidden_sizes=()), images, ACT)


def test_rewards_by_hand():
    """gamma 0.5, one environment: rewards 1, 1 | 4 (a new episode): returns 1, 1.5, 4.

    Their mean is 6.5 / 3, their variance (1 + 2.25 + 16) / 3 - (6.5 / 3)^2 = 1.7222...
    """
    scaler = RewardScaler(1, 0.5)
    rew = np.array([[1.0], [1.0], [4.0]], np.float32)
    scaled = scaler(rew, np.array([[False], [True], [False]]))
    np.testing.assert_allclose(scaled, rew / np.sqrt(1.72222222), rtol=1e-6)
    assert scaler.ret == 4


def test_rewards_are_scaled_as_gymnasium_does_with_the_statistics_of_the_end():
    """One long episode: gymnasium's running statistics end where ours are after one update."""

    class Steps(gym.Env):
        observation_space, action_space = OBS, ACT
        rewards = np.random.default_rng(0).normal(2, 3, 500)

        def reset(self, **kwargs):
            self.t = 0
            return np.zeros(3, np.float32), {}

        def step(self, act):
            self.t += 1
            return np.zeros(3, np.float32), self.rewards[self.t - 1], False, False, {}

    env = gym.wrappers.NormalizeReward(Steps(), gamma=0.9)
    env.reset()
    for _ in range(500):
        _, last, *_ = env.step(None)
    rew = Steps.rewards.astype(np.float32)[:, None]
    scaled = RewardScaler(1, 0.9)(rew, np.zeros((500, 1), bool))
    assert scaled[-1, 0] == pytest.approx(last, rel=1e-4)


def test_returns_are_carried_from_batch_to_batch():
    rng = np.random.default_rng(0)
    rew, ends = rng.normal(size=(40, 3)).astype(np.float32), rng.random((40, 3)) < 0.1
    whole, parts = RewardScaler(3, 0.9), RewardScaler(3, 0.9)
    whole(rew, ends)
    for rows in np.split(np.arange(40), 4):
        parts(rew[rows], ends[rows])
    np.testing.assert_allclose(parts.ret, whole.ret)
    np.testing.assert_allclose(parts.statistics.var, whole.statistics.var, rtol=1e-9)
