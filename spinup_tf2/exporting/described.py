"""What an exported policy must know of the spaces, in words that JSON has.

An observation is described by its parts: the entries of a Dict, or the observation itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from spinup_tf2.envs.spaces import is_image


@dataclass(frozen=True)
class Part:
    """A part of an observation.

    Attributes:
        path: The keys that lead to it through Dicts.
        kind: How the networks see it: 'image' as it is, 'numbers' flattened, 'one_hot' as zeros
            and ones.
        shape: Of this part.
        sizes, start: Of 'one_hot', how many values each number has, and the lowest of them.
    """

    path: tuple[str, ...]
    kind: str
    shape: tuple[int, ...]
    sizes: tuple[int, ...] = ()
    start: tuple[int, ...] = ()


def parts_of(space: spaces.Space, path: tuple[str, ...] = ()) -> list[Part]:
    """The parts of an observation, in the order in which the networks see them."""
    if isinstance(space, spaces.Dict):
        return [part for key, each in space.items() for part in parts_of(each, (*path, key))]
    if not path and is_image(space):
        return [Part(path, "image", space.shape)]
    if isinstance(space, spaces.Discrete):
        return [Part(path, "one_hot", (), (int(space.n),), (int(space.start),))]
    if isinstance(space, spaces.MultiDiscrete):
        sizes, start = (tuple(map(int, each.ravel())) for each in (space.nvec, space.start))
        return [Part(path, "one_hot", space.shape, sizes, start)]
    return [Part(path, "numbers", space.shape)]


def widths_of(parts: list[Part]) -> list[int]:
    """How many numbers the networks see of each part."""
    return [sum(part.sizes) or int(np.prod(part.shape)) for part in parts]


def put_together(parts: list[Part], values: list[Any]) -> Any:
    """The observation that consists of these values: one of them, or a dict of dicts."""
    observation: Any = {}
    for part, value in zip(parts, values, strict=True):
        if not part.path:
            return value
        *outer, last = part.path
        entry = observation
        for key in outer:
            entry = entry.setdefault(key, {})
        entry[last] = value
    return observation


def part_in(part: Part, observation: Any) -> Any:
    """The value of a part in an observation."""
    for key in part.path:
        observation = observation[key]
    return observation


def bounds_of(space: spaces.Space, part: Part) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and highest values of a part that is 'numbers', of its shape and type."""
    for key in part.path:
        space = space[key]
    if isinstance(space, spaces.MultiBinary):
        return np.zeros(part.shape, space.dtype), np.ones(part.shape, space.dtype)
    return space.low, space.high


def action_arrays(action_space: spaces.Space) -> Mapping[str, np.ndarray]:
    """What the environment's actions have: `low` and `high` where there are any, or `start`."""
    if isinstance(action_space, spaces.Box):
        bounds = dict(low=action_space.low, high=action_space.high)
        return {name: bound for name, bound in bounds.items() if np.isfinite(bound).any()}
    start = getattr(action_space, "start", None)
    return {} if start is None else dict(start=np.asarray(start))
