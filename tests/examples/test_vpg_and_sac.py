"""The short scripts: their equations, what they do when an episode ends, and that they learn."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from spinup_tf2.examples import sac_pendulum, vpg_cartpole
from tests.examples.test_examples import eagerly

__all__ = ["eagerly"]  # a fixture


# ---------------------------------------------------------------- VPG


def test_rewards_to_go_of_the_cart_by_hand(monkeypatch):
    """With half of what follows, from the last row back, in three environments:

    falls in the 2nd of 3 steps:     3 + 8/2 = 7; 2; 1 + 2/2 = 2
    its clock runs out there (V 6):  7; 2 + 6/2 = 5; 1 + 5/2 = 3.5
    goes on (V 8 at the end):        7; 2 + 7/2 = 5.5; 1 + 5.5/2 = 3.75
    """
    monkeypatch.setattr(vpg_cartpole, "GAMMA", 0.5)
    rew = np.tile(np.array([[1.0], [2.0], [3.0]]), 3)
    next_val = np.tile(np.array([[4.0], [6.0], [8.0]]), 3)
    terminated, ended = np.zeros((2, 3, 3), bool)
    terminated[1, 0] = ended[1, 0] = ended[1, 1] = True
    ret = vpg_cartpole.rewards_to_go(rew, next_val, terminated, ended)
    np.testing.assert_allclose(ret, [[2, 3.5, 3.75], [2, 5, 5.5], [7, 7, 7]])


# ---------------------------------------------------------------- SAC


def test_sample_is_a_squashed_gaussian_with_its_density():
    """The density of tanh(u) is that of u divided by the slope of tanh."""
    mu, log_std = np.array([0.3, -1.0, 2.0]), np.array([-0.5, 0.2, -1.0])
    noise = np.array([0.7, -1.5, 0.1])
    output = np.stack([mu, log_std], axis=1).astype(np.float32)
    act, logp = sac_pendulum.sample(tf.constant(output), tf.constant(np.float32(noise[:, None])))
    u = mu + np.exp(log_std) * noise
    np.testing.assert_allclose(act, np.tanh(u)[:, None], rtol=1e-5)
    density = stats.norm(mu, np.exp(log_std)).pdf(u) / (1 - np.tanh(u) ** 2)
    np.testing.assert_allclose(logp, np.log(density), rtol=1e-4)
    # Where tanh(u) is 1 in float32, log(1 - tanh(u)^2) would be minus infinity.
    _, logp = sac_pendulum.sample(tf.constant([[20.0, 0.0]]), tf.zeros([1, 1]))
    assert np.isfinite(logp).all()


def test_losses_of_sac_by_hand():
    """Numbers that can be followed with pencil and paper, gamma 0.99 and target entropy -1."""
    one, two = tf.constant([1.0, 1.0]), tf.constant([2.0, 4.0])
    y = sac_pendulum.backup(one, tf.constant([0.0, 1.0]), one, two, next_logp=one, alpha=0.5)
    np.testing.assert_allclose(y, [1 + 0.99 * (1 - 0.5), 1])
    # (1 + 9) / 2 + (0 + 0) / 2
    np.testing.assert_allclose(sac_pendulum.q_loss(one, two, two), 5)
    # mean(0.5 * [2, 4] - [1, 1])
    np.testing.assert_allclose(sac_pendulum.policy_loss(one, two, logp=two, alpha=0.5), 0.5)
    # -0.7 * (3 - 1)
    np.testing.assert_allclose(sac_pendulum.temperature_loss(0.7, two), -1.4)


def test_gradients_flow_only_where_they_should():
    values = [tf.constant([1.0, 2.0]) for _ in range(4)]
    log_alpha = tf.constant(0.3)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([*values, log_alpha])
        y = sac_pendulum.backup(values[0], tf.zeros(2), *values[1:], alpha=1.0)
        loss = sac_pendulum.temperature_loss(log_alpha, values[0])
    assert tape.gradient(y, values) == [None] * 4
    assert tape.gradient(loss, values[0]) is None
    # The mean of log pi, 1.5, says that the entropy is -1.5: too low, so that alpha should rise.
    np.testing.assert_allclose(tape.gradient(loss, log_alpha), -0.5)


@pytest.mark.usefixtures("eagerly")
def test_a_time_limit_is_no_end_for_sac(monkeypatch):
    """The clock has ended an episode after 200 steps; no backup leaves out its future."""
    seen = []

    def recording(rew, terminated, *others):
        seen.append(np.asarray(terminated))
        return backup(rew, terminated, *others)

    backup = sac_pendulum.backup
    monkeypatch.setattr(sac_pendulum, "backup", recording)
    monkeypatch.setattr(sac_pendulum, "RANDOM_STEPS", 202)
    assert len(sac_pendulum.train(205, 0)) == 1
    assert np.shape(seen) == (3, sac_pendulum.BATCH)
    assert not np.any(seen)


# ---------------------------------------------------------------- learning


@pytest.mark.learning
def test_vpg_balances():
    """An untrained policy gets about 20."""
    assert np.mean(vpg_cartpole.train(60_000, 0)[-20:]) >= 300


@pytest.mark.learning
def test_sac_swings_up():
    """A random policy gets about -1200."""
    returns = sac_pendulum.train(8000, 0)
    assert np.mean(returns[:5]) < -800
    assert np.mean(returns[-5:]) > -300
