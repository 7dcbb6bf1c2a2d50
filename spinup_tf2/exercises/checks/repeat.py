"""Checks of a wrapper that repeats actions."""

import gymnasium as gym
import numpy as np

from spinup_tf2.exercises.checking import Wrong, compare, expect


class _Steps(gym.Env):
    """Environment that observes the number of steps; step k has the reward 2^k, so that sums are
    unique.
    """

    observation_space = gym.spaces.Box(0, 1000, (1,))
    action_space = gym.spaces.Discrete(3)

    def __init__(self, length, terminated, truncated):
        self.length, self.how = length, (terminated, truncated)

    def reset(self, *, seed=None, options=None):
        self.steps, self.actions = 0, []
        return np.zeros(1), {"step": 0}

    def step(self, action):
        if self.steps == self.length:
            raise Wrong(
                "A step is taken after the end of the episode: leave the loop if a step returns "
                "terminated or truncated."
            )
        self.steps += 1
        self.actions.append(action)
        over = self.steps == self.length
        flags = (over and flag for flag in self.how)
        return np.array([self.steps]), 2.0**self.steps, *flags, {"step": self.steps}


# Number of times that an action is taken, length of the episode, terminated, truncated.
CASES = {
    "1 time": (1, 3, True, False),
    "3 times, no end": (3, 100, True, False),
    "terminated in the last of 3 steps": (3, 3, True, False),
    "terminated in the 2nd of 4 steps": (4, 2, True, False),
    "truncated in the 2nd of 4 steps": (4, 2, False, True),
    "terminated and truncated in the 1st of 2 steps": (2, 1, True, True),
}


def _taken(times, length):
    """Return the numbers of the steps that one action lasts: 1, 2, ..."""
    return np.arange(1, min(times, length) + 1)


def _after(student, times, *episode):
    """Return the wrapper, and the result of its first step."""
    env = student.RepeatAction(_Steps(*episode), times)
    env.reset()
    result = env.step(2)
    expect(
        isinstance(result, tuple) and len(result) == 5,
        "step should return 5 things: observation, reward, terminated, truncated, info.",
    )
    return env, result


def number_of_steps(student):
    def answer(*case):
        env = _after(student, *case)[0].unwrapped
        expect(set(env.actions) <= {2}, f"Action 2 was given, the environment got {env.actions}.")
        return env.steps

    compare(
        answer,
        CASES,
        lambda times, length, *_: len(_taken(times, length)),
        {
            "One step too many is taken.": lambda times, length, *_: min(times + 1, length),
            "One step too few is taken.": lambda times, length, *_: min(max(times - 1, 1), length),
            "The action is taken once only.": lambda *_: 1,
        },
    )


def reward(student):
    def of_steps(function):
        return lambda times, length, *_: function(2.0 ** _taken(times, length))

    compare(
        lambda *case: _after(student, *case)[1][1],
        CASES,
        of_steps(np.sum),
        {
            "This is the reward of the last step: return the sum.": of_steps(lambda rew: rew[-1]),
            "This is the reward of the first step: return the sum.": of_steps(lambda rew: rew[0]),
            "This is the mean of the rewards: return the sum.": of_steps(np.mean),
            "You divide the sum by `times`: return the sum itself.": lambda times, length, *_: (
                np.sum(2.0 ** _taken(times, length)) / times
            ),
            "The reward of the step that ends the episode is missing: add it before you leave the "
            "loop.": lambda times, length, *_: sum(
                2.0**k for k in _taken(times, length) if k < length
            ),
            "The reward of the first step is missing.": of_steps(lambda rew: rew[1:].sum()),
            "This is the largest reward: return the sum.": of_steps(np.max),
        },
    )


def ends(student):
    def flags(function):
        def ending(times, length, terminated, truncated):
            over = times >= length
            return function(over and terminated, over and truncated)

        return ending

    compare(
        lambda *case: np.float64(_after(student, *case)[1][2:4]),
        CASES,
        flags(lambda terminated, truncated: (terminated, truncated)),
        {
            "A truncated episode is returned as terminated: the agent would believe that nothing "
            "follows.": flags(lambda terminated, truncated: (terminated or truncated, False)),
            "An episode that is over is returned as terminated and truncated, whichever it was.": (
                flags(lambda terminated, truncated: (terminated or truncated,) * 2)
            ),
            "Truncation is lost: the agent would never know that the episode is over.": flags(
                lambda terminated, truncated: (terminated, False)
            ),
            "Termination is lost.": flags(lambda terminated, truncated: (False, truncated)),
            "terminated and truncated are swapped.": flags(
                lambda terminated, truncated: (truncated, terminated)
            ),
            "Both are always False.": lambda *_: (False, False),
        },
    )


def observation_and_info(student):
    for place, what in ((0, "observation"), (4, "info")):

        def last(result, place=place):
            return result[0][0] if place == 0 else result[4]["step"]

        compare(
            lambda *case, last=last: last(_after(student, *case)[1]),
            CASES,
            lambda times, length, *_: _taken(times, length)[-1],
            {f"This is the {what} of the first step: return that of the last one.": lambda *_: 1},
        )


_ACTIONS = {
    "2 actions of 3 steps, a reset, and 1 more": (3, 100, False, False),
    "the second of 2 actions ends the episode; a reset, and 1 more": (3, 5, False, True),
}


def _rows(times, length, terminated, truncated):
    """Return the right results of three actions, `[3, 4]`: step, reward, terminated, truncated."""
    first, second = _taken(times, length), np.arange(times + 1, min(2 * times, length) + 1)
    rows = []
    for steps in (first, second, first):
        over = steps[-1] == length
        rows.append((steps[-1], np.sum(2.0**steps), over and terminated, over and truncated))
    return np.float64(rows)


def further_actions(student):
    def answer(times, *episode):
        env, first = _after(student, times, *episode)
        second = env.step(2)
        env.reset()
        return [[obs[0], *others] for obs, *others, _ in (first, second, env.step(2))]

    def with_rewards(function):
        def mistaken(*case):
            rows = _rows(*case)
            rows[:, 1] = function(rows[:, 1])
            return rows

        return mistaken

    compare(
        answer,
        _ACTIONS,
        _rows,
        {
            "The rewards of all actions are added up: begin the sum with 0 in each step, not in "
            "__init__.": with_rewards(np.cumsum),
            "The rewards of all actions of an episode are added up: begin the sum with 0 in each "
            "step, not in reset.": with_rewards(lambda rew: [rew[0], rew[0] + rew[1], rew[2]]),
        },
    )


CHECKS = [number_of_steps, reward, ends, observation_and_info, further_actions]
