import gymnasium as gym
import numpy as np
import pytest

from spinup_tf2.core.vector_env import EpisodeStatistics, VectorEnv, environment_seed
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


def test_environments_do_not_depend_on_how_they_are_spread():
    """Environment 2 of four in one process is environment 0 of the third process's one."""
    together = VectorEnv(lambda: gym.make("CartPole-v1"), 4, seed=3)
    alone = VectorEnv(lambda: gym.make("CartPole-v1"), 1, seed=3, first_env=2)
    np.testing.assert_array_equal(together.reset()[2:3], alone.reset())
    np.testing.assert_array_equal(together.noise(7, 50)[:, 2:3], alone.noise(7, 50))


def test_streams_differ_between_environments_epochs_and_seeds():
    envs = VectorEnv(lambda: gym.make("Pendulum-v1"), 2, seed=0)
    other = VectorEnv(lambda: gym.make("Pendulum-v1"), 1, seed=1)
    streams = [*envs.noise(0, 20).swapaxes(0, 1), *envs.noise(1, 20).swapaxes(0, 1)]
    streams.append(other.noise(0, 20)[:, 0])
    assert len({s.tobytes() for s in streams}) == 5
    assert len({environment_seed(s, i) for s in range(20) for i in range(20)}) == 400


def test_async_equals_sync():
    outputs = []
    for vectorization in ("sync", "async"):
        envs = VectorEnv(
            lambda: gym.make("CartPole-v1"), 2, seed=5, max_ep_len=20, vectorization=vectorization
        )
        rows = [envs.reset()]
        for t in range(60):
            obs, rew, terminated, truncated, final_obs = envs.step(np.array([t % 2, 1]))
            rows += [obs, rew, terminated, truncated, *final_obs.values()]
        envs.close()
        outputs.append(rows)
    assert len(outputs[0]) == len(outputs[1])
    for a, b in zip(*outputs, strict=True):
        np.testing.assert_array_equal(a, b)


def test_unsupported_observations_are_refused():
    class Pair(Counter):
        observation_space = gym.spaces.Tuple([gym.spaces.Discrete(2)] * 2)

    with pytest.raises(UserError, match="Tuple"):
        VectorEnv(Pair)


def test_episode_statistics_carry_unfinished_episodes_over_epochs():
    stats = EpisodeStatistics(2)
    rew = np.array([[1, 10], [2, 20], [3, 30]], np.float32)
    ends = np.array([[0, 0], [1, 0], [0, 0]], bool)
    assert stats.update(rew, ends) == ([3], [2])
    # Environment 0 goes on with 3; environment 1 has had 60 in 3 steps.
    ends = np.array([[1, 0], [0, 0], [1, 1]], bool)
    assert stats.update(rew, ends) == ([3 + 1, 2 + 3, 60 + 60], [2, 2, 6])
    assert stats.update(rew, np.zeros((3, 2), bool)) == ([], [])
