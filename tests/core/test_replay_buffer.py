"""The ring of arrays against a list of steps."""

from collections import deque

import numpy as np
import pytest

from spinup_tf2.core.replay_buffer import ReplayBuffer, batch_rows
from spinup_tf2.core.workers.faults import EnvironmentFailure

ACT_SHAPE = (2,)


class ListBuffer:
    """The obvious version: for each environment, a list of steps with all that belongs to them.

    A step that was lost is kept as one that no sample can be equal to.
    """

    def __init__(self, size, num_envs):
        self.steps = [deque(maxlen=size) for _ in range(num_envs)]

    def store(self, obs, act, rew, terminated, next_obs, final_obs):
        for i, steps in enumerate(self.steps):
            led_to = final_obs.get(i, next_obs[i])
            if led_to is None:
                led_to = np.full_like(obs[i], np.nan)
            steps.append(tuple(np.copy(x) for x in (obs[i], act[i], rew[i], terminated[i], led_to)))


def stream(
    num_steps,
    num_envs,
    obs_shape=(3,),
    obs_dtype=np.float32,
    end_probability=0.3,
    lost_probability=0.0,
    seed=0,
):
    """What an interaction gives to `store`: random, so that no two observations are the same."""
    rng = np.random.default_rng(seed)

    def observations(n):
        return rng.integers(0, 256, (n, *obs_shape)).astype(obs_dtype) + (
            rng.random((n, *obs_shape), np.float32) if obs_dtype == np.float32 else obs_dtype(0)
        )

    obs = observations(num_envs)
    for _ in range(num_steps):
        act = rng.uniform(-1, 1, (num_envs, *ACT_SHAPE)).astype(np.float32)
        rew = rng.normal(size=num_envs)
        ends = rng.random(num_envs) < end_probability
        terminated = ends & (rng.random(num_envs) < 0.5)  # the other half are time limits
        next_obs = observations(num_envs)  # where an episode ended, the first of the next one
        last = observations(num_envs)
        final_obs = {int(i): last[i] for i in np.flatnonzero(ends)}
        lost = np.flatnonzero(rng.random(num_envs) < lost_probability)
        terminated[lost] = False
        final_obs |= {int(i): None for i in lost}
        yield obs, act, rew, terminated, next_obs, final_obs
        obs = next_obs


def make(size, num_envs, obs_shape=(3,), obs_dtype=np.float32, indices=None):
    """A buffer for so many environments, numbered by `indices`."""
    rngs = [np.random.default_rng([7, i]) for i in indices or range(num_envs)]
    return ReplayBuffer(obs_shape, ACT_SHAPE, np.float32, size, rngs, obs_dtype)


def alike(updates, rows):
    """What to sample: so many minibatches with these rows of each environment."""
    return np.tile(rows, (updates, 1))


def assert_rows_are_steps(batches, reference, rows):
    """Every sampled row is a step that the list has, of the environment whose column it is in.

    Returns for each environment the numbers of the steps that were drawn, from the oldest on.
    """
    drawn, end = [], 0
    for steps, count in zip(reference.steps, rows, strict=True):
        number = {step[0].tobytes(): k for k, step in enumerate(steps)}
        assert len(number) == len(steps)
        columns = slice(end, end := end + count)
        names = ("obs", "act", "rew", "terminated", "next_obs")
        of_env = [batches[name][:, columns].reshape(-1, *batches[name].shape[2:]) for name in names]
        drawn.append([number[obs.tobytes()] for obs in of_env[0]])
        for name, found in zip(names, of_env, strict=True):
            expected = np.stack([steps[k][names.index(name)] for k in drawn[-1]])
            np.testing.assert_array_equal(found, expected.astype(found.dtype), err_msg=name)
    return drawn


