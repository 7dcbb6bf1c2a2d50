"""What brings environments back to where they were: seeds of the moment, and actions again."""

import gymnasium as gym
import numpy as np
import pytest

from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.core.workers.randomness import environment_seed
from spinup_tf2.parallel.mpi import has_beaten
from spinup_tf2.training.replay import ActionLog

BOX = gym.spaces.Box(-1, 1, (3,), np.float32)


class Wandering(gym.Env):
    """A random walk from a random place that the actions push; episodes end at random."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)

    def __init__(self, action_space=BOX):
        self.action_space = action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.obs = self.np_random.normal(size=3).astype(np.float32)
        return self.obs, {}

    def step(self, action):
        noise = self.np_random.normal(size=3).astype(np.float32)
        self.obs = (self.obs + noise + np.float32(action)).astype(np.float32)
        ended = self.np_random.uniform() < 0.2
        return self.obs, float(self.obs.sum()), ended, False, {}


def wander(envs, steps, rng):
    """Step with random actions; all that is seen."""
    seen = []
    for _ in range(steps):
        act = rng.normal(size=(envs.num_envs, *envs.action_spec.shape))
        if envs.action_spec.num_choices is not None:
            act = rng.integers(envs.action_spec.num_choices, size=envs.num_envs)
        act = act.astype(envs.action_spec.dtype)
        obs, rew, terminated, truncated, final_obs = envs.step(act)
        final = sorted((i, x.tolist()) for i, x in final_obs.items())
        seen.append((obs.tolist(), rew.tolist(), terminated.tolist(), truncated.tolist(), final))
    return seen


def states(envs):
    """As a checkpoint keeps them, by the index of the environment."""
    return {index: envs.log.env_state(i) for i, index in enumerate(envs.indices)}


def take_back(envs, saved):
    for i, index in enumerate(envs.indices):
        envs.log.set_env_state(i, saved[index])


# ------------------------------------------------------------------------------------- seeds


def test_every_moment_has_seeds_of_its_own():
    moments = [(epoch, step) for epoch in range(6) for step in range(0, 60, 20)]
    seeds = [environment_seed(3, i, *moment) for moment in moments for i in range(5)]
    assert len({*seeds}) == len(seeds)
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_reset_at_another_moment_shows_something_else():
    with VectorEnv(Wandering, 2, seed=1) as envs:
        shown = {moment: envs.reset(*moment) for moment in ((0, 0), (1, 0), (1, 20), (2, 0))}
        for moment, obs in shown.items():
            np.testing.assert_array_equal(envs.reset(*moment), obs)
        assert len({obs.tobytes() for obs in shown.values()}) == 4


# ----------------------------------------------------------------------------------- actions


@pytest.mark.parametrize("action_space", [BOX, gym.spaces.Discrete(4)])
@pytest.mark.parametrize("num_envs", [1, 3])
def test_replay_goes_on_where_it_was(action_space, num_envs):
    def make():
        return VectorEnv(lambda: Wandering(action_space), num_envs, seed=5, max_ep_len=7)

    with make() as envs, make() as others:
        envs.log, others.log = ActionLog(envs), ActionLog(others)
        envs.reset(2, 40)
        before = wander(envs, 30, np.random.default_rng(0))
        saved = states(envs)
        expected = wander(envs, 30, np.random.default_rng(1))

        take_back(others, saved)
        assert others.log.replay().tolist() == before[-1][0]
        for i, state in states(others).items():  # and may be saved again at once
            for name, x in state.items():
                assert x.dtype == saved[i][name].dtype
                np.testing.assert_array_equal(x, saved[i][name])
        assert wander(others, 30, np.random.default_rng(1)) == expected


class Stubborn(Wandering):
    """It has a random generator of its own, of which a seed knows nothing."""

    generator = np.random.default_rng(0)

    def step(self, action):
        obs, rew, *rest = super().step(action)
        return obs, rew + self.generator.uniform(), *rest


def normalized():
    return gym.wrappers.NormalizeObservation(Wandering())


@pytest.mark.parametrize("vectorization", ["sync", "threads"])
@pytest.mark.parametrize(
    ("env_fn", "first"), [(Wandering, None), (Stubborn, 1), (normalized, 0)]
)  # the step in which they first differ from what they were
def test_environments_that_do_not_come_back_are_found(env_fn, first, vectorization):
    def make():
        envs = VectorEnv(env_fn, 3, seed=5, max_ep_len=7, vectorization=vectorization)
        envs.log = ActionLog(envs)
        return envs

    with make() as envs, make() as others:
        envs.reset()
        wander(envs, 10, np.random.default_rng(0))
        envs.reset(1)
        wander(envs, 30, np.random.default_rng(1))
        envs.log.forget(4)
        for steps in (None, 5):
            take_back(others, states(envs))
            others.log.replay(steps=steps)
            assert len(others.log.env_state(0)["actions"]) == (steps or 26)
            assert [*others.log.strayed.values()] == ([] if first is None else [first] * 3)
        assert {*others.log.strayed} <= {*envs.labels}


def test_other_layouts_replay_the_same():
    """Four environments in one process go on as two in each of two."""
    with VectorEnv(Wandering, 4, seed=5) as envs:
        envs.log = ActionLog(envs)
        envs.reset(1)
        wander(envs, 12, np.random.default_rng(0))
        saved = states(envs)
        expected = envs.log.replay()
    for first in (0, 2):
        with VectorEnv(Wandering, 2, seed=5, first_env=first) as half:
            half.log = ActionLog(half)
            take_back(half, saved)
            np.testing.assert_array_equal(half.log.replay(), expected[first : first + 2])


def test_forgotten_steps_are_not_replayed():
    with VectorEnv(Wandering, 2, seed=5) as envs:
        envs.log = ActionLog(envs)
        envs.reset()
        before = wander(envs, 9, np.random.default_rng(0))
        wander(envs, 4, np.random.default_rng(1))
        envs.log.forget(0)
        assert len(envs.log.env_state(0)["actions"]) == 13
        envs.log.forget(4)
        assert envs.log.replay().tolist() == before[-1][0]
        envs.log.forget(9)
        np.testing.assert_array_equal(envs.log.replay(), envs.reset())


def test_an_empty_log_begins_as_a_run_does():
    """As a checkpoint holds it that is written before the first step."""
    with VectorEnv(Wandering, 2) as envs:
        log = ActionLog(envs)
        first = envs.reset()
        wander(envs, 9, np.random.default_rng(0))
        states = [log.env_state(i) for i in range(2)]
        assert [len(state["actions"]) for state in states] == [0, 0]
        envs.log = ActionLog(envs)
        take_back(envs, states)
        np.testing.assert_array_equal(envs.log.replay(), first)


def test_reset_begins_to_remember_anew():
    with VectorEnv(Wandering, 1) as envs:
        envs.log = ActionLog(envs)
        envs.reset()
        wander(envs, 9, np.random.default_rng(0))
        obs = envs.reset(3, 20)
        assert envs.log.env_state(0)["began"].tolist() == [3, 20]
        has_beaten()  # forgets it
        np.testing.assert_array_equal(envs.log.replay(), obs)
        assert has_beaten()  # many actions of slow environments are progress to the watchdog


def test_actions_are_kept_as_they_were():
    """The caller may reuse its array."""
    with VectorEnv(Wandering, 1) as envs:
        envs.log = ActionLog(envs)
        envs.reset()
        act = np.ones((1, 3), np.float32)
        envs.step(act)
        act[:] = 2
        assert envs.log.env_state(0)["actions"].tolist() == [[1, 1, 1]]
