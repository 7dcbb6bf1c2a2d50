"""Which observation and action spaces are supported, and how they become arrays of numbers."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from spinup_tf2.errors import UserError

# ------------------------------------------------------------------------------- observations


def is_image(space: spaces.Space) -> bool:
    """Whether observations are images: uint8 of three dimensions, at least 32 x 32 pixels.

    The channels come last, `[height, width, channels]`, or first, as gymnasium's frame stack puts
    them; they are the shorter of the two.
    """
    return isinstance(space, spaces.Box) and space.dtype == np.uint8 and _has_shape_of_image(space)


def _has_shape_of_image(space):
    return len(space.shape) == 3 and sorted(space.shape)[1] >= 32


def channels_first(shape: tuple[int, ...]) -> bool:
    """Whether images of this shape have their channels first, see `is_image`."""
    return shape[0] < shape[2]


def network_observation_space(space: spaces.Space) -> spaces.Box:
    """The Box of what the networks see of an observation: what `to_network` returns.

    Images stay as they are. Any other Box is flattened to one dimension, Discrete and
    MultiDiscrete become one-hot vectors, MultiBinary zeros and ones, and a Dict is the
    concatenation of its entries in the order of its keys.

    Raises:
        UserError: It is another space, or has no numbers.
    """
    _check_observation_space(space, "")
    seen = space if is_image(space) else spaces.flatten_space(space)
    if seen.shape == (0,):
        raise UserError(
            f"Observations of {space} have no numbers, so that there is nothing to act on; give "
            "them at least one, such as a constant."
        )
    return seen


def pixels_as_numbers(space: spaces.Space) -> list[str]:
    """Warnings of what looks like an image in a space, and is flattened to a vector as it is."""
    if isinstance(space, spaces.Dict):
        return [text for key, part in space.spaces.items() for text in _pixels_in(part, key)]
    return [] if is_image(space) else _pixels_in(space)


def _pixels_in(space, key=None):
    """Warnings of such images in a space that is flattened, or in the entry `key` of one."""
    if isinstance(space, spaces.Dict):
        return pixels_as_numbers(space)
    if not isinstance(space, spaces.Box):
        return []
    of_bytes = space.dtype == np.uint8 and len(space.shape) > 1 and space.high.max() > 10
    if not (of_bytes or _has_shape_of_image(space)):
        return []
    where = "" if key is None else f" (entry {key!r})"
    size = math.prod(space.shape)
    return [
        f"the observation{where}, {space.dtype} of shape {space.shape}, looks like an image. The "
        f"networks see {size} numbers from {space.low.min():g} to {space.high.max():g}, and have "
        "no convolutions for it: these are for observations that are nothing but an image, of "
        "uint8 and three dimensions, and of at least 32 x 32 pixels. Change it with a wrapper, or "
        "use networks of your own (actor_critic)."
    ]


def network_dtype(space: spaces.Box) -> type:
    """What observations of a `network_observation_space` are kept as: bytes only if images."""
    return np.uint8 if is_image(space) else np.float32


def to_network(space: spaces.Space, obs: Any) -> np.ndarray:
    """An observation of the environment as the networks see it."""
    if is_image(space):
        return np.asarray(obs, np.uint8)
    return spaces.flatten(space, obs).astype(np.float32)


def observation_test(space: spaces.Space, dtype: np.dtype) -> Callable[[Any], bool]:
    """A function that says whether something can stand for an observation of a space.

    The bounds of a Box are not looked at.

    Args:
        space: The space.
        dtype: What the numbers of a Box are converted to, which must not change their kind.
    """
    if isinstance(space, spaces.Box):

        def fits(obs):
            try:
                obs = np.asarray(obs)
            except (TypeError, ValueError):  # lists of unequal length
                return False
            return obs.shape == space.shape and np.can_cast(obs.dtype, dtype, "same_kind")

        return fits
    if isinstance(space, spaces.Discrete):
        # In the range, and a whole number; `in` alone takes ten times as long.
        numbers = range(int(space.start), int(space.start + space.n))
        whole = (int, np.integer)
        return lambda obs: (isinstance(obs, whole) and int(obs) in numbers) or obs in space
    if isinstance(space, spaces.Dict):
        tests = {key: observation_test(part, dtype) for key, part in space.spaces.items()}
        return lambda obs: (
            isinstance(obs, Mapping)
            and all(key in obs and fits(obs[key]) for key, fits in tests.items())
        )
    return lambda obs: obs in space


def _check_observation_space(space, where):
    if isinstance(space, spaces.Dict):
        if not space.spaces:
            raise UserError(f"The Dict observation{where} has no entries; give it at least one.")
        for key, part in space.spaces.items():
            if not isinstance(key, str):
                raise UserError(f"The Dict observation has a key {key!r}; keys must be strings.")
            _check_observation_space(part, f" (entry {key!r})")
    elif not isinstance(
        space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary
    ):
        raise UserError(
            f"The observation space {type(space).__name__}{where} is not supported; supported are "
            "Box, Discrete, MultiDiscrete, MultiBinary and Dict of these. Wrap the environment in "
            "a gymnasium.ObservationWrapper that returns one of them."
        )


def flatten_observations(env: gym.Env) -> gym.Env:
    """`env`, wrapped where necessary so that it returns what the networks see."""
    space = env.observation_space
    seen = network_observation_space(space)  # refuses what is not supported
    if isinstance(space, spaces.Box) and seen.shape == space.shape:
        return env
    return gym.wrappers.FlattenObservation(env)


# ------------------------------------------------------------------------------------ actions


@dataclass(frozen=True)
class ActionSpec:
    """An action as policies see it, and the noise from which one is made.

    Attributes:
        shape: Of one action: `[act_dim]` for Box, `[]` for Discrete, `[k]` for k discrete actions
            at once.
        num_choices: How many values each of the k discrete actions has; None for Box.
        noise_shape: Of the noise for one action: standard normals, one for each dimension of a Box;
            Gumbel noise `[..., max(num_choices)]` for discrete ones (argmax(logits + noise) is a
            sample).
        bounded: Whether policies act in [-1, 1], for which the environment is given what lies
            between each dimension's own low and high.
    """

    space: spaces.Space
    shape: tuple
    dtype: type
    num_choices: tuple | None
    noise_shape: tuple
    bounded: bool = False

    def draw_noise(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Noise for `size` actions, float32 `[size, *noise_shape]`, from a numpy Generator."""
        shape = (size, *self.noise_shape)
        if self.num_choices is None:
            return rng.standard_normal(shape, dtype=np.float32)
        return rng.gumbel(size=shape).astype(np.float32)

    def from_env(self, act: Any) -> np.ndarray:
        """One action as the environment's `step` takes it, in the form that policies have."""
        flat = np.asarray(act).reshape(self.shape)
        if self.bounded:
            low, high = (bound.reshape(self.shape) for bound in (self.space.low, self.space.high))
            flat = 2 * (flat - low) / (high - low) - 1
        elif self.num_choices is not None:
            flat = flat - np.reshape(getattr(self.space, "start", 0), (-1,) * len(self.shape))
        return flat.astype(self.dtype)

    def to_env(self, act: np.ndarray) -> np.ndarray:
        """Actions `[n, *shape]` as a vector environment's `step` takes them.

        Those of a Box are copies, which environments may change.
        """
        if self.num_choices is None:
            act = act.reshape(len(act), *self.space.shape)
            if self.bounded:
                low, high = self.space.low, self.space.high
                # This form gives low and high exactly; between them, rounding is clipped.
                act = np.clip((1 - act) / 2 * low + (1 + act) / 2 * high, low, high)
            return act.astype(self.space.dtype)
        start = getattr(self.space, "start", 0)
        if isinstance(self.space, spaces.Discrete):
            return act + start if start else act
        return (act.reshape(len(act), *self.space.shape) + start).astype(self.space.dtype)


