"""A gymnasium wrapper: one decision, several steps."""

import gymnasium as gym
import numpy as np

from spinup_tf2.exercises.checking import Wrong, compare, expect


class RepeatAction(gym.Wrapper):
    def __init__(self, env, times):
        super().__init__(env)
        self.times = times

    def step(self, action):
        total = 0.0
        for _ in range(self.times):
            obs, rew, terminated, truncated, info = self.env.step(action)
            total += rew
            if terminated or truncated:
                break
        return obs, total, terminated, truncated, info


# ---------------------------------------------------------------- checks


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
_CASES = {
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


def _after(module, times, *episode):
    """Return the wrapper, and the result of its first step."""
    env = module.RepeatAction(_Steps(*episode), times)
    env.reset()
    result = env.step(2)
    expect(
        isinstance(result, tuple) and len(result) == 5,
        "step should return 5 things: observation, reward, terminated, truncated, info.",
    )
    return env, result


def check_number_of_steps(student):
    def answer(module, *case):
        env = _after(module, *case)[0].unwrapped
        expect(set(env.actions) <= {2}, f"Action 2 was given, the environment got {env.actions}.")
        return env.steps

    mistakes = {
        "One step too many is taken.": "range(self.times) => range(self.times + 1)",
        "One step too few is taken.": "range(self.times) => range(max(self.times - 1, 1))",
        "The action is taken once only.": "range(self.times) => range(1)",
    }

    def right(times, length, *_):
        return min(times, length)

    compare(student, answer, _CASES, right, mistakes)


def check_reward(student):
    mistakes = {
        "This is the reward of the last step: return the sum.": "total += rew => total = rew",
        "This is the reward of the first step: return the sum.": "+= rew => = total or rew",
        "This is the mean of the rewards: return the sum.": "+= rew => += (rew - total) / (_ + 1)",
        "You divide the sum by `times`: return the sum itself.": (
            "obs, total => obs, total / self.times"
        ),
        "The reward of the step that ends the episode is missing: add it before you leave the "
        "loop.": "+= rew => += 0 if terminated or truncated else rew",
        "The reward of the first step is missing.": "+= rew => += rew if _ else 0",
    }

    def answer(module, *case):
        return _after(module, *case)[1][1]

    def right(times, length, *_):
        return np.sum(2.0 ** _taken(times, length))

    compare(student, answer, _CASES, right, mistakes)


def check_ends(student):
    def right(times, length, terminated, truncated):
        over = times >= length
        return over and terminated, over and truncated

    flags = "total, terminated, truncated => total,"
    mistakes = {
        "A truncated episode is returned as terminated: the agent would believe that nothing "
        "follows.": f"{flags} terminated or truncated, False",
        "An episode that is over is returned as terminated and truncated, whichever it was.": (
            f"{flags} terminated or truncated, terminated or truncated"
        ),
        "Truncation is lost: the agent would never know that the episode is over.": (
            f"{flags} terminated, False"
        ),
        "Termination is lost.": f"{flags} False, truncated",
        "terminated and truncated are swapped.": f"{flags} truncated, terminated",
        "Both are always False.": f"{flags} False, False",
    }

    def answer(module, *case):
        return np.float64(_after(module, *case)[1][2:4])

    compare(student, answer, _CASES, right, mistakes)


def check_observation_and_info(student):
    def right(times, length, *_):
        return _taken(times, length)[-1]

    last = {
        "obs": ("observation", lambda module, *case: _after(module, *case)[1][0][0]),
        "info": ("info", lambda module, *case: _after(module, *case)[1][4]["step"]),
    }
    for name, (what, answer) in last.items():
        sentence = f"This is the {what} of the first step: return that of the last one."
        edits = (
            f"+= rew => += rew; first = first if _ else {name}\nreturn => {name} = first; return"
        )
        compare(student, answer, _CASES, right, {sentence: edits})


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


def check_further_actions(student):
    def answer(module, times, *episode):
        env, first = _after(module, times, *episode)
        second = env.step(2)
        env.reset()
        return [[obs[0], *others] for obs, *others, _ in (first, second, env.step(2))]

    mistakes = {
        "The rewards of all actions are added up: begin the sum with 0 in each step, not in "
        "__init__.": (
            'total = 0.0 => total = getattr(self, "total", 0.0)\n'
            "return obs => self.total = total; return obs"
        ),
        "The rewards of all actions of an episode are added up: begin the sum with 0 in each step, "
        "not in reset.": (
            "total = 0.0 => total = self.total if self.env.steps else 0.0\n"
            "return obs => self.total = total; return obs"
        ),
    }
    compare(student, answer, _ACTIONS, _rows, mistakes)
