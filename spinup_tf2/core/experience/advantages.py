"""Returns and advantages. Time is the first axis.

The data of an episode end in one of three ways, which differ in what the future is worth:

- `terminated`: the environment says that it is over. Nothing follows; the future is worth 0.
- `truncated`: a time limit. The future is worth V(the last observation).
- the batch ends: the same, and the episode goes on in the next batch.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
from scipy.signal import lfilter

from spinup_tf2.core.rollout.episodes import segments
from spinup_tf2.parallel.mpi import mpi_statistics_scalar, mpi_sum


def discount_cumsum(x: np.ndarray, discount: float) -> np.ndarray:
    """y[t] = x[t] + discount * x[t+1] + discount^2 * x[t+2] + ... along the first axis."""
    return lfilter([1], [1, -discount], x[::-1], axis=0)[::-1]


def gae(
    rew: np.ndarray,
    val: np.ndarray,
    next_val: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    gamma: float,
    lam: float | Sequence[float],
) -> tuple[np.ndarray, np.ndarray]:
    """Generalized advantage estimates and rewards-to-go, both float32 `[T, n]`.

        delta[t] = rew[t] + gamma * next_val[t] - val[t]      (next_val is 0 after termination)
        adv[t] = delta[t] + gamma * lam * adv[t+1]            (Schulman et al. 2016, eq. 16)
        ret[t] = rew[t] + gamma * ret[t+1]                    (ret = next_val where the data end)

    Args:
        rew, val: `[T, n]`.
        next_val: `[T, n]`, V of the observation that step t really led to (not of the one after a
            reset).
        terminated, truncated: bool `[T, n]`.
        gamma: Discount.
        lam: A number; or k of them, for advantages `[k, T, n]` from the same deltas.
    """
    lams = np.atleast_1d(lam)
    future = gamma * np.where(terminated, 0.0, next_val)
    delta = rew + future - val
    adv, ret = np.empty((len(lams), *delta.shape), delta.dtype), np.empty_like(delta)
    for env, piece in segments(terminated | truncated):
        for i, each in enumerate(lams):
            adv[i, piece, env] = discount_cumsum(delta[piece, env], gamma * each)
        rewards = rew[piece, env].astype(np.float64)
        rewards[-1] += future[piece, env][-1]  # what follows the piece
        ret[piece, env] = discount_cumsum(rewards, gamma)
    adv = adv.astype(np.float32)
    return adv[0] if np.ndim(lam) == 0 else adv, ret.astype(np.float32)


def normalized(adv: np.ndarray, valid: np.ndarray | bool = True) -> np.ndarray:
    """Advantages of any shape, shifted and scaled to mean 0 and deviation 1 over all MPI ranks.

    Args:
        valid: Bool, of the same shape; those that are not become 0 and do not count.
    """
    mean, std = mpi_statistics_scalar(adv[valid])
    # All advantages equal (std 0) say nothing: they become 0, not nan.
    return np.where(valid, (adv - mean) / (std if std > 0 else 1), np.float32(0))


def normalized_in_minibatches(
    adv: np.ndarray, minibatches: np.ndarray, valid: np.ndarray
) -> np.ndarray:
    """Advantages, normalized as by `normalized` in each of the minibatches of a pass.

    Args:
        adv: `[batch]`, or `[segments, steps]`: with a memory, a row is a segment.
        minibatches: `[count, size]`, each row of the batch once; a minibatch is that of all ranks.
        valid: Bool, of the shape of adv; those that are not become 0 and do not count.
    """
    x, counts = adv[minibatches].astype(np.float64), valid[minibatches]
    own = tuple(range(1, x.ndim))  # the axes of what is in a minibatch
    total = partial(np.sum, axis=own, keepdims=True)
    number = np.maximum(mpi_sum(total(counts).astype(np.float64)), 1)
    x -= mpi_sum(total(np.where(counts, x, 0))) / number
    var = mpi_sum(total(np.where(counts, x**2, 0))) / number
    result = np.empty_like(adv)
    # All advantages of a minibatch equal say nothing: they become 0, not nan.
    result[minibatches] = np.where(counts, x / np.sqrt(np.where(var > 0, var, 1)), 0)
    return result


def mixture(
    advs: np.ndarray, coeffs: Sequence[float], valid: np.ndarray | bool = True
) -> np.ndarray:
    """sum_i coeffs[i] * normalized(advs[i]): several estimates `[k, ...]` as one `[...]`.

    The mixture is not normalized again. Its deviation is below 1 as far as the estimates disagree.
    """
    parts = [coeff * normalized(adv, valid) for coeff, adv in zip(coeffs, advs, strict=True)]
    return np.sum(parts, axis=0)


def estimates(
    rew: np.ndarray,
    val: np.ndarray,
    next_val: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    valid: np.ndarray | bool = True,
    *,
    gamma: float,
    lam: float,
    lam1: float | None = None,
    lam2: float | None = None,
    coeff: float | None = None,
    normalize: bool = True,
    value_target: str = "rewards_to_go",
) -> tuple[np.ndarray, np.ndarray]:
    """Advantages, and what values are fitted to, of a batch, both float32 `[T, n]`.

    Args:
        rew, val, next_val, terminated, truncated, gamma, lam: As `gae` takes them.
        valid: Which steps count where advantages are normalized.
        lam1, lam2, coeff: As PPO takes them, for a mixture of two estimates, each normalized.
        normalize: Whether the advantages are normalized, if they are no mixture.
        value_target: As PPO takes it.
    """
    steps = (rew, val, next_val, terminated, truncated, gamma)
    if coeff is not None:
        lams = (lam if each is None else each for each in (lam1, lam2))
        adv, ret = gae(*steps, tuple(lams))
        return mixture(adv, (coeff, 1 - coeff), valid), ret
    adv, ret = gae(*steps, lam)
    if value_target == "lambda_return":
        ret = adv + val
    return normalized(adv, valid) if normalize else adv, ret
