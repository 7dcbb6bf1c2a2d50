"""Checks of generalized advantage estimates."""

import functools

import numpy as np

from spinup_tf2.exercises.checking import compare

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


CASES = {
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


def right(rew, val, next_val, terminated, truncated, gamma, lam):
    """Compute the definition: a double sum for each environment and step."""
    adv = np.zeros(rew.shape)
    for t, i in np.ndindex(rew.shape):
        for k in range(t, len(rew)):
            future = 0.0 if terminated[k, i] else next_val[k, i]
            adv[t, i] += (gamma * lam) ** (k - t) * (rew[k, i] + gamma * future - val[k, i])
            if terminated[k, i] or truncated[k, i]:
                break
    return adv


def _mistaken(
    nothing_follows=lambda terminated, truncated: terminated,
    cut=lambda terminated, truncated: terminated | truncated,
    weight=lambda gamma, lam: gamma * lam,
    shifted=False,
    baseline=True,
    last_row=True,
):
    """Return the recursion with one thing done differently."""

    def mistaken(rew, val, next_val, terminated, truncated, gamma, lam):
        if shifted:
            next_val = np.concatenate([val[1:], next_val[-1:]])
        future = np.where(nothing_follows(terminated, truncated), 0.0, next_val)
        delta = rew + gamma * future - val * baseline
        adv = np.zeros(rew.shape)
        following = np.zeros(rew.shape[1])
        for t in reversed(range(len(rew) if last_row else len(rew) - 1)):
            goes_on = ~cut(terminated[t], truncated[t])
            adv[t] = following = delta[t] + weight(gamma, lam) * goes_on * following
        return adv

    return mistaken


def _nowhere(terminated, truncated):
    return np.zeros_like(terminated)


def _forward(*args, cut=True):
    """Mistake: the recursion in the wrong direction of time; with `cut`, restarted per episode."""
    rew, val, next_val, terminated, truncated, gamma, lam = args
    delta = rew + gamma * next_val * (1 - terminated * cut) - val
    adv, previous = np.zeros(rew.shape), np.zeros(rew.shape[1])
    for t in range(len(rew)):
        adv[t] = previous = delta[t] + gamma * lam * previous
        if cut:
            previous = previous * ~(terminated[t] | truncated[t])
    return adv


_BACKWARDS = (
    "You sum the deltas of the steps before t: A_t sums those from t on, so the loop has to go "
    "backwards in time."
)

MISTAKES = {
    "You treat a time limit (truncated) as an end of the world (terminated): the future is worth "
    "V(s_{t+1}) there, not 0.": _mistaken(nothing_follows=lambda term, trunc: term | trunc),
    "After termination nothing follows: V(s_{t+1}) counts as 0 there.": _mistaken(
        nothing_follows=_nowhere
    ),
    "You do not look at where episodes end: neither terminated nor truncated is in your numbers.": (
        _mistaken(nothing_follows=_nowhere, cut=_nowhere)
    ),
    _BACKWARDS: _forward,
    _BACKWARDS + " Mind the ends of episodes, too.": functools.partial(_forward, cut=False),
    "A step may be terminated and truncated at once: nothing follows then either.": _mistaken(
        nothing_follows=lambda term, trunc: term & ~trunc
    ),
    "You mixed up terminated and truncated: the future is worth 0 after termination, and "
    "V(s_{t+1}) after truncation.": _mistaken(nothing_follows=lambda term, trunc: trunc),
    "Your sum goes on into the next episode, which has nothing to do with this one.": _mistaken(
        cut=_nowhere
    ),
    "Your sum goes on into the next episode where a time limit has ended this one.": _mistaken(
        cut=lambda term, trunc: term
    ),
    "Your sum goes on into the next episode where this one has terminated.": _mistaken(
        cut=lambda term, trunc: trunc
    ),
    "You take V of the next row for V(s_{t+1}). After the end of an episode the next row belongs "
    "to another one: use next_val.": _mistaken(shifted=True),
    "The following advantage is weighted by gamma only: the weight is gamma lambda.": _mistaken(
        weight=lambda gamma, lam: gamma
    ),
    "The following advantage is weighted by lambda only: the weight is gamma lambda.": _mistaken(
        weight=lambda gamma, lam: lam
    ),
    "The following advantage is not discounted: its weight is gamma lambda.": _mistaken(
        weight=lambda gamma, lam: 1.0
    ),
    "You forgot -V(s_t) in delta: an advantage says how much better than expected.": _mistaken(
        baseline=False
    ),
    "The last row stays 0: your loop begins one step too early. It has a delta, too.": _mistaken(
        last_row=False
    ),
    "These are the deltas: their discounted sum is asked for.": _mistaken(weight=lambda *_: 0.0),
    "This is A_t + V(s_t), what the value function is fitted to: the advantages are asked for.": (
        lambda *args: right(*args) + args[1]
    ),
    "Time runs backwards: a list that is filled from the last step on has to be reversed.": (
        lambda *args: right(*args)[::-1]
    ),
    "The sign is wrong.": lambda *args: -right(*args),
}


def advantages(student):
    compare(lambda *args: student.gae(*args), CASES, right, MISTAKES)


CHECKS = [advantages]
