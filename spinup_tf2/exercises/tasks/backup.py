"""The Bellman backup, and how a step ends.

    y = R + gamma V(s')        V(s') counts as 0 if s' is terminal

It is the target to which the value of s, or of an action in s, is fitted after a step to s' with
reward R.

gymnasium's step returns `terminated` (the environment says that it is over: a fall, a goal) and
`truncated` (a time limit; the world would have continued). Only the first one makes s' terminal.

There is also the question what s' is. A vector environment steps n environments at once and returns
arrays with a row for each. Here, an environment whose episode has ended is reset in the same step.
Its row of obs is then the first observation of the next episode. The observation that the step led
to, s', is in another array, final_obs.
"""

import numpy as np


def backup(
    rew: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    next_val: np.ndarray,
    gamma: float,
) -> np.ndarray:
    """Return y, [batch].

    Args:
        rew: Rewards, [batch].
        terminated, truncated: Bool, [batch]. Both may be true at once.
        next_val: V(s') as the network gives it, [batch].
        gamma: Discount factor.
    """
    raise NotImplementedError


def led_to(
    obs: np.ndarray, final_obs: np.ndarray, terminated: np.ndarray, truncated: np.ndarray
) -> np.ndarray:
    """Return s', the observations that a step of n environments led to, [n, dim].

    Args:
        obs: Observations as returned by step, [n, dim]; where an episode has ended, those after the
            reset. The next actions are chosen from this array, so do not modify it.
        final_obs: Last observations of the episodes that have ended, [n, dim]; nan elsewhere.
        terminated, truncated: Bool, [n].
    """
    raise NotImplementedError
