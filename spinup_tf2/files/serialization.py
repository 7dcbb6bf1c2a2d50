"""Conversion of any Python object for `json.dumps`, to be read by people, not to be loaded."""

import json
import re
from typing import Any

import numpy as np

_KEY_TYPES = (str, int, float, bool, type(None))


def convert_json(obj: Any) -> Any:
    """Convert `obj` for `json.dumps`.

    Values that JSON can represent are kept. Dicts, lists, tuples and sets are converted member by
    member; functions and classes become their names; an object with attributes becomes
    `{str(obj): attributes}` where it occurs first; everything else becomes `str(obj)`. Memory
    addresses are removed, so that equal runs give equal texts.
    """
    return _convert(obj, (), set())


def is_json_serializable(v: Any) -> bool:
    """Return whether `json.dumps` accepts `v` unchanged, also with sorted keys."""
    try:
        json.dumps(v, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _convert(obj, parents, described):
    """Convert a part of an object, as `convert_json` does.

    Args:
        obj: The part.
        parents: The objects that contain it. An object inside itself is only named.
        described: Ids of the objects whose attributes have been written. The objects of a Keras
            model refer to each other in very many ways.
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
    """Convert a key of a dict to a string, as JSON does, so that keys can be sorted."""
    if isinstance(key, str):
        return key
    if isinstance(key, _KEY_TYPES):
        return json.dumps(key)
    return str(_convert(key, parents, described))


def _text(obj):
    return re.sub(r" at 0x[0-9a-fA-F]+", "", str(obj))