@pytest.mark.parametrize(
    ("size", "rows"), [(7, [40]), (8, [40, 30, 20]), (1, [2, 3]), (100, [200, 300])]
)
def test_every_sample_is_a_step_of_the_list(size, rows):
    """From before the ring is full until it has gone round several times; the newest step too."""
    buffer, reference = make(size, len(rows)), ListBuffer(size, len(rows))
    for k, step in enumerate(stream(45, len(rows)), start=1):
        buffer.store(*step)
        reference.store(*step)
        assert len(buffer) == len(reference.steps[0]) == min(k, size)
        drawn = assert_rows_are_steps(buffer.sample(alike(6, rows), {}), reference, rows)
        if size < 10 and k % 10 == 0:  # enough draws to meet all that are kept
            assert all(set(env) == set(range(len(buffer))) for env in drawn)


def test_steps_that_were_lost_are_never_drawn():
    """The others are, about equally often: 3000 draws of each, with a deviation of sqrt(3000)."""
    buffer, reference = make(30, 2), ListBuffer(30, 2)
    lost = [deque(maxlen=30), deque(maxlen=30)]
    for step in stream(70, 2, lost_probability=0.3):
        buffer.store(*step)
        reference.store(*step)
        for i, each in enumerate(lost):
            each.append(step[-1].get(i, ()) is None)
    draws = sum(30 - sum(each) for each in lost) * 15
    for drawn, each in zip(
        assert_rows_are_steps(buffer.sample(alike(draws, [100, 100])), reference, [100, 100]),
        lost,
        strict=True,
    ):
        counts = np.bincount(drawn, minlength=30)
        assert 5 < sum(each) < 15
        assert not counts[np.array(each)].any()
        expected = draws * 100 / (30 - sum(each))
        np.testing.assert_allclose(counts[~np.array(each)], expected, atol=4.5 * np.sqrt(expected))


def test_an_environment_that_has_lost_every_step_is_named():
    buffer = make(5, 2)
    no = np.zeros(2, bool)
    for _ in range(8):
        buffer.store(np.zeros((2, 3)), np.zeros((2, 2)), no, no, np.zeros((2, 3)), {1: None})
    with pytest.raises(EnvironmentFailure, match=r"Environment 1 of .* each of its 5 steps"):
        buffer.sample(alike(2, [3, 3]))


def test_an_episode_ends_in_its_last_observation_and_not_in_the_next_one_by_hand():
    """Observations 0, 1 | 10, 11, 12 ...: the second step was cut off and led to 2, not to 10."""
    buffer = ReplayBuffer((1,), (), np.int32, 5, [np.random.default_rng(0)])
    column = lambda *numbers: np.array(numbers, np.float32)[:, None]  # noqa: E731
    no, yes, none = np.array([False]), np.array([True]), {}
    buffer.store(column(0), np.array([0]), np.array([0.5]), no, column(1), none)
    buffer.store(column(1), np.array([1]), np.array([1.5]), no, column(10), {0: column(2)[0]})
    buffer.store(column(10), np.array([2]), np.array([2.5]), no, column(11), none)
    buffer.store(column(11), np.array([3]), np.array([3.5]), yes, column(20), {0: column(12)[0]})
    batches = buffer.sample(alike(1, [60]))
    found = {
        (float(obs), int(act), float(rew), bool(terminated), float(next_obs))
        for obs, act, rew, terminated, next_obs in zip(
            *(batches[k][0].ravel() for k in ("obs", "act", "rew", "terminated", "next_obs")),
            strict=True,
        )
    }
    assert found == {
        (0, 0, 0.5, False, 1),
        (1, 1, 1.5, False, 2),
        (10, 2, 2.5, False, 11),
        (11, 3, 3.5, True, 12),
    }


def test_final_observations_are_forgotten_with_their_steps():
    """As many are kept as episodes ended in the slots of the ring: one more than steps."""
    buffer, ends = make(9, 3), deque(maxlen=10)
    for step in stream(200, 3, end_probability=0.6):
        buffer.store(*step)
        ends.append(len(step[-1]))
        assert len(buffer.final_obs) == sum(ends)
    assert sum(ends) > 0


def test_draws_come_from_the_generators_that_were_given():
    def samples(disturbance):
        buffer = make(9, 2)
        for step in stream(30, 2):
            buffer.store(*step)
        np.random.seed(disturbance)  # noqa: NPY002 (the global state is what is tested)
        before = np.random.get_state()[1].copy()  # noqa: NPY002
        batches = [buffer.sample(alike(6, [3, 2]), {"noise": (2,)}) for _ in range(3)]
        np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
        return batches

    one, other = samples(1), samples(2)
    for first, second in zip(one, other, strict=True):
        for name, x in first.items():
            np.testing.assert_array_equal(x, second[name], err_msg=name)
    assert not np.array_equal(one[0]["obs"], one[1]["obs"])


