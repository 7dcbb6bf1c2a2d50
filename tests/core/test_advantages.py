"""Advantages and returns against slow, obvious versions."""

import itertools

import numpy as np
import pytest

from spinup_tf2.core.advantages import discount_cumsum, gae

GO_ON, TERMINATED, TRUNCATED = range(3)


def slow_gae(rew, val, next_val, terminated, truncated, gamma, lam):
    """The definitions as double sums, one environment and one step at a time."""
    steps, num_envs = rew.shape
    adv, ret = np.zeros(rew.shape), np.zeros(rew.shape)
    for i, t in itertools.product(range(num_envs), range(steps)):
        for k in range(t, steps):
            future = 0 if terminated[k, i] else gamma * next_val[k, i]
            delta = rew[k, i] + future - val[k, i]
            adv[t, i] += (gamma * lam) ** (k - t) * delta
            ret[t, i] += gamma ** (k - t) * rew[k, i]
            if terminated[k, i] or truncated[k, i] or k == steps - 1:
                ret[t, i] += gamma ** (k - t) * future
                break
    return adv, ret


@pytest.mark.parametrize(("gamma", "lam"), [(0.99, 0.97), (0.9, 0.5), (1, 1), (0, 0.5), (0.9, 0)])
@pytest.mark.parametrize("steps", [1, 2, 4])
def test_gae_equals_the_double_sum_for_every_pattern_of_ends(steps, gamma, lam):
    """All 3^T patterns of go on / terminated / truncated at once, one in each environment."""
    patterns = np.array(list(itertools.product([GO_ON, TERMINATED, TRUNCATED], repeat=steps))).T
    rng = np.random.default_rng(0)
    rew, val, next_val = rng.normal(size=(3, *patterns.shape))
    args = rew, val, next_val, patterns == TERMINATED, patterns == TRUNCATED, gamma, lam
    for fast, slow in zip(gae(*args), slow_gae(*args), strict=True):
        np.testing.assert_allclose(fast, slow, rtol=1e-5, atol=1e-6)


def test_terminated_and_truncated_at_once_is_terminated():
    one = np.ones((1, 1))
    yes = one.astype(bool)
    adv, ret = gae(one, 2 * one, 5 * one, yes, yes, 0.9, 0.95)
    assert ret[0, 0] == 1  # nothing of the 5 that might follow
    assert adv[0, 0] == -1


def test_reward_one_for_ever_is_worth_one_over_one_minus_gamma():
    """With V already right, every advantage is 0 and every return V, time limits or not."""
    gamma = 0.9
    rew = np.ones((50, 2))
    val = np.full((50, 2), 1 / (1 - gamma))
    truncated = np.zeros((50, 2), bool)
    truncated[[9, 30], [0, 1]] = True
    adv, ret = gae(rew, val, val, np.zeros((50, 2), bool), truncated, gamma, 0.95)
    np.testing.assert_allclose(adv, 0, atol=1e-5)
    np.testing.assert_allclose(ret, val, rtol=1e-6)


def test_discount_cumsum_by_hand():
    # 3 + .5 * (2 + .5 * 1) = 4.25;  2 + .5 * 1 = 2.5;  1
    np.testing.assert_allclose(discount_cumsum(np.array([3.0, 2.0, 1.0]), 0.5), [4.25, 2.5, 1])
