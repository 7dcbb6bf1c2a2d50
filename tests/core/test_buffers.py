from functools import partial

import numpy as np
import pytest

from spinup_tf2.algos.ppo import PPOBuffer
from spinup_tf2.core.nets.acting import Actor, Critic
from spinup_tf2.core.trajectories import TrajectoryBuffer, estimates, mixed_estimates
from spinup_tf2.errors import UserError


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


class PlainCritic(Critic):
    """A Critic that is a function."""

    def __init__(self, function):
        self.function = function

    def __call__(self, obs):
        return self.function(obs)


class Buffer(TrajectoryBuffer):
    """Steps as rows without names, and batches `[T * n, ...]`."""

    def __init__(self, size, returns):
        super().__init__(size, rew=np.float32, act=np.int32)
        self.returns = returns

    def store(self, obs, act, rew, terminated, truncated, final_obs, val=None):
        ends = dict(terminated=np.array(terminated), truncated=np.array(truncated))
        step = dict(obs=obs, act=np.array(act), rew=np.array(rew), **ends)
        super().store(final_obs, **step, **({} if val is None else dict(val=val)))

    def get(self, value, last_obs):
        batch = super().get(PlainCritic(value), last_obs, self.returns)
        return Actor.batch(None, batch)


def make(steps=4, gamma=0.99, lam=0.95, coeff=None, **kwargs):
    if coeff is not None:
        mixed = dict(gamma=gamma, lams=lam, coeffs=(coeff, 1 - coeff))
        return Buffer(steps, partial(mixed_estimates, **mixed))
    return Buffer(steps, partial(estimates, gamma=gamma, lam=lam, **kwargs))


def test_bootstraps_by_hand():
    """Three steps of one environment: a time limit, a death, and the end of the data.

    gamma = 0.5, lam = 1, V(s) = s:
    t=0 shows 10 and hits the time limit at 4:  ret = 1 + .5 * 4 = 3
    t=1 shows 20 and dies:                      ret = 1
    t=2 shows 30, and 8 comes next:             ret = 1 + .5 * 8 = 5
    """
    buffer = make(3, gamma=0.5, lam=1)
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


def lose(buffer, obs, env_lost):
    """Append a step of two environments that one of them has lost."""
    no = np.zeros(2, bool)
    final_obs = {env_lost: None}
    buffer.store(obs, np.zeros(2), np.zeros(2), no, np.arange(2) == env_lost, final_obs)


@pytest.mark.parametrize("coeff", [None, 0.25])
def test_a_step_that_was_lost_teaches_nothing_by_hand(coeff):
    """Environment 0 loses its third step of four, environment 1 none.

    gamma = 0.5, lam = 1, V(s) = s. Environment 0 shows 10, 20, 30, and after the new start 40, 8:
    t=1 is cut off in 30:             ret = 2 + .5 * 30 = 17,  t=0:  ret = 1 + .5 * 17 = 9.5
    t=2 is lost:                      adv = 0, ret = V(30) = 30
    t=3 is cut off by the end in 8:   ret = 4 + .5 * 8 = 8
    """
    buffer = make(4, gamma=0.5, lam=1 if coeff is None else (1, 1), coeff=coeff)
    no, rng = np.zeros(2, bool), np.random.default_rng(0)
    for epoch in range(2):  # the second time, nothing is left of the first
        buffer.start()
        others = rng.normal(size=5)
        for t, shown in enumerate((10, 20, 30, 40)):
            obs = np.array([[shown], [others[t]]], np.float32)
            if t == 2 and epoch == 0:
                lose(buffer, obs, 0)
            else:
                buffer.store(obs, np.zeros(2), np.array([t + 1, t]), no, no, {})
        last_obs = np.array([[8], [others[4]]], np.float32)
        batch = {
            key: x.reshape(4, 2) for key, x in buffer.get(value, last_obs).items() if key != "obs"
        }
        if epoch == 0:
            np.testing.assert_allclose(batch["ret"][:, 0], [9.5, 17, 30, 8])
            adv = batch["ret"] - batch["val"]
            valid = np.ones((4, 2), bool)
            valid[2, 0] = False
            expected = (adv - adv[valid].mean()) / adv[valid].std()
            np.testing.assert_allclose(batch["adv"][valid], expected[valid], rtol=1e-5)
            assert batch["adv"][2, 0] == 0
    assert batch["ret"][2, 0] == 3 + 0.5 * (4 + 0.5 * 8)


def test_the_step_before_the_first_one_is_none_of_this_batch():
    """A batch in which only the first steps are lost, and one in which all are."""
    buffer = make(2, gamma=0.5, lam=1)
    lose(buffer, np.array([[1.0], [2.0]]), 1)
    fill(buffer, 1)
    batch = buffer.get(value, np.zeros((2, 1), np.float32))
    assert (batch["adv"][1], batch["ret"][1]) == (0, 2)

    buffer = make(1)
    buffer.store(np.ones((1, 1)), [0], [0], [False], [True], {0: None})
    batch = buffer.get(value, np.zeros((1, 1), np.float32))
    assert (batch["adv"].tolist(), batch["ret"].tolist()) == ([0], [1])


