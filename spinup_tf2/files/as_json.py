"""Converts arguments of environments, and spaces, to JSON, and back from files not trusted.

JSON has no tuples and no arrays, and its keys are always strings. An environment that is given a
list instead of a tuple, or "1" instead of 1, might be a different one. So a tuple is written as
`{"__tuple__": [...]}`, and an array as `{"__array__": [...], "dtype": "float32"}`; what cannot be
written is refused.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from spinup_tf2.errors import UserError, kind_and_line

_TUPLE, _ARRAY = "__tuple__", "__array__"
_DTYPES = ("bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)))
_DTYPES += ("float16", "float32", "float64")
_LONGEST = 2**12  # numbers in an array: every checkpoint contains them
_DEEPEST = 32  # Dicts and Tuples inside one another
LARGEST_SPACE = 2**24  # numbers, such as a color image of 2300 x 2300; anything more is a mistake

# ---------------------------------------------------------------- arguments


def to_json(value: Any) -> Any:
    """Convert an argument, or a dict of arguments, for `json.dumps`.

    Raises:
        TypeError: It could not be restored from JSON; the message says why.
    """
    try:
        return _to_json(value)
    except RecursionError as error:
        raise TypeError("an argument contains itself, which JSON cannot hold") from error


def _to_json(value):
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray) and str(value.dtype) in _DTYPES:
        if value.size > _LONGEST or (value.size == 0 and value.ndim > 1):
            raise TypeError(f"an argument is an array of shape {value.shape}, which is not written")
        return {_ARRAY: value.tolist(), "dtype": str(value.dtype)}
    if type(value) is tuple:
        return {_TUPLE: [_to_json(each) for each in value]}
    if type(value) is list:
        return [_to_json(each) for each in value]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str) or key in (_TUPLE, _ARRAY):
                raise TypeError(f"an argument has the key {key!r}, which JSON cannot hold")
        return {key: _to_json(each) for key, each in value.items()}
    if isinstance(value, tuple | list):  # of a class of its own
        raise TypeError(f"an argument is a {type(value).__name__}, which JSON cannot hold")
    json.dumps(value)
    return value


def from_json(value: Any) -> Any:
    """Convert the result of `to_json` back; raise ValueError if `value` is not one."""
    if isinstance(value, list):
        return [from_json(each) for each in value]
    if not isinstance(value, dict):
        return value
    made = {key: from_json(each) for key, each in value.items()}
    if isinstance(made.get(_TUPLE), list) and len(made) == 1:
        return tuple(made[_TUPLE])
    if made.keys() == {_ARRAY, "dtype"} and str(made["dtype"]) in _DTYPES:
        try:
            return np.array(made[_ARRAY], made["dtype"])
        except (TypeError, OverflowError) as error:
            raise ValueError(f"{value} is no array") from error
    if _TUPLE in made or _ARRAY in made:
        raise ValueError(f"{value} is neither a tuple nor an array")
    return made


# ---------------------------------------------------------------- spaces


def space_to_json(space: spaces.Space) -> dict[str, Any]:
    """Convert a space to a dict of plain values. The inverse is `space_from_json`."""
    if isinstance(space, spaces.Dict):
        # A list, because the order of the keys is the order in which observations are flattened.
        parts = [[key, space_to_json(part)] for key, part in space.spaces.items()]
        return {"type": "Dict", "spaces": parts}
    if isinstance(space, spaces.Tuple):
        return {"type": "Tuple", "spaces": [space_to_json(part) for part in space.spaces]}
    if isinstance(space, spaces.Box):
        bounds = {name: _bound_to_json(getattr(space, name)) for name in ("low", "high")}
        return {"type": "Box", "shape": list(space.shape), "dtype": str(space.dtype), **bounds}
    if isinstance(space, spaces.Discrete):
        data = {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
        return data | _dtype_to_json(space)
    if isinstance(space, spaces.MultiDiscrete):
        start = np.broadcast_to(space.start, space.nvec.shape)
        data = {"type": "MultiDiscrete", "nvec": space.nvec.tolist(), "start": start.tolist()}
        return data | _dtype_to_json(space)
    if isinstance(space, spaces.MultiBinary):
        n = space.n if isinstance(space.n, int) else list(space.n)
        return {"type": "MultiBinary", "n": n}
    raise UserError(f"The space {type(space).__name__} cannot be written as JSON.")


def _dtype_to_json(space):
    # The usual type is left out, as in files of earlier versions, with which runs are compared.
    return {} if space.dtype == np.int64 else {"dtype": str(space.dtype)}


def space_from_json(data: Mapping[str, Any]) -> spaces.Space:
    """Convert the result of `space_to_json` back; raise UserError if `data` is not one."""
    try:
        if _size(data) > LARGEST_SPACE:  # checked before anything of that size is allocated
            raise UserError(f"It has more than {LARGEST_SPACE} numbers.")
        return _from_json(data)
    except (ArithmeticError, AssertionError, LookupError, RecursionError) as error:
        raise UserError(f"The file describes no space ({kind_and_line(error)}).") from error
    except (TypeError, ValueError) as error:
        raise UserError(f"The file describes no usable space. {kind_and_line(error)}") from error


def _size(data, depth=0):
    """Return an upper bound on the numbers in an observation, or in the noise for an action."""
    kind = data["type"]
    if kind in ("Dict", "Tuple"):
        if depth == _DEEPEST:
            raise UserError(f"It has {kind}s inside one another, more than {_DEEPEST}.")
        parts = data["spaces"] if kind == "Tuple" else [part for _, part in data["spaces"]]
        return sum(_size(part, depth + 1) for part in parts)
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
    if kind == "Tuple":
        return spaces.Tuple([_from_json(part) for part in data["spaces"]])
    if kind == "Box":
        low, high = (_bound_from_json(data[name], data) for name in ("low", "high"))
        return spaces.Box(low, high, dtype=low.dtype.type)
    dtype = str(data.get("dtype", "int64"))
    if kind == "Discrete":
        return spaces.Discrete(data["n"], start=data["start"], dtype=dtype)
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(np.array(data["nvec"]), dtype, start=np.array(data["start"]))
    return spaces.MultiBinary(data["n"])


def _bound_to_json(bound):
    """Return a bound as strings (JSON has no infinity): one if all are equal, or a nested list."""
    first = bound.flat[0] if bound.size else 0
    return str(first) if (bound == first).all() else np.vectorize(str)(bound).tolist()


def _bound_from_json(value, data):
    dtype = np.dtype(str(data["dtype"]))
    if dtype.kind not in "biuf":
        raise UserError(f"{dtype} is not a type of numbers.")
    text = np.asarray(value, dtype=str)
    bound = text == "True" if dtype.kind == "b" else text.astype(dtype)  # "False" is a text
    return np.broadcast_to(bound, tuple(data["shape"])).copy()
