import numpy as np
import pytest

from spinup_tf2.core.buffers import TrajectoryBuffer
from tests.fake_mpi import run_ranks


def value(obs):
    """V(s) = s in these tests, so that bootstraps can be read off."""
    return obs[:, 0]


def fill(buffer, steps, seed=0, num_envs=2):
    rng = np.random.default_rng(seed)
    no = np.zeros(num_envs, bool)
    for _ in range(steps):
        obs = rng.normal(size=(num_envs, 1)).astype(np.float32)
        buffer.store(obs, np.zeros(num_envs), rng.normal(size=num_envs), no, no, {})
    return buffer


def make(steps=4, num_envs=2, **kwargs):
    return TrajectoryBuffer((1,), (), np.int32, steps, num_envs, **kwargs)


def test_bootstraps_by_hand():
    """Three steps of one environment: a time limit, a death, and the end of the data.

    gamma = 0.5, lam = 1, V(s) = s:
    t=0 shows 10 and hits the time limit at 4:  ret = 1 + .5 * 4 = 3
    t=1 shows 20 and dies:                      ret = 1
    t=2 shows 30, and 8 comes next:             ret = 1 + .5 * 8 = 5
    """
    buffer = make(3, 1, gamma=0.5, lam=1)
    yes, no = np.ones(1, bool), np.zeros(1, bool)
    act = np.zeros(1)
    buffer.store(np.array([[10.0]]), act, [1], no, yes, {0: np.array([4.0], np.float32)})
    buffer.store(np.array([[20.0]]), act, [1], yes, no, {0: np.array([99.0], np.float32)})
    buffer.store(np.array([[30.0]]), act, [1], no, no, {})
    batch = buffer.get(value, np.array([[8.0]], np.float32))
    np.testing.assert_allclose(batch["ret"], [3, 1, 5])
    np.testing.assert_allclose(batch["val"], [10, 20, 30])
    adv = np.array([3 - 10, 1 - 20, 5 - 30])
    np.testing.assert_allclose(batch["adv"], (adv - adv.mean()) / adv.std(), rtol=1e-6)


def test_rows_of_all_environments_are_in_the_batch():
    buffer = fill(make(4, 2), 4)
    batch = buffer.get(value, np.zeros((2, 1), np.float32))
    assert batch["obs"].shape == (8, 1)
    assert {batch[k].shape for k in ("act", "adv", "ret", "val")} == {(8,)}
    np.testing.assert_array_equal(batch["obs"][2:4], buffer.obs[1])
    assert all(x.dtype == np.float32 for k, x in batch.items() if k != "act")


def test_equal_advantages_become_zero_not_nan():
    buffer = make(2, 1)
    no = np.zeros(1, bool)
    for _ in range(2):
        buffer.store(np.zeros((1, 1)), np.zeros(1), [0], no, no, {})
    assert (buffer.get(value, np.zeros((1, 1)))["adv"] == 0).all()


def test_advantages_are_normalised_over_all_ranks():
    def rank(seed):
        return fill(make(50), 50, seed).get(value, np.zeros((2, 1), np.float32))["adv"]

    from spinup_tf2.utils import mpi_tools

    adv = np.concatenate(run_ranks(3, lambda: rank(mpi_tools.proc_id())))
    assert abs(adv.mean()) < 1e-6
    assert abs(adv.std() - 1) < 1e-6


def test_a_full_or_unfilled_buffer_says_so():
    buffer = fill(make(4), 3)
    with pytest.raises(ValueError, match="holds 3 of 4"):
        buffer.get(value, np.zeros((2, 1)))
    fill(buffer, 1)
    with pytest.raises(IndexError, match="full"):
        fill(buffer, 1)
