"""What phasic policy gradient keeps: everything, frames once, and not more than fits."""

from types import SimpleNamespace

import numpy as np
import psutil
import pytest
from gymnasium import spaces
from spinup_tf2.core.phase_memory import PhaseMemory

from spinup_tf2.errors import UserError

T, N, SIZE, C, PIXELS = 12, 3, 4, 4, (33, 35)
VECTORS = spaces.Box(-1, 1, (5,), np.float32)
LAST = spaces.Box(0, 255, (*PIXELS, C), np.uint8)
FIRST = spaces.Box(0, 255, (C, *PIXELS), np.uint8)


def stacks(rng, channels_last, resets):
    """`[SIZE * T, N, ...]`: stacks of the latest four frames, anew after each reset."""
    obs = np.empty((SIZE * T, N, C, *PIXELS), np.uint8)
    for i in range(N):
        for t in range(SIZE * T):
            new = rng.integers(256, size=(1, *PIXELS))
            fresh = t == 0 or t in resets[i]
            obs[t, i] = np.repeat(new, C, 0) if fresh else np.concatenate([obs[t - 1, i, 1:], new])
    return np.moveaxis(obs, 2, -1) if channels_last else obs


def filled(memory, obs, ret):
    for k in range(SIZE):
        batch = slice(k * T, (k + 1) * T)
        memory.store(obs[batch].reshape(T * N, *obs.shape[2:]), ret[batch].reshape(-1))
        assert memory.full == (k == SIZE - 1)
    return memory


@pytest.mark.parametrize("space", [VECTORS, LAST, FIRST], ids=["vectors", "last", "first"])
def test_rows_are_what_was_stored(space):
    rng = np.random.default_rng(0)
    resets = [{5, 6, 12, 30}, set(), {1, 47}]
    if space is VECTORS:
        obs = rng.normal(size=(SIZE * T, N, 5)).astype(np.float32)
    else:
        obs = stacks(rng, space is LAST, resets)
    ret = rng.normal(size=(SIZE * T, N)).astype(np.float32)
    memory = filled(PhaseMemory(SIZE, T, N, space), obs, ret)
    index = rng.permutation(SIZE * T * N)
    rows = memory.rows(index)
    np.testing.assert_array_equal(rows["obs"], obs.reshape(-1, *space.shape)[index])
    np.testing.assert_array_equal(rows["ret"], ret.reshape(-1)[index])
    assert rows["obs"].dtype == space.dtype
    memory.clear()
    filled(memory, obs[::-1], ret)  # and again, over what was there
    np.testing.assert_array_equal(
        memory.rows(index)["obs"], obs[::-1].reshape(-1, *space.shape)[index]
    )


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.uint8])
def test_rows_are_what_networks_are_given_elsewhere(dtype):
    """float32, as in the policy phase, whatever the environment's own numbers are."""
    space = spaces.Box(0, 9, (5,), dtype)
    obs = np.random.default_rng(0).integers(9, size=(SIZE * T, N, 5)).astype(np.float32)
    memory = filled(PhaseMemory(SIZE, T, N, space), obs, np.zeros((SIZE * T, N)))
    rows = memory.rows(np.arange(SIZE * T * N))["obs"]
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, obs.reshape(-1, 5))


@pytest.mark.parametrize("space", [LAST, FIRST], ids=["last", "first"])
def test_a_frame_is_stored_once(space):
    """One in each step, and a whole stack at the beginning and after each reset."""
    resets = [{5, 6, 12, 30}, set(), {1, 47}]
    obs = stacks(np.random.default_rng(0), space is LAST, resets)
    memory = filled(PhaseMemory(SIZE, T, N, space), obs, np.zeros((SIZE * T, N)))
    for i, each in enumerate(resets):
        frames = memory.env_state(i)["frames"]
        assert frames.shape == (SIZE * T + (C - 1) * (1 + len(each)), *PIXELS)


def test_images_that_have_nothing_in_common_are_stored_whole():
    rng = np.random.default_rng(0)
    obs = rng.integers(256, size=(SIZE * T, N, *PIXELS, C), dtype=np.uint8)
    memory = filled(PhaseMemory(SIZE, T, N, LAST), obs, np.zeros((SIZE * T, N)))
    np.testing.assert_array_equal(
        memory.rows(np.arange(SIZE * T * N))["obs"], obs.reshape(-1, *PIXELS, C)
    )
    assert len(memory.env_state(0)["frames"]) == SIZE * T * C


@pytest.mark.parametrize("space", [VECTORS, LAST], ids=["vectors", "images"])
@pytest.mark.parametrize("batches", [0, 1, 3])
def test_what_is_stored_is_put_back(space, batches):
    rng = np.random.default_rng(0)
    memory, other = PhaseMemory(SIZE, T, N, space), PhaseMemory(SIZE, T, N, space)
    draw = rng.normal if space is VECTORS else lambda size: rng.integers(256, size=size)
    for _ in range(batches):
        memory.store(draw(size=(T * N, *space.shape)).astype(space.dtype), rng.normal(size=T * N))
    for i in range(N):
        other.set_env_state(i, memory.env_state(i))
    for _ in range(SIZE - batches):
        obs = draw(size=(T * N, *space.shape)).astype(space.dtype)
        for each in (memory, other):
            each.store(obs, np.ones(T * N))
    assert other.full
    everything = np.arange(SIZE * T * N)
    for name, array in memory.rows(everything).items():
        np.testing.assert_array_equal(other.rows(everything)[name], array)


def test_what_does_not_fit_is_refused(monkeypatch):
    """First by the least that is possible, a frame a step; then by what the first batch took."""
    frames, free = SIZE * T * N * PIXELS[0] * PIXELS[1], SimpleNamespace(available=0)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
    free.available = frames - 1
    with pytest.raises(UserError, match="learns from 4 epochs, whose observations take"):
        PhaseMemory(SIZE, T, N, LAST)
    free.available = 2 * frames
    memory = PhaseMemory(SIZE, T, N, LAST)
    obs = np.random.default_rng(0).integers(256, size=(T * N, *PIXELS, C), dtype=np.uint8)
    with pytest.raises(UserError, match="smaller n_pi"):  # 4 frames a step, in 3 of 4 batches
        memory.store(obs, np.zeros(T * N))
    free.available = 3 * frames
    PhaseMemory(SIZE, T, N, LAST).store(obs, np.zeros(T * N))
    free.available = SIZE * T * N * 5 * 4
    PhaseMemory(SIZE, T, N, VECTORS)
    free.available -= 1
    with pytest.raises(UserError):
        PhaseMemory(SIZE, T, N, VECTORS)
