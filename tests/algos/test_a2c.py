"""A2C: its returns and updates by hand, and several updates in an epoch."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from spinup_tf2 import a2c
from spinup_tf2.core.gradient_steps import GradientSteps
from spinup_tf2.core.trajectories import TrajectoryBuffer, estimates
from tests import on_policy_runs as runs
from tests.core.test_buffers import PlainCritic
from tests.images import Lamp


def train(path, env_fn=None, **kwargs):
    """A small run of A2C: four environments, and two epochs of ten updates."""
    small = dict(num_envs=4)
    return runs.train(a2c, path, env_fn, **{**small, **kwargs})


@pytest.fixture
def recorded(monkeypatch):
    """For each update of a run: parameters before it, batch, learning rate, and what it returned.

    Parameters are NumPy copies; all are in the order in which they are trained.
    """
    updates, step = [], GradientSteps.step

    def remember(self, batch):
        before = [v.numpy() for v in self.trained]
        rate = float(self.optimizer.learning_rate)
        info = step(self, batch)
        updates.append((before, {k: x.numpy() for k, x in batch.items()}, rate, info))
        return info

    monkeypatch.setattr(GradientSteps, "step", remember)
    return updates


# ----------------------------------------------------------------------------------- returns


def estimated(obs, rew, terminated, last_obs, value, **kwargs):
    """What one environment's steps teach, with advantages as A2C has them; obs `[T]`."""
    buffer, no = TrajectoryBuffer(len(rew), rew=np.float32), np.zeros(1, bool)
    for shown, gained, died in zip(obs, rew, terminated, strict=True):
        step = dict(obs=np.float32([[shown]]), rew=np.array([gained]), act=np.zeros(1, int))
        final_obs = {0: np.zeros(1, np.float32)} if died else {}
        buffer.store(final_obs, **step, terminated=np.array([bool(died)]), truncated=no)
    returns = partial(estimates, **kwargs, normalize=False)
    batch = buffer.get(PlainCritic(value), np.float32([[last_obs]]), returns)
    return batch["adv"][:, 0], batch["ret"][:, 0]


@pytest.mark.parametrize(
    ("dones", "expected"),
    [
        # 1 + .99 * 10 = 10.9, 1 + .99 * 10.9 = 11.791, ...
        ([0, 0, 0, 0, 0], [14.41090, 13.54636, 12.67309, 11.791, 10.9]),
        ([0, 0, 1, 0, 1], [2.9701, 1.99, 1, 1.99, 1]),
    ],
)
def test_n_step_returns_by_hand(dones, expected):
    """Five rewards of 1, and V = 10 of what follows."""
    ten = lambda obs: np.full(len(obs), 10, np.float32)  # noqa: E731
    adv, ret = estimated(np.zeros(5), np.ones(5), dones, 0, ten, gamma=0.99, lam=1)
    np.testing.assert_allclose(ret, expected, rtol=1e-6)
    np.testing.assert_allclose(adv, np.array(expected) - 10, rtol=1e-5)


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
    [(_, batch, _, _)] = recorded
    np.testing.assert_array_equal(batch["obs"], [[1, 0], [1, 1], [1, 2], [2, 0], [2, 1]])
    v = lambda *obs: float(ac.v(np.array([obs], np.float32))[0])  # noqa: E731
    assert abs(v(1, 3) - v(2, 0)) > 1e-2
    third = 3 + 0.9 * v(1, 3)
    fifth = 5 + 0.9 * v(2, 2)
    ret = [1 + 0.9 * (2 + 0.9 * third), 2 + 0.9 * third, third, 4 + 0.9 * fifth, fifth]
    np.testing.assert_allclose(batch["ret"], ret, rtol=1e-5)
    val = [v(*obs) for obs in batch["obs"]]
    np.testing.assert_allclose(batch["adv"], np.subtract(ret, val), rtol=1e-4)


def test_smaller_lambdas_are_sums_of_all_later_errors():
    """A[t] = sum_k (gamma lam)^k delta[t + k], up to the end of the episode: the slow way."""
    rng = np.random.default_rng(0)
    rew, val = rng.normal(size=(2, 8)).astype(np.float32)
    terminated = np.arange(8) == 4
    seen = lambda obs: obs[:, 0]  # noqa: E731
    adv, _ = estimated(val, rew, terminated, 0.5, seen, gamma=0.9, lam=0.7)
    following = np.append(val[1:], 0.5)
    delta = [r + 0.9 * f * (not d) - v for r, f, d, v in zip(rew, following, terminated, val)]  # noqa: B905
    for t in range(8):
        end = 5 if t < 5 else 8
        slow = sum((0.9 * 0.7) ** (k - t) * delta[k] for k in range(t, end))
        assert adv[t] == pytest.approx(slow, rel=1e-5)


# --------------------------------------------------------------------------------- the update


def by_hand(ac, updates, lr=7e-4, vf_coef=0.5, ent_coef=0.01, max_grad_norm=0.5, rms_eps=1e-5):
    """What the recorded updates should have made of the parameters, in float64.

    RMSprop: s = rho s + (1 - rho) g^2;  x -= lr g / sqrt(s + rms_eps), with rho 0.99, of a
    gradient that is no longer than max_grad_norm.
    """
    params = [x.astype(float) for x in updates[0][0]]
    squares = [np.zeros(x.shape) for x in params]
    clipped = []
    for before, batch, _, _ in updates:
        for variable, x in zip(ac.trainable_variables, before, strict=True):
            variable.assign(x)
        with tf.GradientTape() as tape:
            pi, val = ac.pi(batch["obs"]), ac.v(batch["obs"])
            loss = -tf.reduce_mean(pi.log_prob(batch["act"]) * batch["adv"])
            loss += vf_coef * tf.reduce_mean((batch["ret"] - val) ** 2)
            loss -= ent_coef * tf.reduce_mean(pi.entropy())
        grads = [g.numpy().astype(float) for g in tape.gradient(loss, ac.trainable_variables)]
        norm = np.sqrt(sum((g**2).sum() for g in grads))
        clipped.append(norm > max_grad_norm)
        for i, g in enumerate(grads):
            g = g * max_grad_norm / norm if clipped[-1] else g
            squares[i] = 0.99 * squares[i] + 0.01 * g**2
            params[i] = params[i] - lr * g / np.sqrt(squares[i] + rms_eps)
    return params, clipped


def test_updates_of_images_by_hand(tmp_path, recorded):
    """With networks that share their convolutions; others are in test_on_policy_by_hand."""
    ac_kwargs = dict(conv="small", hidden_sizes=(8,))
    ac, _ = train(tmp_path / "run", Lamp, steps_per_epoch=60, epochs=1, ac_kwargs=ac_kwargs)
    trained = [v.numpy() for v in ac.trainable_variables]
    assert len(recorded) == 3
    expected, clipped = by_hand(ac, recorded)
    assert any(clipped)
    for ours, theirs, start in zip(trained, expected, recorded[0][0], strict=True):
        assert not np.array_equal(ours, start)
        np.testing.assert_allclose(ours, theirs, atol=2e-6)


# ----------------------------------------------------------------- several updates in an epoch


def test_columns_are_means_over_the_updates_of_an_epoch(tmp_path, recorded):
    _, rows = train(tmp_path / "run")
    assert len(recorded) == 20
    for row, updates in zip(rows, (recorded[:10], recorded[10:]), strict=True):
        for column in ("LossPi", "LossV", "Entropy"):
            mean = np.mean([info[column] for _, _, _, info in updates])
            assert float(row[column]) == pytest.approx(mean, rel=1e-6)


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
