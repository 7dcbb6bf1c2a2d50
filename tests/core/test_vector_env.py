import random
from functools import partial

import gymnasium as gym
import numpy as np
import pytest

from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.core.workers.episodes import Episodes
from spinup_tf2.core.workers.randomness import environment_seed
from spinup_tf2.errors import UserError


class Counter(gym.Env):
    """Shows how many steps its episode has had, and dies after `length` of them."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, length=5):
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1), {}

    def step(self, action):
        self.t += 1
        return np.full(1, float(self.t)), float(action), self.t == self.length, False, {}


class Legacy(Counter):
    """Draws from the generators that all of a process share, also when it is made."""

    def __init__(self):
        super().__init__()
        self.drawn = random.random()

    def step(self, action):
        obs, rew, *rest = super().step(action)
        return obs + self.drawn + random.random(), rew, *rest


def test_processes_do_not_share_the_draws_of_global_generators():
    """Nor does it matter what another process has drawn: equal runs are equal."""

    def drawn(seed):
        envs = VectorEnv(Legacy, 2, seed, vectorization="async")
        envs.reset()
        obs, *_ = envs.step(np.zeros(2, int))
        envs.close()
        return obs[:, 0].tolist()

    first, second = drawn(0)
    assert first != second
    assert drawn(0) == [first, second] != drawn(1)


@pytest.mark.parametrize("vectorization", ["sync", "async", "threads"])
def test_final_observations_and_time_limits(vectorization):
    """Environments die at step 5, or are cut off at 3; either way the last observation is known."""
    for max_ep_len, died in [(10, True), (3, False)]:
        envs = VectorEnv(Counter, 2, max_ep_len=max_ep_len, vectorization=vectorization)
        obs = envs.reset()
        assert obs.dtype == np.float32
        last = 5 if died else 3
        for t in range(1, last):
            obs, _, terminated, truncated, final_obs = envs.step(np.array([0, 1]))
            assert not final_obs
            assert not (terminated | truncated).any()
            np.testing.assert_array_equal(obs, [[t], [t]])
        obs, rew, terminated, truncated, final_obs = envs.step(np.array([0, 1]))
        np.testing.assert_array_equal(obs, [[0], [0]])  # already the next episode
        np.testing.assert_array_equal(rew, [0, 1])
        np.testing.assert_array_equal(terminated, [died] * 2)
        np.testing.assert_array_equal(truncated, [not died] * 2)
        assert sorted(final_obs) == [0, 1]
        np.testing.assert_array_equal(final_obs[0], [last])
        envs.close()


@pytest.mark.parametrize("vectorization", ["sync", "async", "threads"])
@pytest.mark.parametrize("wrapped", [False, True])
def test_one_environment_in_several_places_is_refused(vectorization, wrapped):
    """It would be reset by one in the middle of another's episode."""
    env = Counter()
    again = {True: lambda: gym.wrappers.TimeLimit(env, 3), False: lambda: env}[wrapped]
    with pytest.raises(UserError, match=r"same environment twice\. Each call must make a new one"):
        VectorEnv(again, 2, vectorization=vectorization)


class Reusing(gym.Env):
    """Shows how many steps its episode has had, always in the same array; clips actions in place.

    kind: of the observations: 'Box', 'image' or 'Dict'.
    """

    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, kind):
        box = gym.spaces.Box(0, 255, (2,), np.float32)
        self.observation_space, self.obs = {
            "Box": (box, np.zeros(2, np.float32)),
            "image": (
                gym.spaces.Box(0, 255, (40, 40, 1), np.uint8),
                np.zeros((40, 40, 1), np.uint8),
            ),
            "Dict": (gym.spaces.Dict(a=box), {"a": np.zeros(2, np.float32)}),
        }[kind]

    def _show(self, t):
        shown = self.obs["a"] if isinstance(self.obs, dict) else self.obs
        shown[...] = self.t = t
        return self.obs

    def reset(self, *, seed=None, options=None):
        return self._show(0), {}

    def step(self, action):
        np.clip(action, -0.5, 0.5, out=action)
        return self._show(self.t + 1), float(action.sum()), False, False, {}


@pytest.mark.parametrize("vectorization", ["sync", "async", "threads"])
@pytest.mark.parametrize("kind", ["Box", "image", "Dict"])
def test_arrays_that_are_used_again_do_not_change_what_was_seen_and_done(kind, vectorization):
    """An episode is cut off after 3 steps; then the environment writes 0 where 3 was."""
    make = partial(Reusing, kind)
    with VectorEnv(make, 2, max_ep_len=3, vectorization=vectorization) as envs:
        first = envs.reset()
        seen, act = [], np.array([[0.25, 2], [-2, -0.25]], np.float32)
        for _ in range(3):
            obs, rew, _, truncated, final_obs = envs.step(act)
            seen.append(obs)
            assert act.tolist() == [[0.25, 2], [-2, -0.25]]
            assert rew.tolist() == [0.75, -0.75]  # as the environment has clipped it
    assert truncated.all()
    assert [np.unique(obs).tolist() for obs in (first, *seen)] == [[0], [1], [2], [0]]
    assert [np.unique(final_obs[i]).tolist() for i in range(2)] == [[3], [3]]


def test_environments_do_not_depend_on_how_they_are_spread():
    """Environment 2 of four in one process is environment 0 of the third process's one."""
    together = VectorEnv(lambda: gym.make("CartPole-v1"), 4, seed=3)
    alone = VectorEnv(lambda: gym.make("CartPole-v1"), 1, seed=3, first_env=2)
    np.testing.assert_array_equal(together.reset()[2:3], alone.reset())
    noise, own_noise = (envs.randomness.noise(7, 50) for envs in (together, alone))
    np.testing.assert_array_equal(noise[:, 2:3], own_noise)


def test_streams_differ_between_environments_epochs_and_seeds():
    envs = VectorEnv(lambda: gym.make("Pendulum-v1"), 2, seed=0)
    other = VectorEnv(lambda: gym.make("Pendulum-v1"), 1, seed=1)
    streams = [*envs.randomness.noise(0, 20).swapaxes(0, 1)]
    streams += [*envs.randomness.noise(1, 20).swapaxes(0, 1)]
    streams.append(other.randomness.noise(0, 20)[:, 0])
    assert len({s.tobytes() for s in streams}) == 5
    assert len({environment_seed(s, i) for s in range(20) for i in range(20)}) == 400


def test_unfinished_episodes_are_carried_over_epochs():
    episodes = Episodes(2)

    def count(rew, ends):
        counted = episodes.count(rew, ends)
        assert counted.pop("SuccessRate") == []
        return tuple(counted.values())

    rew = np.array([[1, 10], [2, 20], [3, 30]], np.float32)
    ends = np.array([[0, 0], [1, 0], [0, 0]], bool)
    assert count(rew, ends) == ([3], [2])
    # Environment 0 goes on with 3; environment 1 has had 60 in 3 steps.
    ends = np.array([[1, 0], [0, 0], [1, 1]], bool)
    assert count(rew, ends) == ([3 + 1, 2 + 3, 60 + 60], [2, 2, 6])
    assert count(rew, np.zeros((3, 2), bool)) == ([], [])
