"""Checks that what environments return follows gymnasium's protocol.

Usual values pass after a few comparisons of types, at no measurable cost; only unusual ones are
checked in detail.
"""

import inspect
import traceback
from collections.abc import Mapping
from typing import Any, NoReturn

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from spinup_tf2.envs.spaces import observation_test
from spinup_tf2.errors import UserError, shortened

_ARRAY = np.ndarray
_NUMBERS = frozenset((float, int, np.float64, np.float32, np.int64))
_TRUTHS = frozenset((bool, np.bool_))

_ADVICE = "gymnasium.utils.env_checker.check_env looks for such mistakes."
_OLD = (
    "It seems to be written for gym, gymnasium's predecessor: upgrade it to reset(seed, options)"
    " -> (observation, info) and "
    "step(action) -> (observation, reward, terminated, truncated, info), "
    f"or wrap it with shimmy (https://shimmy.farama.org). {_ADVICE}"
)
_NOT_FIVE = "not enough values to unpack (expected 5, got 4)"  # in a wrapper, of what step returned


class ProtocolError(Exception):
    """An environment breaks gymnasium's protocol.

    Args:
        did: Description of what it did, such as 'returned 4 values'.
        expected: Description of what was expected, as a clause.
        advice: Advice on how to correct it, as a sentence.
    """

    def __init__(self, did: str, expected: str, advice: str = _ADVICE):
        super().__init__(did, expected, advice)
        self.did, self.expected, self.advice = did, expected, advice

    def sentence(self, environment: str, when: str = "") -> str:
        """Return the message: what the environment did, when, what was expected, and the advice."""
        done = f"{environment} {self.did} {when}".rstrip()
        return f"{done}; {self.expected}. {self.advice}"


class CheckedEnv(gym.Wrapper):
    """Wrapper that raises ProtocolError if an environment breaks gymnasium's protocol.

    Other exceptions of the environment pass through.

    Args:
        env: The environment.
        max_ep_len: Time limit, in steps. (It is part of this wrapper because a separate one would
            take as long as all the checks.)
    """

    def __init__(self, env: gym.Env, max_ep_len: int):
        super().__init__(env)
        self._max_ep_len, self._t = max_ep_len, 0
        space = env.observation_space
        self._fits = observation_test(space, spaces.flatten_space(space).dtype)
        is_box = isinstance(space, spaces.Box)
        self._shape, self._dtype = (space.shape, space.dtype) if is_box else (None, None)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        self._t = 0
        try:
            result = self.env.reset(seed=seed, options=options)
        except Exception as error:
            if isinstance(error, TypeError) and "unexpected keyword argument" in str(error):
                _check_signature(self.env.unwrapped.reset)
            _check_cause(error)
            raise
        if not isinstance(result, tuple) or len(result) != 2:
            old = self._fits(result)
            expected = "a pair is expected, (observation, info)"
            raise ProtocolError(f"returned {_said(result)}", expected, _OLD if old else _ADVICE)
        self._check(*result)
        return result

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        try:
            result = self.env.step(action)
        except Exception as error:
            _check_cause(error)
            raise
        if not isinstance(result, tuple) or len(result) != 5:
            _refuse(result)
        obs, rew, terminated, truncated, info = result
        if (
            type(obs) is not _ARRAY
            or obs.dtype is not self._dtype
            or obs.shape != self._shape
            or type(rew) not in _NUMBERS
            or type(terminated) not in _TRUTHS
            or type(truncated) not in _TRUTHS
            or type(info) is not dict
        ):
            self._look_closely(*result)
        self._t += 1
        cut_off = truncated or self._t >= self._max_ep_len
        if (terminated or cut_off) and "is_success" in info:
            success_of(info["is_success"])
        return (obs, rew, terminated, True, info) if cut_off else result

    def _look_closely(self, obs, rew, terminated, truncated, info):
        self._check(obs, info)
        if not _is_scalar(rew, "biuf"):
            raise ProtocolError(f"returned as reward {_said(rew)}", "a number is expected")
        for name, value in (("terminated", terminated), ("truncated", truncated)):
            if not _is_scalar(value, "b"):
                raise ProtocolError(
                    f"returned as {name} {_said(value)}", "True or False is expected"
                )

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
    if not _is_scalar(told, "b") and not (_is_scalar(told, "iuf") and float(told) in (0, 1)):
        raise ProtocolError(
            f"returned as is_success {_said(told)}", "True or False is expected, or no such entry"
        )
    return bool(told)


def check_is_env(env: Any) -> None:
    """Raise UserError for anything that is not an environment of gymnasium."""
    if not isinstance(env, gym.Env):
        kind = type(env)
        old = any(base.__module__.partition(".")[0] == "gym" for base in kind.__mro__)
        advice = _OLD if old else "Make it a subclass of gymnasium.Env."
        name = f"{kind.__module__}.{kind.__qualname__}"
        raise UserError(f"env_fn returned {_said(env)}, a {name}, and no gymnasium.Env. {advice}")


# ------------------------------------------------------------------------------------- checks


def _is_scalar(x, kinds):
    """Return whether x is a number of these kinds (NumPy's letters), or a zero-dimensional array.

    The array may be of any library.
    """
    try:
        x = np.asarray(x)
    except (TypeError, ValueError):
        return False
    return x.shape == () and x.dtype.kind in kinds


# ----------------------------------------------------------------------------------- messages


def _refuse(result) -> NoReturn:
    expected = "five are expected: observation, reward, terminated, truncated, info"
    if not isinstance(result, tuple):
        raise ProtocolError(f"returned {_said(result)}", "a tuple of five values is expected")
    advice = _OLD if len(result) == 4 else _ADVICE
    raise ProtocolError(f"returned {len(result)} values", expected, advice)


def _check_signature(reset):
    """Raise ProtocolError if a `reset` does not take the arguments that gymnasium passes."""
    parameters = inspect.signature(reset).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return
    missing = [name for name in ("seed", "options") if name not in parameters]
    if missing:
        did = f"took no {' and no '.join(missing)}"
        raise ProtocolError(did, "seed and options are expected to be parameters", _OLD) from None


def _check_cause(error):
    """Raise ProtocolError if a wrapper failed because of what the environment returned."""
    if isinstance(error, ValueError) and str(error) == _NOT_FIVE:
        raise ProtocolError("returned 4 values", "five are expected", _OLD) from error
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    of_gymnasium = ("gymnasium.wrappers.", "gymnasium.utils.passive_env_checker")
    if isinstance(
        error, AssertionError | LookupError | TypeError | ValueError
    ) and frame.f_globals.get("__name__", "").startswith(of_gymnasium):
        reason = shortened(" ".join(f"{type(error).__name__}: {error}".split()))
        did = f"returned what gymnasium's own wrappers cannot use ({reason})"
        raise ProtocolError(did, "what its protocol says is expected") from error


def _said(value):
    if not isinstance(value, np.ndarray):
        return shortened(" ".join(repr(value).split()))
    array = f"an array of shape {value.shape} and dtype {value.dtype}"
    return array if value.size > 1 else f"{value.tolist()}, {array}"
