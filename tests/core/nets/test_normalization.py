"""Running statistics against numpy over everything at once, and against gymnasium's wrappers.

And what a run does with them: when new statistics come into use, and what is saved.
"""

from copy import deepcopy

import gymnasium as gym
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from spinup_tf2 import ppo
from spinup_tf2.core import on_policy
from spinup_tf2.core.nets.acting import Actor, Critic
from spinup_tf2.core.nets.actor_critic import MLPActorCritic
from spinup_tf2.core.nets.distributions import sample
from spinup_tf2.core.nets.normalization import (
    CLIP,
    MAX_KL,
    NormalizedActorCritic,
    ObservationNormalizer,
    RewardScaler,
    RunningStatistics,
)
from spinup_tf2.parallel.mpi import proc_id
from spinup_tf2.training import run
from spinup_tf2.training.rebuilding import build_again
from spinup_tf2.training.saved_policy import SavedPolicy
from tests.fake_mpi import run_ranks
from tests.on_policy_runs import FromShow, train

pytestmark = pytest.mark.saved_model

OBS, ACT = spaces.Box(-1, 1, (3,)), spaces.Box(-1, 1, (2,))


def samples(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, 3)) * [1, 20, 0.1] + [0, -300, 5]).astype(np.float32)


def take_in(normalizer, x):
    """Statistics of `x` and all before, in use."""
    normalizer.seen.update(x)
    normalizer.share.assign(1)
    normalizer.adopt()


