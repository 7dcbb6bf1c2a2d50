"""The supported observation and action spaces, and their conversion to arrays."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from spinup_tf2.errors import UserError

# ------------------------------------------------------------------------------- observations


def is_image(space: spaces.Space) -> bool:
    """Return whether observations are images, of three dimensions.

    These are bytes (uint8) of at least 32 x 32 pixels, or Booleans of at least 8 x 8, as MinAtar's.
    The channels come last, `[height, width, channels]`, or first, as in gymnasium's frame stack:
    the channel axis is the shorter of the first and the last.
    """
    least = {"uint8": 32, "bool": 8}.get(str(space.dtype), math.inf)
    return isinstance(space, spaces.Box) and _has_shape_of_image(space, least)


def _has_shape_of_image(space, least=32):
    return len(space.shape) == 3 and sorted(space.shape)[1] >= least


def channels_first(shape: tuple[int, ...]) -> bool:
    """Return whether images of this shape have their channels first; see `is_image`."""
    return shape[0] < shape[2]


def network_observation_space(space: spaces.Space) -> spaces.Box:
    """Return the Box of network inputs, as returned by `to_network`, for an observation space.

    Images stay as they are. Any other Box is flattened to one dimension, Discrete and
    MultiDiscrete become one-hot vectors, MultiBinary zeros and ones, and a Dict or Tuple is the
    concatenation of its entries in their order.

    Raises:
        UserError: The space is not supported, or its observations are empty.
    """
    _check_observation_space(space, "")
    seen = space if is_image(space) else spaces.flatten_space(space)
    if seen.shape == (0,):
        raise UserError(f"Observations of {space} have no numbers: there is nothing to act on.")
    return seen


def parts_of(space: spaces.Space) -> list[tuple[Any, spaces.Space]]:
    """Return the entries of a Dict or Tuple with their keys or numbers; of others, nothing."""
    if isinstance(space, spaces.Dict):
        return [*space.spaces.items()]
    return [*enumerate(space.spaces)] if isinstance(space, spaces.Tuple) else []


_SUPPORTED = (
    *(spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary),
    *(spaces.Dict, spaces.Tuple),
)


def _check_observation_space(space, where):
    for key, part in parts_of(space):
        _check_observation_space(part, f" (entry {key!r})")
    if not isinstance(space, _SUPPORTED):
        raise UserError(
            f"The observation space {type(space).__name__}{where} is not supported; supported are "
            "Box, Discrete, MultiDiscrete, MultiBinary, and Dict and Tuple of these. Wrap the "
            "environment in a gymnasium.ObservationWrapper that returns one of them."
        )


def pixels_as_numbers(space: spaces.Space, entry: str | int | None = None) -> list[str]:
    """Return warnings about parts of a space that look like images but will be flattened.

    Args:
        space: The observation space, or a part of one.
        entry: Key of the part, if it is an entry of a Dict or Tuple.
    """
    if parts := parts_of(space):
        return [text for key, part in parts for text in pixels_as_numbers(part, key)]
    if not isinstance(space, spaces.Box) or (entry is None and is_image(space)):
        return []
    of_bytes = space.dtype == np.uint8 and len(space.shape) > 1 and space.high.max() > 10
    if not (of_bytes or _has_shape_of_image(space)):
        return []
    where = "" if entry is None else f" (entry {entry!r})"
    return [
        f"the observation{where}, {space.dtype} of shape {space.shape}, looks like an image. The "
        f"networks see {math.prod(space.shape)} numbers, and have no convolutions for it: these "
        "are for observations that are nothing but an image of three dimensions, of bytes (uint8) "
        "and at least 32 x 32 pixels, or of Booleans. Change it with a wrapper, or use networks of "
        "your own (actor_critic)."
    ]


def actions_out_of_reach(spec: "ActionSpec") -> list[str]:
    """Return a warning if a Gaussian policy, which begins around 0, misses most of a Box's actions.

    Args:
        spec: The form of the actions.
    """
    if spec.bounded or spec.num_choices is not None or not spec.space.is_bounded():
        return []
    low, high = spec.space.low.astype(float), spec.space.high.astype(float)
    center, half = (high + low) / 2, (high - low) / 2
    if np.all((abs(center) <= half) & (half >= 0.1) & (half <= 10)):
        return []
    return [
        f"actions lie between {low.min():g} and {high.max():g}, and the policy begins around 0, "
        "with a standard deviation of about 0.6. Scale them: put gymnasium.wrappers.RescaleAction "
        "around the environment, on the command line by --wrapper 'RescaleAction(min_action=-1, "
        "max_action=1)'."
    ]


def network_dtype(space: spaces.Box) -> type:
    """Return the dtype in which observations are stored: uint8 for images, otherwise float32."""
    return np.uint8 if is_image(space) else np.float32


def to_network(space: spaces.Space, obs: Any) -> np.ndarray:
    """Convert an observation of the environment to the networks' input."""
    if is_image(space):
        return np.asarray(obs, np.uint8)
    return spaces.flatten(space, obs).astype(np.float32)


