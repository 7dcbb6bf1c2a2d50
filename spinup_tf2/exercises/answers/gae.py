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

from spinup_tf2.exercises.checking import calls, compare


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
    # answer
    delta = rew + gamma * np.where(terminated, 0.0, next_val) - val
    goes_on = ~(terminated | truncated)
    adv = np.zeros_like(delta)
    following = np.zeros(rew.shape[1])
    for t in reversed(range(len(rew))):
        following = delta[t] + gamma * lam * goes_on[t] * following
        adv[t] = following
    return adv


# ---------------------------------------------------------------- checks

_T, _N = 8, 3
_REW, _VAL, _NEXT_VAL = np.random.default_rng(2).normal(size=(3, _T, _N))


def _case(terminated=(), truncated=(), gamma=0.9, lam=0.8):
    """Return arguments in which episodes end at the given (t, environment)."""
    ends = np.zeros((2, _T, _N), bool)
    for kind, places in enumerate((terminated, truncated)):
        for place in places:
            ends[kind][place] = True
    next_val = _NEXT_VAL.copy()
    goes_on = ~ends.any(axis=0)[:-1]
    next_val[:-1][goes_on] = _VAL[1:][goes_on]  # the next row shows where the step has led
    return _REW, _VAL, next_val, *ends, gamma, lam


_CASES = {
    "no episode ends": _case(),
    "an episode is terminated": _case(terminated=[(3, 0)]),
    "a time limit truncates an episode": _case(truncated=[(4, 1)]),
    "several ends, one in the last row": _case(
        terminated=[(0, 0), (7, 1)], truncated=[(2, 0), (5, 0), (6, 2), (7, 2)]
    ),
    "terminated and truncated in the same step": _case(terminated=[(3, 0)], truncated=[(3, 0)]),
    "lambda 0": _case(terminated=[(2, 1)], truncated=[(5, 2)], lam=0.0),
    "gamma and lambda 1": _case(terminated=[(2, 1)], truncated=[(5, 2)], gamma=1.0, lam=1.0),
}


def _right(rew, val, next_val, terminated, truncated, gamma, lam):
    """Compute the definition: a double sum for each environment and step."""
    adv = np.zeros(rew.shape)
    for t, i in np.ndindex(rew.shape):
        for k in range(t, len(rew)):
            future = 0.0 if terminated[k, i] else next_val[k, i]
            adv[t, i] += (gamma * lam) ** (k - t) * (rew[k, i] + gamma * future - val[k, i])
            if terminated[k, i] or truncated[k, i]:
                break
    return adv


_MISTAKES = {
    "You treat a time limit (truncated) as an end of the world.": (
        "where(terminated => where(terminated | truncated"
    ),
    "After termination nothing follows: V(s_{t+1}) is 0 there.": (
        "np.where(terminated, 0.0, next_val) => next_val"
    ),
    "A_t sums the deltas from t on: go backwards in time.": (
        "reversed(range(len(rew))) => range(len(rew))\ngoes_on[t] => goes_on[t - 1]"
    ),
    "Where both are true, too, nothing follows.": (
        "where(terminated => where(terminated & ~truncated"
    ),
    "You mixed up terminated and truncated.": "where(terminated => where(truncated",
    "Your sum continues into the next episode.": " * goes_on[t] => ",
    "Your sum continues into the next episode where a time limit has ended this one.": (
        "~(terminated | truncated) => ~terminated"
    ),
    "After an end the next row is of another episode: use next_val.": (
        "0.0, next_val) => 0.0, np.concatenate([val[1:], next_val[-1:]]))"
    ),
    "The following advantage is weighted by gamma lambda.": "gamma * lam => gamma",
    "You forgot -V(s_t) in delta.": " - val => ",
    "These are the deltas: add them up.": "return adv => return delta",
    "Time runs backwards: reverse the list.": "return adv => return adv[::-1]",
}


def check_advantages(student):
    compare(student, calls("gae"), _CASES, _right, _MISTAKES)
