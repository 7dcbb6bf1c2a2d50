"""Checks of the Bellman backup, and of the observation that it needs."""

import numpy as np

from spinup_tf2.exercises.checking import compare, expect

_RNG = np.random.default_rng(7)
_NEITHER, _TERMINATED, _TRUNCATED, _BOTH = (
    (np.array([a]), np.array([b])) for b in (False, True) for a in (False, True)
)


def _one(terminated, truncated):
    return np.array([1.0]), terminated, truncated, np.array([10.0]), 0.9


CASES = {
    "the episode goes on": _one(*_NEITHER),
    "terminated": _one(*_TERMINATED),
    "truncated": _one(*_TRUNCATED),
    "terminated and truncated at once": _one(*_BOTH),
    "20 random steps": (
        _RNG.normal(size=20),
        *(_RNG.random((2, 20)) < 0.4),
        _RNG.normal(size=20),
        0.97,
    ),
}


def right(rew, terminated, truncated, next_val, gamma):
    return np.array(
        [r if over else r + gamma * v for r, over, v in zip(rew, terminated, next_val, strict=True)]
    )


MISTAKES = {
    "You treat a time limit (truncated) as termination: the world would have gone on, and what "
    "follows is worth V(s').": lambda r, term, trunc, v, gamma: r + gamma * v * ~(term | trunc),
    "A state that is terminated and truncated at once is terminal all the same.": (
        lambda r, term, trunc, v, gamma: r + gamma * v * (~term | trunc)
    ),
    "A terminal state has no future: V(s') counts as 0 there, whatever the network says.": (
        lambda r, term, trunc, v, gamma: r + gamma * v
    ),
    "You mixed up terminated and truncated.": lambda r, term, trunc, v, gamma: (
        r + gamma * v * ~trunc
    ),
    "You bootstrap where the episode has terminated, and only there: it is the other way round.": (
        lambda r, term, trunc, v, gamma: r + gamma * v * term
    ),
    "You forgot gamma.": lambda r, term, trunc, v, gamma: r + v * ~term,
    "You discount the reward as well: it comes now.": (
        lambda r, term, trunc, v, gamma: gamma * (r + v * ~term)
    ),
    "You drop the reward of the last step: it counts, only the future does not.": (
        lambda r, term, trunc, v, gamma: (r + gamma * v) * ~term
    ),
    "You drop the reward where an episode ends: it counts, only the future does not.": (
        lambda r, term, trunc, v, gamma: (r + gamma * v) * ~(term | trunc)
    ),
    "You subtract the future: add it.": lambda r, term, trunc, v, gamma: r - gamma * v * ~term,
}

_OBS = _RNG.normal(size=(4, 2))
_FINAL = np.array([[np.nan, np.nan], [5.0, 6.0], [7.0, 8.0], [9.0, 9.5]])
_ENDS = np.array([False, True, False, True]), np.array([False, False, True, True])


def bellman_backup(student):
    compare(lambda *args: student.backup(*args), CASES, right, MISTAKES)


def next_observation(student):
    obs = _OBS.copy()
    compare(
        lambda final_obs, terminated, truncated: student.led_to(
            obs, final_obs, terminated, truncated
        ),
        {"one goes on, one is terminated, one truncated, one both": (_FINAL, *_ENDS)},
        lambda final_obs, *_: np.concatenate([_OBS[:1], final_obs[1:]]),
        {
            "These are the observations after the reset: the value of another episode's beginning "
            "would enter the target.": lambda *_: _OBS,
            "Where the episode goes on there is no final_obs: take obs.": lambda final_obs, *_: (
                final_obs
            ),
            "After truncation the reset observation is used: take final_obs there as well.": (
                lambda final_obs, term, trunc: np.where(term[:, None], final_obs, _OBS)
            ),
            "After termination the reset observation is used. It would not matter for y, but it is "
            "not where the step led: take final_obs.": (
                lambda final_obs, term, trunc: np.where(trunc[:, None], final_obs, _OBS)
            ),
            "final_obs is taken only where the step is terminated and truncated at once: either is "
            "enough.": (
                lambda final_obs, term, trunc: np.where((term & trunc)[:, None], final_obs, _OBS)
            ),
        },
    )
    expect(
        np.array_equal(obs, _OBS),
        "You write into obs. The next actions would be chosen from observations of episodes that "
        "are over: make a new array.",
    )


CHECKS = [bellman_backup, next_observation]