def observation_test(space: spaces.Space, dtype: np.dtype | None = None) -> Callable[[Any], bool]:
    """Return a function that tells whether a value can be used as an observation of a space.

    The bounds of a Box are not checked.

    Args:
        space: The space.
        dtype: Type to which the numbers of a Box are converted, which must be possible by casting
            of the kind "same_kind"; by default that of the Box.
    """

    def fits(part, obs):
        if isinstance(part, spaces.Box):
            obs = as_array(obs)
            wanted = part.dtype if dtype is None else dtype
            same_shape = obs is not None and obs.shape == part.shape
            return same_shape and np.can_cast(obs.dtype, wanted, "same_kind")
        if isinstance(part, spaces.Dict):
            return isinstance(obs, Mapping) and all(
                key in obs and fits(entry, obs[key]) for key, entry in part.spaces.items()
            )
        if isinstance(part, spaces.Tuple):
            same_length = isinstance(obs, tuple | list) and len(obs) == len(part.spaces)
            return same_length and all(map(fits, part.spaces, obs))
        if isinstance(part, spaces.Discrete) and isinstance(obs, int | np.integer):
            first = int(part.start)  # their sum may be too large for the space's type
            return first <= obs < first + int(part.n)  # `in` takes ten times as long
        return obs in part

    return partial(fits, space)


def as_array(value: Any) -> np.ndarray | None:
    """Return a value as an array, or None if it cannot be one, such as lists of unequal length."""
    try:
        return np.asarray(value)
    except (TypeError, ValueError):
        return None


def flatten_observations(env: gym.Env) -> gym.Env:
    """Wrap `env`, if necessary, so that it returns observations as the networks take them."""
    space = env.observation_space
    seen = network_observation_space(space)  # raises UserError if it is not supported
    if isinstance(space, spaces.Box) and seen.shape == space.shape:
        return env
    return gym.wrappers.FlattenObservation(env)


# ------------------------------------------------------------------------------------ actions


