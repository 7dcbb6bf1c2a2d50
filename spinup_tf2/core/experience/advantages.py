"""Returns and advantages. Time is the first axis.

The data of an episode end in one of three ways, which differ in the value of the future:

- `terminated`: the environment has reached a terminal state. The future has value 0.
- `truncated`: a time limit. The value of the future is V(the last observation).
- the batch ends: the same, and the episode continues in the next batch.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
from scipy.signal import lfilter

from spinup_tf2.core.workers.episodes import segments
from spinup_tf2.parallel.mpi import mpi_statistics_scalar, mpi_sum


def discount_cumsum(x: np.ndarray, discount: float) -> np.ndarray:
    """Return y[t] = x[t] + discount * x[t+1] + discount^2 * x[t+2] + ... along the first axis."""
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
    """Return generalized advantage estimates and rewards-to-go, both float32 `[T, n]`.

        delta[t] = rew[t] + gamma * next_val[t] - val[t]      (next_val is 0 after termination)
        adv[t] = delta[t] + gamma * lam * adv[t+1]            (Schulman et al. 2016, eq. 16)
        ret[t] = rew[t] + gamma * ret[t+1]                    (ret = next_val where the data end)

    Args:
        rew, val: `[T, n]`.
        next_val: `[T, n]`, V of the observation that step t itself led to (not of the first one
            after a reset).
        terminated, truncated: bool `[T, n]`.
        gamma: Discount factor.
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
    """Return advantages shifted and scaled to mean 0 and standard deviation 1 over all MPI ranks.

    Args:
        adv: Advantages of any shape.
        valid: Bool, of the same shape; invalid advantages are ignored and become 0.
    """
    mean, std = mpi_statistics_scalar(adv[valid])
    # Equal advantages (std 0) say nothing: they become 0, not nan.
    return np.where(valid, (adv - mean) / (std if std > 0 else 1), np.float32(0))


def normalized_in_minibatches(
    adv: np.ndarray, minibatches: np.ndarray, valid: np.ndarray
) -> np.ndarray:
    """Return advantages that are normalized in each minibatch of a pass, as by `normalized`.

    Args:
        adv: `[batch]`, or `[segments, steps]`: with a memory, a row is a segment.
        minibatches: `[count, size]`, each row of the batch once; the corresponding minibatches of
            all ranks are normalized together.
        valid: Bool, of the shape of adv; invalid advantages are ignored and become 0.
    """
    x, counts = adv[minibatches].astype(np.float64), valid[minibatches]
    own = tuple(range(1, x.ndim))  # the axes within a minibatch
    total = partial(np.sum, axis=own, keepdims=True)
    number = np.maximum(mpi_sum(total(counts).astype(np.float64)), 1)
    x -= mpi_sum(total(np.where(counts, x, 0))) / number
    var = mpi_sum(total(np.where(counts, x**2, 0))) / number
    result = np.empty_like(adv)
    # Equal advantages in a minibatch say nothing: they become 0, not nan.
    result[minibatches] = np.where(counts, x / np.sqrt(np.where(var > 0, var, 1)), 0)
    return result


def mixture(
    advs: np.ndarray, coeffs: Sequence[float], valid: np.ndarray | bool = True
) -> np.ndarray:
    """Mix k estimates `[k, ...]` into one `[...]`: sum_i coeffs[i] * normalized(advs[i]).

    The mixture is not normalized again; the more the estimates disagree, the further its standard
    deviation is below 1.
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
    """Return the advantages and the value targets of a batch, both float32 `[T, n]`.

    Args:
        rew, val, next_val, terminated, truncated, gamma, lam: See `gae`.
        valid: Bool `[T, n]`; steps that are not valid are ignored in the normalization.
        lam1, lam2, coeff: The PPO arguments of these names, for a mixture of two estimates, each
            normalized.
        normalize: Whether to normalize the advantages, unless they are a mixture.
        value_target: The PPO argument of this name.
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
