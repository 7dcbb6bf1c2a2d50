"""Returns and advantages. Time is the first axis; every function is plain NumPy.

An episode ends in one of three ways, and they differ in what the future is worth:

- `terminated`: the environment says that it is over. Nothing follows; the future is worth 0.
- `truncated`: a time limit. The future is worth V(the last observation).
- cut off by the end of the epoch's data: the same, and the episode goes on in the next epoch.
"""

from collections.abc import Iterator

import numpy as np
from scipy.signal import lfilter


def discount_cumsum(x: np.ndarray, discount: float) -> np.ndarray:
    """y[t] = x[t] + discount * x[t+1] + discount^2 * x[t+2] + ... along the first axis."""
    return lfilter([1], [1, -discount], x[::-1], axis=0)[::-1]


def segments(ends: np.ndarray) -> Iterator[tuple[int, slice]]:
    """The pieces of trajectory in `[T, n]` data: yields `(environment, slice of time)`.

    ends: bool `[T, n]`, whether step t of environment i is the last of an episode. The last row
        ends a piece in any case.
    """
    steps, num_envs = ends.shape
    for env in range(num_envs):
        start = 0
        for end in np.flatnonzero(ends[:, env]) + 1:
            yield env, slice(start, end)
            start = end
        if start < steps:
            yield env, slice(start, steps)


def gae(
    rew: np.ndarray,
    val: np.ndarray,
    next_val: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    gamma: float,
    lam: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Generalised advantage estimates and rewards-to-go, both float32 `[T, n]`.

        delta[t] = rew[t] + gamma * next_val[t] - val[t]      (next_val is 0 after termination)
        adv[t] = delta[t] + gamma * lam * adv[t+1]            (Schulman et al. 2016, eq. 16)
        ret[t] = rew[t] + gamma * ret[t+1]                    (ret = next_val where the data end)

    rew, val: `[T, n]`.
    next_val: `[T, n]`, V of the observation that step t really led to (not of the one after a
        reset).
    terminated, truncated: bool `[T, n]`.
    """
    future = gamma * np.where(terminated, 0.0, next_val)
    delta = rew + future - val
    adv, ret = np.empty_like(delta), np.empty_like(delta)
    for env, piece in segments(terminated | truncated):
        adv[piece, env] = discount_cumsum(delta[piece, env], gamma * lam)
        rewards = rew[piece, env].astype(np.float64)
        rewards[-1] += future[piece, env][-1]  # what follows the piece
        ret[piece, env] = discount_cumsum(rewards, gamma)
    return adv.astype(np.float32), ret.astype(np.float32)