def action_spec(space: spaces.Space) -> ActionSpec:
    """The ActionSpec of an action space.

    Raises:
        UserError: It is not supported.
    """
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        act_dim = int(np.prod(space.shape))
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
        num_choices = (2,) * int(np.prod(space.shape))
    else:
        name = type(space).__name__ + (f" of {space.dtype}" if space.dtype is not None else "")
        raise UserError(
            f"The action space {name} is not supported; supported are Box of floating-point "
            "numbers, Discrete, MultiDiscrete and MultiBinary. Wrap the environment in a "
            "gymnasium.ActionWrapper that takes one of them."
        )
    k = len(num_choices)
    return ActionSpec(space, (k,), np.int32, num_choices, (k, max(num_choices)))


def bounded_action_spec(space: spaces.Space, discrete: bool = False) -> ActionSpec:
    """The ActionSpec of policies that act in [-1, 1], the range of tanh.

    Args:
        discrete: Whether Discrete is supported as well.

    Raises:
        UserError: It is a Box without finite bounds, or another space.
    """
    if discrete and isinstance(space, spaces.Discrete):
        return action_spec(space)
    if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
        raise UserError(
            f"The action space {type(space).__name__} is not supported by this algorithm, which "
            f"takes a Box of floating-point numbers{' or Discrete' if discrete else ''}. "
            "(sac, vpg, trpo, ppo, ppg and a2c take Discrete; all of these but sac also take the "
            "others.)"
        )
    if not space.is_bounded():
        raise UserError(
            f"The action space {space} is unbounded; this algorithm's actions lie between each "
            "dimension's low and high. Wrap the environment in a gymnasium.ActionWrapper whose "
            "action space is a Box with finite bounds, or use vpg, trpo, ppo, ppg or a2c."
        )
    if (space.low == space.high).any():
        raise UserError(f"In the action space {space} low equals high: nothing is left to choose.")
    return replace(action_spec(space), bounded=True)
