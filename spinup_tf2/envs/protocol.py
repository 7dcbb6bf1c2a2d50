"""Checks that what environments return follows gymnasium's protocol."""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from spinup_tf2.envs.spaces import as_array, observation_test
from spinup_tf2.errors import UserError, shortened

_NUMBERS = frozenset((float, int, np.float64, np.float32, np.int64))
_ONE_REWARD = "one number is expected, as mo_gymnasium.wrappers.LinearReward makes of several"
_TRUTHS = frozenset((bool, np.bool_))


class ProtocolError(Exception):
    """An environment breaks gymnasium's protocol.

    Args:
        did: What it did, such as 'returned 4 values'.
        expected: What was expected, as a clause.
    """

    def __init__(self, did: str, expected: str):
        super().__init__(did, expected)
        self.did, self.expected = did, expected

    def sentence(self, environment: str, when: str = "") -> str:
        """Return the message: what the environment did, when, and what was expected."""
        done = f"{environment} {self.did} {when}".rstrip()
        advice = "gymnasium.utils.env_checker.check_env looks for such mistakes."
        return f"{done}; {self.expected}. {advice}"


class CheckedEnv(gym.Wrapper):
    """Wrapper that raises ProtocolError if an environment breaks gymnasium's protocol.

    Usual values pass after a few comparisons of types, at no measurable cost; only unusual ones
    are checked in detail. The bounds of a Box are not checked.

    Args:
        env: The environment.
        max_ep_len: Time limit, in steps. (It is part of this wrapper because a separate one would
            take as long as all the checks.)
    """

    def __init__(self, env: gym.Env, max_ep_len: int):
        super().__init__(env)
        self._max_ep_len, self._t = max_ep_len, 0
        space = env.observation_space
        self._fits = observation_test(space)
        is_box = isinstance(space, spaces.Box)
        self._shape, self._dtype = (space.shape, space.dtype) if is_box else (None, None)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        self._t = 0
        result = self.env.reset(seed=seed, options=options)
        if not isinstance(result, tuple) or len(result) != 2:
            raise ProtocolError(
                f"returned {_said(result)}", "a pair (observation, info) is expected"
            )
        self._check(*result)
        return result

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        result = self.env.step(action)
        if not isinstance(result, tuple) or len(result) != 5:
            raise ProtocolError(
                f"returned {_said(result)}",
                "five values are expected, (observation, reward, terminated, truncated, info)",
            )
        obs, rew, terminated, truncated, info = result
        if (
            type(obs) is not np.ndarray
            or obs.dtype is not self._dtype
            or obs.shape != self._shape
            or type(info) is not dict
        ):
            self._check(obs, info)
        if type(rew) not in _NUMBERS:
            several = isinstance(rew, np.ndarray | list | tuple)
            _check_scalar("reward", rew, "biuf", _ONE_REWARD if several else "a number is expected")
        if type(terminated) not in _TRUTHS or type(truncated) not in _TRUTHS:
            _check_scalar("terminated", terminated, "b", "True or False is expected")
            _check_scalar("truncated", truncated, "b", "True or False is expected")
        self._t += 1
        cut_off = truncated or self._t >= self._max_ep_len
        if (terminated or cut_off) and "is_success" in info:
            success_of(info["is_success"])
        return (obs, rew, terminated, True, info) if cut_off else result

    def _check(self, obs, info):
        if not self._fits(obs):
            space = shortened(str(self.env.observation_space))
            expected = f"an element of its observation space is expected, {space}"
            raise ProtocolError(f"returned as observation {_said(obs)}", expected)
        if not isinstance(info, Mapping):
            raise ProtocolError(f"returned as info {_said(info)}", "a dict is expected")


def success_of(told: Any) -> bool:
    """Return an environment's `is_success`, from its info, as a bool.

    Raises:
        ProtocolError: It is neither True or False, nor 1 or 0.
    """
    expected = "True or False is expected, or no such entry"
    _check_scalar("is_success", told, "biuf", expected)
    if float(told) not in (0, 1):
        raise ProtocolError(f"returned as is_success {_said(told)}", expected)
    return bool(told)


def check_is_env(env: Any) -> None:
    """Raise UserError for anything that is not an environment of gymnasium."""
    if isinstance(env, gym.Env):
        return
    advice = ""
    if isinstance(env, gym.vector.VectorEnv):
        advice = " Return a single one, and give the number of environments as num_envs."
    raise UserError(f"env_fn returned {_said(env)}; it must return a gymnasium.Env.{advice}")


def _check_scalar(name, value, kinds, expected):
    """Raise ProtocolError unless a value is a number of these kinds (NumPy's letters).

    It may be a zero-dimensional array, of any library.
    """
    array = as_array(value)
    if array is None or array.shape != () or array.dtype.kind not in kinds:
        raise ProtocolError(f"returned as {name} {_said(value)}", expected)


def _said(value):
    if not isinstance(value, np.ndarray):
        return shortened(" ".join(repr(value).split()))
    array = f"an array of shape {value.shape} and dtype {value.dtype}"
    return array if value.size > 1 else f"{value.tolist()}, {array}"
