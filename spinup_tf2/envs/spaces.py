"""Which observation and action spaces are supported, and how they become arrays of numbers."""

import math
from collections.abc import Mapping
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
    return (
        isinstance(space, spaces.Box)
        and space.dtype == np.uint8
        and len(space.shape) == 3
        and sorted(space.shape)[1] >= 32
    )


def network_observation_space(space: spaces.Space) -> spaces.Box:
    """The Box of what the networks see of an observation: what `to_network` returns.

    Images stay as they are. Any other Box is flattened to one dimension, Discrete and
    MultiDiscrete become one-hot vectors, MultiBinary zeros and ones, and a Dict is the
    concatenation of its entries in the order of its keys.
    Raises UserError for every other space, by name.
    """
    _check_observation_space(space, "")
    return space if is_image(space) else spaces.flatten_space(space)


def network_dtype(space: spaces.Box) -> type:
    """What observations of a `network_observation_space` are kept as: bytes only if images."""
    return np.uint8 if is_image(space) else np.float32


def to_network(space: spaces.Space, obs: Any) -> np.ndarray:
    """An observation of the environment as the networks see it."""
    if is_image(space):
        return np.asarray(obs, np.uint8)
    return spaces.flatten(space, obs).astype(np.float32)


def _check_observation_space(space, where):
    if isinstance(space, spaces.Dict):
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

    shape: of one action: `[act_dim]` for Box, `[]` for Discrete, `[k]` for k discrete actions at
        once.
    num_choices: how many values each of the k discrete actions has; None for Box.
    noise_shape: of the noise for one action: standard normals, one for each dimension of a Box;
        Gumbel noise `[..., max(num_choices)]` for discrete ones (argmax(logits + noise) is
        a sample).
    bounded: whether policies act in [-1, 1], for which the environment is given what lies between
        each dimension's own low and high.
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
    """The ActionSpec of an action space; raises UserError for one that is not supported."""
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

    discrete: whether Discrete is supported as well.
    Raises UserError for a Box without finite bounds, and for every other space, by name.
    """
    if discrete and isinstance(space, spaces.Discrete):
        return action_spec(space)
    if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
        raise UserError(
            f"The action space {type(space).__name__} is not supported by this algorithm, which "
            f"takes a Box of floating-point numbers{' or Discrete' if discrete else ''}. "
            "(sac, vpg, trpo, ppo and a2c take Discrete; the latter four also take the others.)"
        )
    if not space.is_bounded():
        raise UserError(
            f"The action space {space} is unbounded; this algorithm's actions lie between each "
            "dimension's low and high. Wrap the environment in a gymnasium.ActionWrapper whose "
            "action space is a Box with finite bounds, or use vpg, trpo, ppo or a2c."
        )
    if (space.low == space.high).any():
        raise UserError(f"In the action space {space} low equals high: nothing is left to choose.")
    return replace(action_spec(space), bounded=True)


# ------------------------------------------------------------------------------------ to JSON

_DEEPEST = 32
LARGEST_SPACE = 2**24  # numbers, such as an image of 2300 x 2300 in colours; more is a mistake


def space_to_json(space: spaces.Space) -> dict[str, Any]:
    """A space as a dictionary of plain values, from which `space_from_json` makes it again."""
    if isinstance(space, spaces.Dict):
        # A list, because the order of the keys is the order in which observations are flattened.
        parts = [[key, space_to_json(part)] for key, part in space.spaces.items()]
        return {"type": "Dict", "spaces": parts}
    if isinstance(space, spaces.Box):
        bounds = {name: _bound_to_json(getattr(space, name)) for name in ("low", "high")}
        return {"type": "Box", "shape": list(space.shape), "dtype": str(space.dtype), **bounds}
    if isinstance(space, spaces.Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        start = np.broadcast_to(space.start, space.nvec.shape)
        return {"type": "MultiDiscrete", "nvec": space.nvec.tolist(), "start": start.tolist()}
    if isinstance(space, spaces.MultiBinary):
        n = space.n if isinstance(space.n, int) else list(space.n)
        return {"type": "MultiBinary", "n": n}
    raise UserError(f"The space {type(space).__name__} cannot be written as JSON.")


def space_from_json(data: Mapping[str, Any]) -> spaces.Space:
    """The inverse of `space_to_json`; raises UserError if `data` is none of its results."""
    try:
        if _size(data) > LARGEST_SPACE:  # known before anything of that size is made
            raise UserError(f"It has more than {LARGEST_SPACE} numbers.")
        return _from_json(data)
    except (ArithmeticError, AssertionError, LookupError, RecursionError) as error:
        raise UserError(f"The file describes no space ({_reason(error)}).") from error
    except (TypeError, ValueError) as error:
        raise UserError(f"The file describes no usable space. {_reason(error)}") from error


def _size(data, depth=0):
    """How many numbers an observation or the noise for an action takes, or a few more."""
    kind = data["type"]
    if kind == "Dict":
        if depth == _DEEPEST:
            raise UserError(f"It has Dicts inside one another, more than {_DEEPEST}.")
        return sum(_size(part, depth + 1) for _, part in data["spaces"])
    if kind == "Box":
        return math.prod(map(_whole_number, data["shape"]))
    if kind == "Discrete":
        return _whole_number(data["n"])
    if kind == "MultiDiscrete":
        choices = [_whole_number(n) for n in np.ravel(np.array(data["nvec"], object))]
        return len(choices) * max(choices)
    if kind == "MultiBinary":
        n = data["n"]
        return 2 * math.prod(map(_whole_number, n if isinstance(n, list) else [n]))
    raise UserError(f"Unknown space {kind!r}; the file was written by another version.")


def _whole_number(value):
    if type(value) is not int or value < 0:
        raise UserError(f"{value!r} is not a number of dimensions or discrete values.")
    return value


def _from_json(data):
    kind = data["type"]
    if kind == "Dict":
        # Pairs, because gymnasium would sort the keys of a plain dict.
        return spaces.Dict([(key, _from_json(part)) for key, part in data["spaces"]])
    if kind == "Box":
        low, high = (_bound_from_json(data[name], data) for name in ("low", "high"))
        return spaces.Box(low, high, dtype=low.dtype.type)
    if kind == "Discrete":
        return spaces.Discrete(data["n"], start=data["start"])
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(np.array(data["nvec"]), start=np.array(data["start"]))
    return spaces.MultiBinary(data["n"])


def _reason(error):
    return " ".join(f"{type(error).__name__}: {error}".split())


def _bound_to_json(bound):
    """One number as text where all are equal (JSON has no infinity), else a nested list."""
    first = bound.flat[0] if bound.size else 0
    return str(first) if (bound == first).all() else np.vectorize(str)(bound).tolist()


def _bound_from_json(value, data):
    dtype = np.dtype(str(data["dtype"]))
    if dtype.kind not in "biuf":
        raise UserError(f"{dtype} is not a type of numbers.")
    bound = np.asarray(value, dtype=str).astype(dtype)
    return np.broadcast_to(bound, tuple(data["shape"])).copy()
