"""Environments with one pool do what they do with a pool each, on a stand-in for EnvPool."""

import gymnasium as gym
import numpy as np
import pytest

import spinup_tf2  # noqa: F401  (registers its environments)
from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.envs.envpool import EnvPoolEnv
from spinup_tf2.envs.envpool.env import share
from spinup_tf2.envs.making import EnvFn

N = 5


def count(**options):
    return EnvFn("EnvPool-v0", dict(task_id="Count-v0", **options))


def steps(envs, number=60):
    """All that environments answer, and where episodes have ended."""
    rng, answers = np.random.default_rng(0), [envs.reset()]
    for _ in range(number):
        obs, rew, terminated, truncated, final_obs = envs.step(rng.integers(4, size=envs.num_envs))
        last = [x for x in final_obs.values() if x is not None]
        answers += [obs, rew, terminated, truncated, *last]
    return answers


def assert_equal(xs, ys):
    for x, y in zip(xs, ys, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("max_ep_len", [1000, 3])
def test_nothing_changes(stand_in, monkeypatch, max_ep_len):
    with VectorEnv(count(), N, max_ep_len=max_ep_len) as envs:
        answers = steps(envs)
        assert stand_in.made == 1
        assert envs.reset(1).shape == (N, 2)
        assert stand_in.made == 2
    monkeypatch.setattr("spinup_tf2.core.workers.vector.share", lambda *_: None)
    with VectorEnv(count(), N, max_ep_len=max_ep_len) as envs:
        assert_equal(answers, steps(envs))
        assert stand_in.made == 2 + N
    with VectorEnv(count(), N, max_ep_len=max_ep_len, vectorization="threads") as envs:
        assert_equal(answers, steps(envs))


class Twice(gym.Wrapper):
    def step(self, action):
        self.env.step(action)
        return self.env.step(action)


class Other(gym.ActionWrapper):
    def action(self, action):
        return 0


@pytest.mark.usefixtures("stand_in")
def test_who_can_share():
    make = count()
    assert share([make(), make()]) is not None
    assert share([gym.wrappers.TimeLimit(make(), 3), make()]) is not None
    assert share([make()]) is None
    assert share([make(), count(length=3)()]) is None
    assert share([make(), gym.make("CartPole-v1")]) is None
    assert share([gym.make("CartPole-v1"), gym.make("CartPole-v1")]) is None
    assert share([Twice(make()), Twice(make())]) is None
    assert share([Other(make()), Other(make())]) is None
    drawn = count(render_mode="rgb_array")
    assert share([drawn(), drawn()]) is None


class Failing(EnvPoolEnv):
    """Raises an exception in its third step, if its index is in `failing`."""

    failing = (2,)

    def __init__(self, **kwargs):
        super().__init__("Count-v0", **kwargs)
        self._left = 3 if made.pop(0) in self.failing else 10**6

    def step(self, action):
        self._left -= 1
        if self._left == 0:
            raise RuntimeError("broken")
        return super().step(action)


made = []


def test_one_that_is_made_anew_does_not_disturb_the_others(stand_in, capfd):
    def answers(failing):
        made[:] = ["prototype", *range(N), "anew"]
        Failing.failing = failing
        with VectorEnv(Failing, N, env_retries=1) as envs:
            obs, rng, lost = [envs.reset()], np.random.default_rng(0), []
            for t in range(40):
                step = envs.step(rng.integers(4, size=N))
                obs += step[:4]
                lost += [(t, i) for i, last in step[-1].items() if last is None]
            return [np.delete(each, 2, axis=0) for each in obs], lost

    others, lost = answers(failing=(2,))
    assert lost == [(2, 2)]
    expected, lost = answers(failing=())
    assert not lost
    assert_equal(others, expected)
    assert "broken" in capfd.readouterr().err