def test_minibatches_do_not_depend_on_how_environments_are_spread():
    """One buffer of four environments gives what two buffers of two give together."""
    whole = make(9, 4)
    halves = [make(9, 2, indices=range(4)[part]) for part in (slice(2), slice(2, 4))]
    for obs, act, rew, terminated, next_obs, final_obs in stream(30, 4, lost_probability=0.2):
        whole.store(obs, act, rew, terminated, next_obs, final_obs)
        for first, half in zip((0, 2), halves, strict=True):
            own = slice(first, first + 2)
            last = {i - first: x for i, x in final_obs.items() if first <= i < first + 2}
            half.store(obs[own], act[own], rew[own], terminated[own], next_obs[own], last)
    for first in (0, 5):
        rows = batch_rows(10, 4, range(4), range(first, first + 5))
        expected = whole.sample(rows, {"noise": (2,)})
        shares = (rows[:, :2], rows[:, 2:])
        parts = [half.sample(x, {"noise": (2,)}) for half, x in zip(halves, shares, strict=True)]
        for name, x in expected.items():
            found = np.concatenate([part[name] for part in parts], axis=1)
            np.testing.assert_array_equal(found, x, err_msg=name)


# --------------------------------------------------------------------- rows of a minibatch


def test_rows_of_a_minibatch_by_hand():
    assert batch_rows(100, 1, [0], [0, 7]).tolist() == [[100], [100]]
    assert batch_rows(8, 4, range(4), [3]).tolist() == [[2, 2, 2, 2]]
    rows = [[3, 2, 3, 2], [3, 2, 3, 2], [2, 3, 2, 3], [2, 3, 2, 3], [3, 2, 3, 2]]
    assert batch_rows(10, 4, range(4), range(5)).tolist() == rows
    assert batch_rows(10, 4, [2, 3], [0, 2]).tolist() == [[3, 2], [2, 3]]
    assert batch_rows(4, 3, range(3), range(3)).tolist() == [[2, 1, 1], [1, 2, 1], [1, 1, 2]]


