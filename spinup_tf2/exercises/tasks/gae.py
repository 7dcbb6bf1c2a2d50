"""Generalized advantage estimates (Schulman et al. 2016).

How much better was an action than expected? With the surprise of a single step,

    delta_t = R_t + gamma V(s_{t+1}) - V(s_t)
    A_t = delta_t + (gamma lambda) delta_{t+1} + (gamma lambda)^2 delta_{t+2} + ...

The sum ends where the episode ends. What follows the last step depends on how it ended:

- terminated: the environment says that it is over. Nothing follows, and V(s_{t+1}) counts as 0.
- truncated: a time limit. The future is worth V(s_{t+1}), though we do not see it.
- the data end: the same.

A time limit may be reached in the step that terminates an episode. Then both are true, and nothing
follows.
"""

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
    """Return the advantages, [T, n], of T steps in n environments.

    Args:
        rew: Rewards, [T, n].
        val: V(s_t), [T, n].
        next_val: V(s_{t+1}) of the observation that step t led to, [T, n]. In the last step of an
            episode that is not the observation of the next row, with which another one begins.
        terminated, truncated: How the step ended the episode, bool [T, n].
        gamma, lam: Numbers.
    """
    raise NotImplementedError
