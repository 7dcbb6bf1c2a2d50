"""Environments in threads: the same as in one, at the same time, and never two in one."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import gymnasium as gym
import numpy as np
import pytest

from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.core.workers.faults import EnvironmentFailure
from spinup_tf2.core.workers.vector import ThreadsVectorEnv
from spinup_tf2.training.replay import ActionLog
from tests.training.test_action_log import Wandering, states, take_back, wander


class Watched(gym.Env):
    """Tells which threads have been in it, and fails if two are at a time.

    Steps with action 1 wait until all environments that share `together` are in theirs.
    """

    observation_space = gym.spaces.Box(0, 99, (1,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, together=None, length=3):
        self.together, self.length = together, length
        self.inside = threading.Lock()
        self.threads, self.calls, self.closed = set(), [], False

    def _enter(self, name):
        assert self.inside.acquire(blocking=False), "two threads in one environment"
        assert not self.closed
        self.threads.add(threading.current_thread().name)
        self.calls.append(name)

    def reset(self, *, seed=None, options=None):
        self._enter("reset")
        super().reset(seed=seed)
        self.t = 0
        self.inside.release()
        return np.zeros(1, np.float32), {"options": options}

    def step(self, action):
        self._enter("step")
        try:
            if action == 1:
                self.together.wait(timeout=30)
            if action == 2:
                raise ValueError("the joint is broken")
            self.t += 1
            time.sleep(0.01)
            return np.full(1, self.t, np.float32), 1.0, self.t == self.length, False, {}
        finally:
            self.inside.release()

    def close(self):
        assert self.inside.acquire(blocking=False), "closed while a thread is in it"
        self.closed = True


def watched(number, threads, **kwargs):
    envs = [Watched(**kwargs) for _ in range(number)]
    pool = ThreadPoolExecutor(threads, "environments")
    return envs, ThreadsVectorEnv([partial(lambda env: env, env) for env in envs], pool)


# ---------------------------------------------------------------- threads


def test_environments_are_in_their_steps_at_the_same_time():
    """With one thread the first of them would wait for the others for ever."""
    envs, vector = watched(3, 3, together=threading.Barrier(3))
    vector.reset(seed=[1, 2, 3])
    for _ in range(4):
        vector.step(np.ones(3, int))
    names = set().union(*(env.threads for env in envs))
    assert all(name.startswith("environments") for name in names)
    assert len(names) == 3
    vector.close()
    assert all(env.closed for env in envs)


def test_more_environments_than_threads():
    """Steps with resets among them: no environment is in two threads, and none is left out."""
    envs, vector = watched(5, 2)
    vector.reset()
    for _ in range(7):
        vector.step(np.zeros(5, int))
    expected = ["reset", *["step"] * 3, "reset", *["step"] * 3, "reset", "step"]
    assert [env.calls for env in envs] == [expected] * 5
    assert len(set().union(*(env.threads for env in envs))) <= 2
    vector.close()


def test_an_exception_leaves_no_thread_at_work():
    envs, vector = watched(4, 2)
    vector.reset()
    for _ in range(2):  # and afterwards all goes on
        with pytest.raises(ValueError, match="the joint is broken"):
            vector.step(np.array([2, 0, 0, 0]))
        assert not any(env.inside.locked() for env in envs)
        obs, _ = vector.reset()
        assert (obs == 0).all()
        obs, *_ = vector.step(np.zeros(4, int))
        assert (obs == 1).all()
    vector.close()


# ---------------------------------------------------------------- the same as in one


def trajectories(env_fn, vectorization, num_envs, steps, **kwargs):
    with VectorEnv(env_fn, num_envs, vectorization=vectorization, **kwargs) as envs:
        rng = np.random.default_rng(0)
        rows = [envs.reset()]
        for t in range(steps):
            if t == steps // 2:
                rows.append(envs.reset(epoch=1, step=t))
            choices = envs.action_spec.num_choices
            act = rng.normal(size=(num_envs, 1)).astype(np.float32)
            if choices is not None:
                act = rng.integers(choices, size=num_envs)
            obs, rew, terminated, truncated, final_obs = envs.step(act)
            rows += [obs, rew, terminated, truncated, sorted(final_obs), *final_obs.values()]
    return rows


@pytest.mark.parametrize(
    ("env_id", "max_ep_len", "vectorization"),
    [
        ("CartPole-v1", 15, "threads"),
        ("Pendulum-v1", 7, "threads"),
        ("FrozenLake-v1", 9, "threads"),
        ("CartPole-v1", 15, "async"),
    ],
)
def test_threads_and_processes_equal_sync(env_id, max_ep_len, vectorization, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    same = [
        trajectories(partial(gym.make, env_id), how, 5, 60, seed=3, max_ep_len=max_ep_len)
        for how in ("sync", vectorization)
    ]
    assert len(same[0]) == len(same[1]) > 300
    for a, b in zip(*same, strict=True):
        np.testing.assert_array_equal(a, b)


# ---------------------------------------------------------------- what VectorEnv adds


def test_replay_brings_them_back(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with VectorEnv(Wandering, 3, seed=5, vectorization="threads") as envs:
        envs.log = ActionLog(envs)
        envs.reset()
        wander(envs, 20, np.random.default_rng(0))
        saved = states(envs)
        expected = wander(envs, 10, np.random.default_rng(1))
    for how in ("threads", "sync"):
        with VectorEnv(Wandering, 3, seed=5, vectorization=how) as envs:
            envs.log = ActionLog(envs)
            take_back(envs, saved)
            envs.log.replay()
            assert wander(envs, 10, np.random.default_rng(1)) == expected


def test_a_failure_names_the_environment(monkeypatch):
    """The second of three fails. The third, which works at the same time, is closed as well."""
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    made = []

    def make():
        made.append(Watched())
        return made[-1]

    with VectorEnv(make, 3, vectorization="threads") as envs:
        envs.reset()
        envs.step(np.zeros(3, int))
        with pytest.raises(EnvironmentFailure, match=r"nt 1 \(Watched.*in step 2") as failed:
            envs.step(np.array([0, 2, 0]))
        assert isinstance(failed.value.__cause__, ValueError)
    assert len(made) == 4
    assert all(env.closed for env in made)