def test_values_that_were_stored_are_not_computed_again():
    """Only V of what follows is asked for: the last observation, and those at time limits."""
    buffer = make(3, gamma=0.5, lam=1, normalize=False)
    asked, yes, no, act = [], np.ones(1, bool), np.zeros(1, bool), np.zeros(1)

    def value_now(obs):
        asked.extend(obs[:, 0])
        return obs[:, 0]

    for end, final_obs in ((no, {}), (yes, {0: np.array([4.0], np.float32)}), (no, {})):
        buffer.store(np.zeros((1, 1)), act, [1], no, end, final_obs, np.array([7.0]))
    batch = buffer.get(value_now, np.array([[8.0]], np.float32))
    assert asked == [8.0, 4.0]
    np.testing.assert_array_equal(batch["val"], [7, 7, 7])
    np.testing.assert_allclose(batch["ret"], [1 + 0.5 * 3, 1 + 0.5 * 4, 1 + 0.5 * 8])
    np.testing.assert_allclose(batch["adv"], batch["ret"] - 7)


def test_a_full_or_unfilled_buffer_says_so():
    buffer = fill(make(4), 3)
    with pytest.raises(ValueError, match="holds 3 of 4"):
        buffer.get(value, np.zeros((2, 1)))
    fill(buffer, 1)
    with pytest.raises(IndexError, match="out of bounds"):
        fill(buffer, 1)


# ------------------------------------------------------------------------------ two lambdas


def both_buffers(lam, coeff, size=40):
    """The same two episodes and a bit in a TrajectoryBuffer and in a PPOBuffer: `adv, ret` each."""
    rng = np.random.default_rng(3)
    states = rng.normal(size=(size + 1, 1)).astype(np.float32)
    rews = rng.normal(size=size).astype(np.float32)
    many = make(size, gamma=0.9, lam=lam, coeff=coeff and coeff[0])
    one = PPOBuffer(1, None, size, 0.9, lam, coeff)
    for t in range(size):
        died, timed_out = t == 11, t == 30
        last = {0: states[t + 1] + 1} if died or timed_out else {}
        flags = np.array([died]), np.array([timed_out])
        many.store(states[t : t + 1], np.zeros(1), rews[t : t + 1], *flags, last)
        one.store(states[t], 0, rews[t], states[t, 0], -1)
        if died or timed_out or t == size - 1:
            last_obs = last[0] if last else states[t + 1]
            one.finish_path(0 if died else last_obs[0])
    batch = many.get(value, states[-1:])
    _, _, adv, ret, _ = one.get()
    return (batch["adv"], batch["ret"]), (adv, ret)


@pytest.mark.parametrize(("lam", "coeff"), [(0.97, None), ((0.97, 0.5), (0.25, 0.75))])
def test_the_two_buffers_agree(lam, coeff):
    for ours, theirs in zip(*both_buffers(lam, coeff), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def golden(lam, coeff=None):
    """gamma = 0.5. A path of three steps that is cut off at V = 8, and a step that terminates:

    rew 1 2 3, val 1 2 4:  delta = 1 + 1 - 1, 2 + 2 - 2, 3 + 4 - 4 = 1, 2, 3
    rew 1, val 3:          delta = 1 - 3 = -2
    ret = 1 + .5 * 5.5, 2 + .5 * 7, 3 + .5 * 8 and 1
    """
    buf = PPOBuffer((2,), 3, 4, gamma=0.5, lam=lam, coeff=coeff)
    for scale in (7, 1):  # of the first batch, nothing is left in the second one
        for t, (rew, val) in enumerate([(1, 1), (2, 2), (3, 4)]):
            buf.store(np.full(2, t), np.full(3, -t), scale * rew, val, -0.1 * t)
        buf.finish_path(8)
        buf.store(np.full(2, 3), np.full(3, -3), 1, 3, -0.3)
        buf.finish_path(0)
        obs, act, adv, ret, logp = buf.get()
    np.testing.assert_array_equal(obs, [[0, 0], [1, 1], [2, 2], [3, 3]])
    np.testing.assert_array_equal(act, -np.arange(4.0)[:, None] * np.ones(3))
    np.testing.assert_allclose(logp, [0, -0.1, -0.2, -0.3], rtol=1e-6)
    np.testing.assert_allclose(ret, [3.75, 5.5, 7, 1])
    assert {x.dtype for x in (obs, act, adv, ret, logp)} == {np.dtype(np.float32)}
    return adv


# adv[t] = delta[t] + gamma * lam * adv[t+1], with gamma * lam = 1/4 and 1/2
ADV_HALF = np.array([1 + 2.75 / 4, 2 + 3 / 4, 3, -2])
ADV_ONE = np.array([1 + 3.5 / 2, 2 + 3 / 2, 3, -2])


def test_ppo_buffer_is_spinning_ups():
    np.testing.assert_allclose(
        golden(0.5), (ADV_HALF - ADV_HALF.mean()) / ADV_HALF.std(), rtol=1e-5
    )


def test_ppo_buffer_with_two_lambdas():
    half, one = ((adv - adv.mean()) / adv.std() for adv in (ADV_HALF, ADV_ONE))
    np.testing.assert_allclose(golden((0.5, 1), (0.25, 0.75)), half / 4 + one * 3 / 4, rtol=1e-5)


@pytest.mark.parametrize(
    ("lam", "coeff"), [((0.97, 0.93), None), (0.97, (0.5, 0.5)), ((0.97, 0.93), (1.0,))]
)
def test_ppo_buffer_takes_as_many_coefficients_as_lambdas(lam, coeff):
    with pytest.raises(UserError, match="as many coefficients"):
        PPOBuffer(3, 1, 10, 0.99, lam, coeff)
