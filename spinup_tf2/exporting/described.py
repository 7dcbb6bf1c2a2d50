"""Describes spaces for exported policies, in a form that can be written as JSON.

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
        path: Keys that lead to the part through nested Dicts.
        kind: How it is passed to the networks: 'image' as it is, 'numbers' flattened, 'one_hot' as
            zeros and ones.
        shape: Shape of the part.
        sizes, start: For 'one_hot', the number of values of each entry, and the lowest value.
    """

    path: tuple[str, ...]
    kind: str
    shape: tuple[int, ...]
    sizes: tuple[int, ...] = ()
    start: tuple[int, ...] = ()


def parts_of(space: spaces.Space, path: tuple[str, ...] = ()) -> list[Part]:
    """Return the parts of an observation, in the order in which the networks take them."""
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
    """Return the number of network inputs for each part."""
    return [sum(part.sizes) or int(np.prod(part.shape)) for part in parts]


def put_together(parts: list[Part], values: list[Any]) -> Any:
    """Compose an observation from the values of its parts: a single value, or nested dicts."""
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
    """Return the value of a part in an observation."""
    for key in part.path:
        observation = observation[key]
    return observation


def bounds_of(space: spaces.Space, part: Part) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and the highest values of a 'numbers' part, in its shape and type."""
    for key in part.path:
        space = space[key]
    if isinstance(space, spaces.MultiBinary):
        return np.zeros(part.shape, space.dtype), np.ones(part.shape, space.dtype)
    return space.low, space.high


def action_arrays(action_space: spaces.Space) -> Mapping[str, np.ndarray]:
    """Return arrays that describe an action space: finite `low` and `high`, or `start`."""
    if isinstance(action_space, spaces.Box):
        bounds = dict(low=action_space.low, high=action_space.high)
        return {name: bound for name, bound in bounds.items() if np.isfinite(bound).any()}
    start = getattr(action_space, "start", None)
    return {} if start is None else dict(start=np.asarray(start))
