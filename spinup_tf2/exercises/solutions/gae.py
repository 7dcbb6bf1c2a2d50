"""Generalized advantage estimates (Schulman et al. 2016)."""

import numpy as np


def gae(
    rew: np.ndarray,
    val: np.ndarray,
    next_val: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    gamma: float,
    lam: float,
) -> np.ndarray:
    delta = rew + gamma * np.where(terminated, 0.0, next_val) - val
    goes_on = ~(terminated | truncated)
    adv = np.zeros_like(delta)
    following = np.zeros(rew.shape[1])
    for t in reversed(range(len(rew))):
        following = delta[t] + gamma * lam * goes_on[t] * following
        adv[t] = following
    return adv