def test_normalised_samples_have_mean_0_and_variance_1():
    normalizer, x = ObservationNormalizer((3,)), samples()
    few = x / 100
    np.testing.assert_allclose(normalizer(few), few, rtol=1e-6)  # nothing seen: nothing changed
    take_in(normalizer, x)
    y = normalizer(x).numpy()
    assert y.dtype == np.float32
    np.testing.assert_allclose(y.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(y.std(axis=0), 1, rtol=1e-4)
    shift, scale = normalizer.shift_and_scale()
    np.testing.assert_allclose((x - shift) * scale, y, rtol=1e-5, atol=1e-6)
    assert normalizer.trainable_variables == []


def test_ranks_have_the_statistics_of_all():
    pieces = np.split(samples(), 3)

    def update():
        statistics = RunningStatistics((3,))
        statistics.update(pieces[proc_id()])
        return np.stack([statistics.mean.numpy(), statistics.var.numpy()])

    alone = RunningStatistics((3,))
    alone.update(samples()[:1])  # a single one counts
    alone.update(samples()[1:])
    for found in run_ranks(3, update):
        np.testing.assert_allclose(found, [alone.mean.numpy(), alone.var.numpy()], rtol=1e-12)


def test_numpy_acts_as_the_normalised_networks():
    inner = MLPActorCritic(OBS, ACT)
    ac = NormalizedActorCritic(inner, OBS, ACT)
    act, value = Actor(ac), Critic(ac.v)
    take_in(ac.normalizer, samples(seed=1))
    act.refresh()
    value.refresh()
    obs, noise = samples(), np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
    found, _ = act(obs, noise)
    np.testing.assert_allclose(found, sample(ac.pi(obs), noise), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(value(obs), ac.v(obs), rtol=1e-4, atol=1e-5)
    seen = ac.normalizer(obs)
    np.testing.assert_allclose(ac.pi(obs).mean(), inner.pi(seen).mean(), rtol=1e-6)
    np.testing.assert_allclose(ac.pi_and_v(obs)[1], inner.v(seen), rtol=1e-6)
    assert ac.trainable_variables == inner.trainable_variables


def test_what_never_varied_is_clipped_in_keras_in_numpy_and_in_what_is_saved(tmp_path):
    """The first twenty of forty states were visited; the 31st would be 10,000 when it is."""
    states = spaces.Discrete(40)
    ac = NormalizedActorCritic(
        MLPActorCritic(spaces.Box(0, 1, (40,)), ACT), spaces.Box(0, 1, (40,)), ACT
    )
    act, value = Actor(ac), Critic(ac.v)
    seen = np.eye(40, dtype=np.float32)[np.arange(1000) % 20]
    take_in(ac.normalizer, seen)
    obs, noise = np.eye(40, dtype=np.float32)[[0, 30]], np.zeros((2, 2), np.float32)
    normalised = (obs - seen.mean(axis=0)) / np.sqrt(seen.var(axis=0) + 1e-8)
    assert normalised[1, 30] == pytest.approx(10_000)
    normalised = normalised.clip(-CLIP, CLIP)
    np.testing.assert_allclose(ac.normalizer(obs), normalised, rtol=1e-4, atol=1e-6)

    expected = ac.inner.pi(normalised).mean()
    close = dict(rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ac.pi(obs).mean(), expected, **close)
    act.refresh()
    value.refresh()
    np.testing.assert_allclose(act(obs, noise)[0], expected, **close)
    np.testing.assert_allclose(value(obs), ac.inner.v(normalised), **close)
    saved = SavedPolicy(ac, states, ACT)
    tf.saved_model.save(saved, tmp_path)
    program = tf.saved_model.load(tmp_path)
    np.testing.assert_allclose(program.policy(obs, noise)["mu"], expected, **close)
    rebuilt = build_again(saved.info["networks"], states, ACT, [*saved.arrays().values()])
    np.testing.assert_allclose(Actor(rebuilt)(obs, noise)[0], expected, **close)


def test_what_describes_a_saved_policy_is_plain():
    """A dict that tf.Module has wrapped is not written as JSON by Python 3.13."""
    saved = SavedPolicy(MLPActorCritic(OBS, ACT), OBS, ACT)
    assert type(saved.info) is dict
    assert type(saved.info["observation_space"]) is dict


def test_rewards_by_hand():
    """gamma 0.5, one environment: rewards 1, 1 | 4 (a new episode): returns 1, 1.5, 4.

    Their mean is 6.5 / 3, their variance (1 + 2.25 + 16) / 3 - (6.5 / 3)^2 = 1.7222...
    """
    scaler = RewardScaler(1, 0.5)
    rew = np.array([[1.0], [1.0], [4.0]], np.float32)
    scaled = scaler(rew, np.array([[False], [True], [False]]))
    np.testing.assert_allclose(scaled, rew / np.sqrt(1.72222222), rtol=1e-6)
    assert scaler.ret == 4


def test_steps_that_were_lost_are_no_rewards():
    """As by hand above, with a lost step after the first episode and a batch of nothing else."""
    scaler = RewardScaler(1, 0.5)
    rew = np.array([[1.0], [1.0], [0.0], [4.0]], np.float32)
    ends, lost = np.array([[[0], [1], [1], [0]], [[0], [0], [1], [0]]], bool)
    scaled = scaler(rew, ends, lost)
    np.testing.assert_allclose(scaled, rew / np.sqrt(1.72222222), rtol=1e-6)
    assert scaler.ret == 4
    scaler(rew[:1], ~lost[:1], ~lost[:1])
    assert scaler.ret == 0
    assert scaler.statistics.count == 3


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


def test_the_first_reward_after_many_zeros_is_clipped():
    """One after a million: a standard deviation of 0.001 would make it 997."""
    scaler, ends = RewardScaler(1000, 0.99), np.zeros((1000, 1000), bool)
    assert not scaler(np.zeros((1000, 1000), np.float32), ends).any()
    rew = np.array([[1.0, -1.0, *np.zeros(998)]], np.float32)
    scaled = scaler(rew, ends[:1])
    assert scaled.dtype == np.float32
    assert [*scaled[0, :3]] == [10, -10, 0]


# ------------------------------------------------------------- when statistics come into use


def divergence(before, after, std):
    """Mean KL divergence of Gaussians with the same standard deviations, from their means."""
    return np.square((np.array(after) - before) / std).sum(axis=-1).mean() / 2


def gaussian():
    ac = NormalizedActorCritic(MLPActorCritic(OBS, ACT), OBS, ACT)
    return ac, np.exp(ac.inner.pi.log_std.numpy())


def test_the_first_statistics_are_in_use_before_the_first_update():
    ac, _ = gaussian()
    x = samples()

    def update(batch, fresh):
        np.testing.assert_allclose(ac.normalizer.mean, batch["obs"].mean(axis=0), rtol=1e-4)
        np.testing.assert_allclose(ac.normalizer.var, batch["obs"].var(axis=0), rtol=1e-4)
        return dict(LossPi=0.5)

    assert ac.with_update(update)(dict(obs=x), None) == dict(LossPi=0.5, NormKL=0)


@pytest.mark.parametrize(("moved", "bounded"), [(0.01, False), (3.0, True)])
def test_later_statistics_come_into_use_between_updates_and_within_a_bound(moved, bounded):
    ac, std = gaussian()
    update = ac.with_update(lambda batch, fresh: {})
    update(dict(obs=samples()), None)
    obs = samples() + np.float32([moved, 0, 0])
    before = ac.pi(obs).mean().numpy()
    kl = update(dict(obs=obs), None)["NormKL"]
    np.testing.assert_array_equal(ac.pi(obs).mean(), before)
    assert 0 < kl <= MAX_KL
    assert (ac.normalizer.share.numpy() < 1) == bounded

    expected = ac.normalizer.mean + ac.normalizer.share * (
        np.concatenate([samples(), obs]).mean(axis=0, dtype=float) - ac.normalizer.mean
    )
    ac.normalizer.adopt()
    assert divergence(before, ac.pi(obs).mean(), std) == pytest.approx(
        kl, rel=0.02, abs=1e-7
    )  # of float32
    np.testing.assert_allclose(ac.normalizer.mean, expected, rtol=1e-6)
    after = ac.pi(obs).mean().numpy()
    ac.normalizer.adopt()  # as after a resume: it has been done
    np.testing.assert_array_equal(ac.pi(obs).mean(), after)


def test_ranks_go_the_same_part_of_the_way():
    ac, _ = gaussian()
    weights = [variable.numpy() for variable in ac.variables]

    def shares(pieces):
        ac, _ = gaussian()
        for variable, value in zip(ac.variables, weights, strict=True):
            variable.assign(value)
        update = ac.with_update(lambda batch, fresh: {})
        kls = [update(dict(obs=x), None)["NormKL"] for x in pieces]
        return [ac.normalizer.share.numpy(), *kls]

    first, second = samples(), samples(seed=1) + np.float32([3, 0, 0])
    alone = shares([first, second])
    assert alone[0] < 1
    halves = [np.split(x, 2) for x in (first, second)]
    for found in run_ranks(2, lambda: shares([halves[0][proc_id()], halves[1][proc_id()]])):
        np.testing.assert_allclose(found, alone, rtol=1e-4, atol=1e-9)


class Drifting(FromShow):
    """Shows how many steps there have been, in all episodes of ten; the action does not matter."""

    observation_space, action_space = OBS, ACT
    steps = 0

    def _show(self):
        return np.float32([self.steps / 100, self.np_random.normal(), 0])

    def step(self, action):
        self.steps += 1
        self.t += 1
        return self._show(), self.np_random.normal(), False, self.t == 10, {}


def test_the_policy_that_is_tested_and_saved_is_the_one_that_was_trained(tmp_path, monkeypatch):
    """Its outputs on the batch are those after the last gradient step, and not yet the next's."""
    train_run, evaluate, trained, acting, tested = on_policy.train, run.evaluate, [], [], []

    def watched_train(run, actor, update, *args, **kwargs):
        def watched(batch, fresh):
            info = update(batch, fresh)
            obs = batch["obs"].numpy()
            trained.append((obs, run.ac.outputs(obs, np.zeros((len(obs), 2), np.float32))))
            return info

        train_run(run, actor, watched, *args, **kwargs)

    def watched_collect(envs, act, *args, collect=on_policy.collect):
        for obs, _ in trained[-1:]:
            acting.append(act(obs, np.zeros((len(obs), 2), np.float32))[0])
        return collect(envs, act, *args)

    def watched_evaluate(envs, act, *args):
        obs, _ = trained[-1]
        act.refresh()
        tested.append(act(obs, np.zeros((len(obs), 2), np.float32))[0])
        return evaluate(envs, act, *args)

    monkeypatch.setattr("spinup_tf2.algos.ppo.train", watched_train)
    monkeypatch.setattr(on_policy, "collect", watched_collect)
    monkeypatch.setattr(run, "evaluate", watched_evaluate)
    kwargs = dict(normalize_obs=True, num_test_episodes=1, epochs=3, save_freq=1, pi_lr=1e-2)
    ac, rows = train(ppo, tmp_path, Drifting, train_pi_iters=3, target_kl=None, **kwargs)

    close = dict(rtol=1e-4, atol=1e-5)
    saved = tf.saved_model.load(tmp_path / "tf2_save")
    obs, outputs = trained[-1]
    for name, value in saved.policy(obs, np.zeros((len(obs), 2), np.float32)).items():
        np.testing.assert_allclose(value, outputs[name], **close)
    for found, (_, outputs) in zip(tested, trained, strict=True):
        np.testing.assert_allclose(found, outputs["mu"], **close)

    # What acts next has taken the new statistics on, as far as NormKL says.
    assert [len(acting), len(rows), len(trained)] == [2, 3, 3]
    kls = [float(row["NormKL"]) for row in rows]
    assert kls[0] == 0
    assert 0 < kls[1] <= MAX_KL
    np.testing.assert_allclose(acting[0], trained[0][1]["mu"], **close)
    assert not np.allclose(acting[1], trained[1][1]["mu"], **close)
    std = np.exp(ac.inner.pi.log_std.numpy())
    assert divergence(trained[1][1]["mu"], acting[1], std) == pytest.approx(kls[1], rel=0.1)
    assert all(map(np.array_equal, deepcopy(ac).variables, ac.variables))


def test_a_run_that_goes_on_adopts_what_was_due(tmp_path):
    kwargs = dict(normalize_obs=True, deterministic_resume=True)
    whole, rows = train(ppo, tmp_path / "whole", epochs=3, **kwargs)
    train(ppo, tmp_path / "run", epochs=2, **kwargs)
    ac, resumed = train(ppo, tmp_path / "run", epochs=3, resume=True, **kwargs)
    assert [row["NormKL"] for row in resumed] == [row["NormKL"] for row in rows]
    assert float(rows[1]["NormKL"]) > 0
    for one, other in zip(ac.variables, whole.variables, strict=True):
        np.testing.assert_array_equal(one, other)
