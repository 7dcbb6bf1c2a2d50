"""A gymnasium wrapper: one decision, several steps.

At 60 frames per second, an agent need not decide in each frame. The wrapper takes an action, passes
it to the environment `times` times, and returns the overall result:

- the observation and the info after the last of these steps,
- the sum of their rewards,
- terminated and truncated as the last of these steps returned them.

If a step ends the episode, no further step follows: an environment is never stepped after its end.
"""

from typing import Any

import gymnasium as gym
import numpy as np

from spinup_tf2.exercises.checking import Wrong, compare, expect


class RepeatAction(gym.Wrapper):
    """Takes every action `times` times.

    Args:
        env: The environment.
        times: Number of steps that an action lasts, at least 1.
    """

    def __init__(self, env: gym.Env, times: int):
        super().__init__(env)
        self.times = times

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        """Return observation, sum of rewards, terminated, truncated and info."""
        # answer
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
    "truncated in the 2nd of 2 times 3 steps": (3, 5, False, True),
    "terminated in the last of 3 steps": (3, 3, True, False),
    "terminated in the 2nd of 4 steps": (4, 2, True, False),
    "truncated in the 2nd of 4 steps": (4, 2, False, True),
    "terminated and truncated in the 1st of 2 steps": (2, 1, True, True),
}


def _results(module, times, *episode):
    """Return what two actions give, or one that ends the episode, and again after a reset.

    `[actions, 5]`: the step in the observation and in the info, reward, terminated, truncated.
    """
    env, rows = module.RepeatAction(_Steps(*episode), times), []
    for _ in range(2):
        env.reset()
        while env.unwrapped.steps < min(2 * times, env.unwrapped.length):
            result = env.step(2)
            expect(
                isinstance(result, tuple) and len(result) == 5,
                "step should return 5 things: observation, reward, terminated, truncated, info.",
            )
            obs, rew, terminated, truncated, info = result
            rows.append((obs[0], info["step"], rew, terminated, truncated))
            given = env.unwrapped.actions
            expect({*given} <= {2}, f"Action 2 was given, the environment got {given}.")
    return rows


def _right(times, length, terminated, truncated):
    rows = []
    for first in range(1, min(2 * times, length) + 1, times):
        steps = range(first, min(first + times, length + 1))
        over = steps[-1] == length
        total = sum(2.0**step for step in steps)
        rows.append((steps[-1], steps[-1], total, over and terminated, over and truncated))
    return rows + rows


_FLAGS = "total, terminated, truncated => total,"
_OF_FIRST = "+= rew => += rew; first = first if _ else {0}\nreturn => {0} = first; return"
_KEPT = "return obs => self.total = total; return obs"
_MISTAKES = {
    "One step too many is taken.": "range(self.times) => range(self.times + 1)",
    "One step too few is taken.": "range(self.times) => range(max(self.times - 1, 1))",
    "This is the reward of the last step: return the sum.": "total += rew => total = rew",
    "You divide the sum by `times`: return the sum itself.": (
        "obs, total => obs, total / self.times"
    ),
    "The reward of the step that ends the episode is missing.": (
        "+= rew => += 0 if terminated or truncated else rew"
    ),
    "A truncated episode is returned as terminated.": f"{_FLAGS} terminated or truncated, False",
    "Truncation is lost.": f"{_FLAGS} terminated, False",
    "terminated and truncated are swapped.": f"{_FLAGS} truncated, terminated",
    "This is the observation of the first step, not of the last.": _OF_FIRST.format("obs"),
    "This is the info of the first step: return that of the last one.": _OF_FIRST.format("info"),
    "Begin the sum with 0 in each step, not in __init__.": (
        f'total = 0.0 => total = getattr(self, "total", 0.0)\n{_KEPT}'
    ),
    "Begin the sum with 0 in each step, not in reset.": (
        f"total = 0.0 => total = self.total if self.env.steps else 0.0\n{_KEPT}"
    ),
}


def check_steps(student):
    compare(student, _results, _CASES, _right, _MISTAKES)
