"""Any Python object as something that `json.dumps` accepts, readable rather than loadable."""

import json
import re
from typing import Any

import numpy as np

_KEY_TYPES = (str, int, float, bool, type(None))


def convert_json(obj: Any) -> Any:
    """Convert `obj` for `json.dumps`.

    What JSON can hold stays. Dicts, lists, tuples and sets are converted member by member;
    functions and classes become their names; an object with attributes becomes
    `{str(obj): attributes}`, the first time that it is met; everything else `str(obj)`. Memory
    addresses are left out, so that equal runs give equal texts.
    """
    return _convert(obj, (), set())


def is_json_serializable(v: Any) -> bool:
    """Whether `json.dumps` accepts `v` as it is, also with its keys in order."""
    try:
        json.dumps(v, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _convert(obj, parents, described):
    """`convert_json` for a part of an object.

    Args:
        obj: The part.
        parents: What it is part of. An object inside itself is only named there.
        described: Ids of the objects whose attributes have been told. Those of a Keras model lead
            to each other on very many ways.
    """
    if is_json_serializable(obj):
        return obj
    if isinstance(obj, np.generic):
        return obj.item() if is_json_serializable(obj.item()) else str(obj)
    if "lambda" not in getattr(obj, "__name__", "lambda"):
        return obj.__name__
    if any(obj is parent for parent in parents):
        return "..." if isinstance(obj, dict | list | tuple) else _text(obj)

    parents = (*parents, obj)
    if isinstance(obj, dict):
        return {
            _convert_key(key, parents, described): _convert(value, parents, described)
            for key, value in obj.items()
        }
    if isinstance(obj, list | tuple):
        return [_convert(member, parents, described) for member in obj]
    if isinstance(obj, set | frozenset):
        return sorted((_convert(member, parents, described) for member in obj), key=str)
    if getattr(obj, "__dict__", None) and id(obj) not in described:
        described.add(id(obj))
        return {_text(obj): _convert(vars(obj), parents, described)}
    return _text(obj)


def _convert_key(key, parents, described):
    """JSON has only strings as keys, and what it makes of other keys can be sorted with them."""
    if isinstance(key, str):
        return key
    if isinstance(key, _KEY_TYPES):
        return json.dumps(key)
    return str(_convert(key, parents, described))


def _text(obj):
    return re.sub(r" at 0x[0-9a-fA-F]+", "", str(obj))