@dataclass(frozen=True)
class ActionSpec:
    """The form of actions that policies use, and of the noise from which they are sampled.

    Attributes:
        space: Action space of the environment.
        shape: Shape of one action: `[act_dim]` for Box, `[]` for Discrete, `[k]` for k discrete
            actions at once.
        dtype: Type of the numbers in an action.
        num_choices: Number of values of each of the k discrete actions; None for Box.
        noise_shape: Shape of the noise for one action: standard normal noise for each dimension of
            a Box; Gumbel noise `[..., max(num_choices)]` for discrete actions, for which
            argmax(logits + noise) is a sample.
        bounded: Whether policies act in [-1, 1], which is scaled to the range from low to high of
            each dimension for the environment.
    """

    space: spaces.Space
    shape: tuple
    dtype: type
    num_choices: tuple | None
    noise_shape: tuple
    bounded: bool = False

    def draw_noise(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw noise for `size` actions, float32 `[size, *noise_shape]`."""
        shape = (size, *self.noise_shape)
        if self.num_choices is None:
            return rng.standard_normal(shape, dtype=np.float32)
        return rng.gumbel(size=shape).astype(np.float32)

    def allows(self, act: np.ndarray) -> bool:
        """Return whether an action can be taken; the environment itself enforces a Box's bounds."""
        is_box = self.num_choices is None
        fits = act.shape == self.space.shape
        return bool(fits and (np.isfinite(act).all() if is_box else act in self.space))

    def from_env(self, act: Any) -> np.ndarray:
        """Convert one action of the environment to the form that policies use."""
        flat = np.asarray(act).reshape(self.shape)
        if self.bounded:
            low, high = (bound.reshape(self.shape) for bound in (self.space.low, self.space.high))
            flat = 2 * (flat - low) / (high - low) - 1
        elif self.num_choices is not None:
            flat = flat - np.reshape(self._start, (-1,) * len(self.shape))
        return flat.astype(self.dtype)

    def to_env(self, act: np.ndarray) -> np.ndarray:
        """Convert actions `[n, *shape]` of a policy for the `step` of a vector environment.

        The result has the type of the space, and is a copy, which environments may modify.
        """
        act = act.reshape(len(act), *self.space.shape)
        if self.num_choices is None:
            if self.bounded:
                low, high = self.space.low, self.space.high
                # This formula is exact at low and high; clipping removes rounding errors.
                act = np.clip((1 - act) / 2 * low + (1 + act) / 2 * high, low, high)
        else:
            act = act + self._start
        return act.astype(self.space.dtype)

    @property
    def _start(self):
        """The lowest value of each discrete action, in a type that holds all differences."""
        return np.asarray(getattr(self.space, "start", 0), np.int64)


def action_spec(space: spaces.Space) -> ActionSpec:
    """Return the ActionSpec of an action space.

    Raises:
        UserError: The space is not supported.
    """
    if _is_float_box(space):
        act_dim = math.prod(space.shape)
        if act_dim == 0:
            raise UserError(
                f"The action space {space} has no dimensions: nothing is left to choose."
            )
        return ActionSpec(space, (act_dim,), np.float32, None, (act_dim,))
    if isinstance(space, spaces.Discrete):
        choices = int(space.n)
        return ActionSpec(space, (), np.int32, (choices,), (choices,))
    if isinstance(space, spaces.MultiDiscrete):
        num_choices = tuple(int(n) for n in space.nvec.ravel())
    elif isinstance(space, spaces.MultiBinary):
        num_choices = (2,) * math.prod(space.shape)
    else:
        name = type(space).__name__ + (f" of {space.dtype}" if space.dtype is not None else "")
        raise UserError(
            f"The action space {name} is not supported; supported are Box of floating-point "
            "numbers, Discrete, MultiDiscrete and MultiBinary. Wrap the environment in a "
            "gymnasium.ActionWrapper that takes one of them."
        )
    k = len(num_choices)
    return ActionSpec(space, (k,), np.int32, num_choices, (k, max(num_choices)))


def discrete_action_spec(space: spaces.Space) -> ActionSpec:
    """Return the ActionSpec of a Discrete space; raise UserError for any other."""
    if not isinstance(space, spaces.Discrete):
        raise _not_taken(space, "Discrete")
    return action_spec(space)


def bounded_or_discrete_action_spec(space: spaces.Space) -> ActionSpec:
    """Return the ActionSpec of a Discrete space, or else what `bounded_action_spec` returns."""
    return (action_spec if isinstance(space, spaces.Discrete) else bounded_action_spec)(space)


def bounded_action_spec(space: spaces.Space) -> ActionSpec:
    """Return the ActionSpec for policies that act in [-1, 1], the range of tanh.

    Raises:
        UserError: The space is a Box whose bounds are not finite or equal, or is not supported.
    """
    if not _is_float_box(space):
        raise _not_taken(space, "a Box of floating-point numbers (sac also takes Discrete)")
    if not space.is_bounded() or (space.low == space.high).any():
        raise UserError(
            f"The action space {space} is unbounded, or low equals high; this algorithm's actions "
            "lie between each dimension's low and high. Wrap the environment in a "
            "gymnasium.ActionWrapper with other bounds, or use vpg, trpo, ppo, ppg or a2c."
        )
    return replace(action_spec(space), bounded=True)


def _not_taken(space, taken):
    return UserError(
        f"The action space {type(space).__name__} is not supported by this algorithm, which takes "
        f"{taken}. vpg, trpo, ppo, ppg and a2c take all supported action spaces."
    )


def _is_float_box(space):
    return isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating)
