"""Converts arguments of environments and wrappers to JSON and back, preserving their types.

JSON has no tuples and no arrays, and its keys are always strings. An environment that is given a
list instead of a tuple, or "1" instead of 1, might be a different one. So a tuple is written as
`{"__tuple__": [...]}`, and an array as `{"__array__": [...], "dtype": "float32"}`; what cannot be
written is refused.
"""

import json
from typing import Any

import numpy as np

_TUPLE, _ARRAY = "__tuple__", "__array__"
_DTYPES = ("bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)))
_DTYPES += ("float16", "float32", "float64")
_LONGEST = 2**12  # numbers in an array: every checkpoint contains them


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
    if isinstance(value, tuple | list):
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
