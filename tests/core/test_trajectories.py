"""Advantages and returns against slow, obvious versions."""

import itertools

import numpy as np
import pytest
from scipy.signal import lfilter

from spinup_tf2.core.trajectories import (
    discount_cumsum,
    gae,
    mixture,
    normalized,
    normalized_in_minibatches,
)
from spinup_tf2.parallel import mpi
from tests.fake_mpi import run_ranks

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
        assert fast.dtype == np.float32
        np.testing.assert_allclose(fast, slow, rtol=1e-5, atol=1e-6)


def test_mixture_by_hand():
    """Each estimate is normalised, (x - mean) / std, and the mixture is not.

    [1, 3] -> [-1, 1] and [8, 4] -> [1, -1]; 0.75 * [-1, 1] + 0.25 * [1, -1] = [-0.5, 0.5]
    """
    advs = np.array([[1.0, 3.0], [8.0, 4.0]], np.float32)
    np.testing.assert_allclose(mixture(advs, (0.75, 0.25)), [-0.5, 0.5])
    np.testing.assert_array_equal(mixture(advs, (1, 0)), normalized(advs[0]))


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
    x = np.array([3.0, 2.0, 1.0])
    np.testing.assert_allclose(discount_cumsum(x, 0.5), [4.25, 2.5, 1])
    rng = np.random.default_rng(0)  # the bits of the filter that Spinning Up uses
    for x in (rng.normal(size=500), rng.normal(size=500).astype(np.float32)):
        found = lfilter([1], [1, -0.97], x[::-1])[::-1]
        np.testing.assert_array_equal(discount_cumsum(x, 0.97), found)


def test_steps_that_do_not_count_have_advantage_0_and_change_no_other():
    adv = np.array([[0.1, 0.5], [10.0, 0.3]], np.float32)  # a deviation below 1
    valid = np.array([[True, True], [False, True]])
    got = normalized(adv, valid)
    assert got[1, 0] == 0
    np.testing.assert_allclose(
        got[valid], np.array([-2, 2, 0]) / np.std([1, 5, 3]), rtol=1e-5, atol=1e-6
    )
    mixed = mixture(np.stack([adv, 2 * adv]), (0.25, 0.75), valid)  # both normalize to the same
    np.testing.assert_allclose(mixed, got, rtol=1e-5, atol=1e-6)


def test_minibatches_are_normalized_each_on_its_own_over_all_ranks():
    """Of two ranks, with two minibatches of six steps: rows 0 to 2 and 3 to 5 of both."""
    adv = np.random.default_rng(0).normal(3, [[1.0], [5.0]], size=(2, 6)).astype(np.float32)
    adv[0, 4] = 100.0  # was lost
    valid = adv < 50
    minibatches = np.array([[2, 0, 1], [3, 5, 4]])
    results = run_ranks(
        2, lambda: normalized_in_minibatches(adv[mpi.proc_id()], minibatches, valid[mpi.proc_id()])
    )
    expected = np.zeros((2, 6))
    for part in (slice(3), slice(3, 6)):
        counted = adv[:, part][valid[:, part]]
        expected[:, part] = (adv[:, part] - counted.mean()) / counted.std()
    expected[0, 4] = 0
    np.testing.assert_allclose(results, expected, rtol=1e-5, atol=1e-6)


def test_a_batch_or_minibatch_of_equal_advantages_becomes_0():
    np.testing.assert_array_equal(normalized(np.full((2, 3), 0.5, np.float32)), np.zeros((2, 3)))
    got = normalized_in_minibatches(
        np.array([0.1, 0.1, 7.0, 7.5], np.float32), np.array([[0, 1], [3, 2]]), np.ones(4, bool)
    )
    np.testing.assert_allclose(got, [0, 0, -1, 1])
    one, none = np.array([[0], [1]]), np.array([True, False])  # a single step, and no step at all
    np.testing.assert_array_equal(
        normalized_in_minibatches(np.array([5.0, 7.0], np.float32), one, none), [0, 0]
    )
