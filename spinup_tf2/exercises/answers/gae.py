"""Generalized advantage estimates (Schulman et al. 2016)."""

import numpy as np

from spinup_tf2.exercises.checking import calls, compare


def gae(rew, val, next_val, terminated, truncated, gamma, lam):
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


_BACKWARDS = (
    "You sum the deltas of the steps before t: A_t sums those from t on, so the loop has to go "
    "backwards in time."
)
_MISTAKES = {
    "You treat a time limit (truncated) as an end of the world (terminated): the future is worth "
    "V(s_{t+1}) there, not 0.": "where(terminated => where(terminated | truncated",
    "After termination nothing follows: V(s_{t+1}) counts as 0 there.": (
        "np.where(terminated, 0.0, next_val) => next_val"
    ),
    "You do not look at where episodes end: neither terminated nor truncated is in your numbers.": (
        "np.where(terminated, 0.0, next_val) => next_val\n * goes_on[t] => "
    ),
    _BACKWARDS: "reversed(range(len(rew))) => range(len(rew))\ngoes_on[t] => goes_on[t - 1]",
    _BACKWARDS + " Mind the ends of episodes, too.": (
        "np.where(terminated, 0.0, next_val) => next_val\n * goes_on[t] => \n"
        "reversed(range(len(rew))) => range(len(rew))"
    ),
    "A step may be terminated and truncated at once: nothing follows then either.": (
        "where(terminated => where(terminated & ~truncated"
    ),
    "You mixed up terminated and truncated: the future is worth 0 after termination, and "
    "V(s_{t+1}) after truncation.": "where(terminated => where(truncated",
    "Your sum continues into the next episode, which has nothing to do with this one.": (
        " * goes_on[t] => "
    ),
    "Your sum continues into the next episode where a time limit has ended this one.": (
        "~(terminated | truncated) => ~terminated"
    ),
    "Your sum continues into the next episode where this one has terminated.": (
        "~(terminated | truncated) => ~truncated"
    ),
    "You take V of the next row for V(s_{t+1}). After the end of an episode the next row belongs "
    "to another one: use next_val.": (
        "0.0, next_val) => 0.0, np.concatenate([val[1:], next_val[-1:]]))"
    ),
    "The following advantage is weighted by gamma only: the weight is gamma lambda.": (
        "gamma * lam => gamma"
    ),
    "The following advantage is weighted by lambda only: the weight is gamma lambda.": (
        "gamma * lam => lam"
    ),
    "The following advantage is not discounted: its weight is gamma lambda.": "gamma * lam => 1.0",
    "You forgot -V(s_t) in delta: an advantage says how much better than expected.": " - val => ",
    "The last row stays 0: your loop begins one step too early. It has a delta, too.": (
        "range(len(rew)) => range(len(rew) - 1)"
    ),
    "These are the deltas: their discounted sum is asked for.": "return adv => return delta",
    "This is A_t + V(s_t), what the value function is fitted to: the advantages are asked for.": (
        "return adv => return adv + val"
    ),
    "Time runs backwards: a list that is filled from the last step on has to be reversed.": (
        "return adv => return adv[::-1]"
    ),
    "The sign is wrong.": "return adv => return -adv",
}


def check_advantages(student):
    compare(student, calls("gae"), _CASES, _right, _MISTAKES)
