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

from spinup_tf2.exercises.checking import calls, compare, expect


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
    # answer
    return rew + gamma * np.where(terminated, 0.0, next_val)


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
    # answer
    return np.where((terminated | truncated)[:, None], final_obs, obs)


# ---------------------------------------------------------------- checks

_RNG = np.random.default_rng(7)


def _one(terminated, truncated):
    return np.array([1.0]), np.array([terminated]), np.array([truncated]), np.array([10.0]), 0.9


_STEPS = {
    "the episode continues": _one(False, False),
    "terminated": _one(True, False),
    "truncated": _one(False, True),
    "terminated and truncated at once": _one(True, True),
    "20 random steps": (
        _RNG.normal(size=20),
        *(_RNG.random((2, 20)) < 0.4),
        _RNG.normal(size=20),
        0.97,
    ),
}


def _right(rew, terminated, truncated, next_val, gamma):
    steps = zip(rew, terminated, next_val, strict=True)
    return [r if over else r + gamma * v for r, over, v in steps]


def check_bellman_backup(student):
    mistakes = {
        "You treat a time limit (truncated) as an end of the world.": (
            "where(terminated => where(terminated | truncated"
        ),
        "A state that is terminated and truncated is terminal, too.": (
            "where(terminated => where(terminated & ~truncated"
        ),
        "A terminal state has no future: V(s') is 0 there.": (
            "np.where(terminated, 0.0, next_val) => next_val"
        ),
        "You mixed up terminated and truncated.": "where(terminated => where(truncated",
        "You forgot gamma.": "gamma * => ",
        "The last step has a reward, too.": "rew + => rew * ~terminated +",
    }
    compare(student, calls("backup"), _STEPS, _right, mistakes)


_OBS = _RNG.normal(size=(4, 2))
_FINAL = np.array([[np.nan, np.nan], [5.0, 6.0], [7.0, 8.0], [9.0, 9.5]])
_ENDS = np.array([False, True, False, True]), np.array([False, False, True, True])


def check_next_observation(student):
    cases = {"one continues, one is terminated, one truncated, one both": (_OBS, _FINAL, *_ENDS)}
    mistakes = {
        "These are the observations after the reset, of another episode.": (
            "final_obs, obs) => obs, obs)"
        ),
        "Where an episode continues there is no final_obs.": (
            "final_obs, obs) => final_obs, final_obs)"
        ),
        "After truncation, too, take final_obs.": "(terminated | truncated)[ => terminated[",
        "After termination, too, take final_obs.": "(terminated | truncated)[ => truncated[",
    }

    def right(obs, final_obs, *_):
        return np.concatenate([obs[:1], final_obs[1:]])

    compare(student, calls("led_to"), cases, right, mistakes)
    obs = _OBS.copy()
    student.led_to(obs, _FINAL, *_ENDS)
    expect(
        np.array_equal(obs, _OBS),
        "You write into obs. The next actions would be chosen from observations of episodes that "
        "are over: make a new array.",
    )