@pytest.mark.parametrize("num_envs", [1, 2, 3, 4, 6, 12])
def test_rows_of_a_minibatch_are_even_and_the_same_in_every_layout(num_envs):
    """In every minibatch nearly, and in as many as there are environments exactly."""
    numbers = range(5, 5 + num_envs)
    for batch_size in range(num_envs, 101):
        rows = batch_rows(batch_size, num_envs, range(num_envs), numbers)
        assert set(rows.sum(axis=1)) == {batch_size}
        assert set(rows.sum(axis=0)) == {batch_size}
        assert rows.max() - rows.min() <= 1
        for ranks in range(1, num_envs + 1):
            if num_envs % ranks == batch_size % ranks == 0:
                each = num_envs // ranks
                shares = [
                    batch_rows(batch_size, num_envs, range(r * each, (r + 1) * each), numbers)
                    for r in range(ranks)
                ]
                np.testing.assert_array_equal(np.concatenate(shares, axis=1), rows)
                for share in shares:
                    assert set(share.sum(axis=1)) == {batch_size // ranks}


def test_every_minibatch_has_the_rows_that_were_asked_for():
    buffer, reference = make(9, 3), ListBuffer(9, 3)
    for step in stream(30, 3):
        buffer.store(*step)
        reference.store(*step)
    rows = batch_rows(4, 3, range(3), range(6))
    batches = buffer.sample(rows, {"noise": (2,)})
    for k, own in enumerate(rows):
        assert_rows_are_steps({name: x[k : k + 1] for name, x in batches.items()}, reference, own)


# --------------------------------------------------------------------------- saved and resumed


class Diary:
    """The obvious version of what is saved: the files of a run, each with all that it holds."""

    def __init__(self):
        self.files = []

    def save(self, buffer):
        """As a checkpoint does; the files that it needs."""
        first, end, oldest = buffer.new_range()
        steps = [
            {name: x.copy() for name, x in buffer.new_steps(column).items()}
            for column in range(len(buffer.rngs))
        ]
        self.files.append((first, end, steps))
        self.files = [file for file in self.files if file[1] > oldest]
        buffer.saved = buffer.steps
        states = [buffer.env_state(column) for column in range(len(buffer.rngs))]
        return states, list(self.files)


def resumed(states, files, size):
    """Another buffer, with what was saved."""
    buffer = make(size, len(states))
    for column, state in enumerate(states):
        buffer.set_env_state(column, state)
    for first, _, steps in files:
        for column, arrays in enumerate(steps):
            buffer.put_steps(column, first, arrays)
    return buffer


@pytest.mark.parametrize("seed", range(20))
def test_a_resumed_buffer_is_the_same_buffer(seed):
    """Saves, new episodes and resumptions come at random; every sample is a step of the list."""
    rng = np.random.default_rng(seed)
    size, num_envs = int(rng.integers(1, 30)), int(rng.integers(1, 4))
    rows = [10] * num_envs
    buffer, reference, diary = make(size, num_envs), ListBuffer(size, num_envs), Diary()
    other = None  # what has been resumed and goes on beside the one that never stopped
    lost_probability = 0.1 * (size > 20)  # in a small buffer, every step might be lost
    for k, step in enumerate(stream(100, num_envs, lost_probability=lost_probability, seed=seed)):
        obs, *rest = step
        if k > 0 and rng.random() < 0.1:  # all environments begin new episodes here
            buffer.restart()
            if other is not None:
                other.restart()
            obs = obs + np.float32(1000)
            if rng.random() < 0.3:
                buffer.restart()  # once more makes no difference
        step = (obs, *rest)
        for each in (buffer, other):
            if each is not None:
                each.store(*step)
        reference.store(*step)
        if rng.random() < 0.1:
            states, files = diary.save(buffer)
            assert sum(end - first for first, end, _ in files) >= len(buffer)
            other = resumed(states, files, size)
        if other is not None and rng.random() < 0.3:
            drawn = (alike(2, rows), {"noise": (2,)})
            assert_rows_are_steps(buffer.sample(*drawn), reference, rows)
            states, files = diary.save(buffer)
            other = resumed(states, files, size)
            expected, found = buffer.sample(*drawn), other.sample(*drawn)
            for name, x in expected.items():
                np.testing.assert_array_equal(found[name], x, err_msg=name)
            assert_rows_are_steps(found, reference, rows)
            assert other.final_obs.keys() <= buffer.final_obs.keys()


def test_steps_are_saved_once_and_those_that_are_forgotten_never():
    buffer, ranges = make(10, 1), []
    for k, step in enumerate(stream(37, 1), start=1):
        buffer.store(*step)
        if k in (4, 8, 9, 30, 37):
            ranges.append(buffer.new_range())
            assert len(buffer.new_steps(0)["act"]) == ranges[-1][1] - ranges[-1][0]
            buffer.saved = buffer.steps
    assert ranges == [(0, 4, 0), (4, 8, 0), (8, 9, 0), (20, 30, 20), (30, 37, 27)]
    assert buffer.new_range() == (37, 37, 27)
    assert len(buffer.new_steps(0)["act"]) == 0


def test_the_step_before_new_episodes_is_saved_again():
    """It was saved as one that goes on, and ends now in what it led to."""
    buffer = make(10, 2)
    steps = list(stream(6, 2, end_probability=0))
    for step in steps:
        buffer.store(*step)
    buffer.saved = 6
    buffer.restart()
    assert buffer.new_range() == (5, 6, 0)
    for column in range(2):
        saved = buffer.new_steps(column)
        assert saved["ended"].tolist() == [True]
        assert saved["terminated"].tolist() == [False]
        np.testing.assert_array_equal(saved["final_obs"], [steps[-1][4][column]])


def test_new_episodes_before_the_first_step():
    buffer = make(10, 1)
    buffer.restart()
    assert buffer.new_range() == (0, 0, 0)
    assert not buffer.final_obs
