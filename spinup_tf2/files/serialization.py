"""Conversion of any Python object for `json.dumps`, to be read by people, not to be loaded."""

import json
import re
from typing import Any

import numpy as np

_KEY_TYPES = (str, int, float, bool, type(None))

# Modules whose objects are described by their own text. That of any other may hold what it refers
# to: the address of a database, with its password.
_DESCRIBE_THEMSELVES = ("builtins", "functools", "pathlib", "numpy", "gymnasium", "spinup_tf2")
_LONGEST = 1000  # characters of an attribute of an object

_SECRET = (
    r"(?:password|passwd|pwd|secret|token|authorization|credentials?|(?:api|access|private)_?key)"
)
_SECRET_NAME = re.compile(rf"(?:.*[_-])?{_SECRET}", re.IGNORECASE)
_SECRET_IN_TEXT = re.compile(
    rf"""(?<![a-z]){_SECRET}["']?\s*[=:]\s*["']?(?P<value>[^\s"',;&)]+)|://(?P<user>[^/\s@]+)@""",
    re.IGNORECASE,
)
HIDDEN = "***"


def convert_json(obj: Any) -> Any:
    """Convert `obj` for `json.dumps`.

    Values that JSON can represent are kept, and those that it lacks, such as infinity, become text.
    Dicts, lists, tuples and sets are converted member by member; functions and classes become their
    names; an object becomes `{its class: attributes}` with those of its own attributes that are
    plain values, and other objects in it become the names of their classes. What is named like a
    password is hidden. Memory addresses are removed, so that equal runs give equal texts.
    """
    return _convert(obj, ())


def _same_json(one, other):
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def is_json_serializable(v: Any) -> bool:
    """Return whether `json.dumps` accepts `v` unchanged, also with sorted keys, as valid JSON."""
    try:
        json.dumps(v, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _convert(obj, parents, attribute=False):
    """Convert a part of an object, as `convert_json` does.

    Args:
        obj: The part.
        parents: The objects that contain it. An object inside itself is only named.
        attribute: Whether it is an attribute of an object, or a part of one.
    """
    if isinstance(obj, str):
        return _without_secrets(obj)
    if is_json_serializable(obj) and not isinstance(obj, dict | list | tuple):
        return obj
    if isinstance(obj, np.generic):
        return _convert(obj.item(), parents) if type(obj.item()) is not type(obj) else str(obj)
    if "lambda" not in getattr(obj, "__name__", "lambda"):
        return obj.__name__
    if any(obj is parent for parent in parents):
        return "..." if isinstance(obj, dict | list | tuple) else _text(obj)

    parents = (*parents, obj)
    if isinstance(obj, dict):
        return {
            _convert_key(key, parents): _hidden(key, _convert(value, parents, attribute))
            for key, value in obj.items()
        }
    if isinstance(obj, list | tuple):
        members = [_convert(member, parents, attribute) for member in obj]
        return obj if is_json_serializable(obj) and _same_json(obj, members) else members
    if isinstance(obj, set | frozenset):
        return sorted((_convert(member, parents, attribute) for member in obj), key=str)
    if not getattr(obj, "__dict__", None) or attribute:
        return _text(obj)
    attributes = _convert(vars(obj), parents, attribute=True)
    return {
        _text(obj): {
            name: x if len(str(x)) <= _LONGEST else _text(vars(obj)[name], short=True)
            for name, x in attributes.items()
        }
    }


def _convert_key(key, parents):
    """Convert a key of a dict to a string, as JSON does, so that keys can be sorted."""
    if isinstance(key, str):
        return key
    if isinstance(key, _KEY_TYPES):
        return json.dumps(key)
    return str(key if is_json_serializable(key) else _convert(key, parents))


def _hidden(name, value):
    is_secret = isinstance(value, str) and _SECRET_NAME.fullmatch(str(name))
    return HIDDEN if value and is_secret else value


def _text(obj, short=False):
    kind = type(obj)
    if short or kind.__module__.partition(".")[0] not in _DESCRIBE_THEMSELVES:
        return f"<{kind.__module__}.{kind.__qualname__} object>"
    return _without_secrets(re.sub(r" at 0x[0-9a-fA-F]+", "", str(obj)))


def _without_secrets(text):
    def hide(match):
        value = match["value"] or match["user"]
        return match[0].replace(value, HIDDEN)

    return _SECRET_IN_TEXT.sub(hide, text)
