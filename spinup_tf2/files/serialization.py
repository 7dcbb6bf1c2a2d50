"""Conversion of any Python object for `json.dumps`, to be read by people, not to be loaded."""

import json
import math
import re
from typing import Any

import numpy as np

_KEY_TYPES = (str, int, float, bool, type(None))

# What is named like this is hidden: the record is printed, passed around, and sent to trackers.
_SECRET = (
    r"(?:(?:pass(?:word|wd|phrase|code)|pwd|secret|credential|cookie|session[_-]?(?:id|key)|"
    r"(?:api|access|account|private|ssh|signing|encryption)[_-]?key)(?:s|key|\d+)?(?:[_-]\w{0,20})?"
    r"|(?:token|authorization|bearer|(?<![a-z])(?:auth|pass|pw|jwt))[\d_]*)"
)
_HIDDEN = "..."
_SECRET_NAME = re.compile(_SECRET + r"\Z", re.IGNORECASE)
# In texts: `password=hunter2`, `'api_key': 'abc'`, `Authorization: Bearer abc`, user:password@host.
_IN_TEXT = re.compile(
    rf"""({_SECRET}['"]?\s*[:=]\s*|--[\w-]{{0,20}}?{_SECRET}\s+|[?&](?:key|sig|signature)=)"""
    r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|"""
    r"""(?:(?:bearer|basic|digest|token) )?[^\s,;&)}\]'"]+)"""
    r"""|(?<=://)[^\s/'"]+(?=@)|(?<=bearer )[^\s,;'"]{6,}""",
    re.IGNORECASE,
)


def convert_json(obj: Any) -> Any:
    """Convert `obj` for `json.dumps`.

    Values that JSON can represent are kept. Dicts, lists, tuples and sets are converted member by
    member; functions and classes become their names; an object with attributes becomes
    `{class: attributes}`, where objects among the attributes are only named, so that nothing is
    recorded that it merely refers to; everything else becomes `str(obj)`, as do infinity and NaN.
    Memory addresses are removed, so that equal runs give equal texts. What is named like a
    password or a key becomes "...".
    """
    return _convert(obj, (), inside=False)


def is_json_serializable(v: Any) -> bool:
    """Return whether `json.dumps` accepts `v` unchanged, also with sorted keys."""
    try:
        json.dumps(v, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _convert(obj, parents, inside):
    """Convert a part of an object, as `convert_json` does.

    Args:
        obj: The part.
        parents: The objects that contain it. An object inside itself is only named.
        inside: Whether it belongs to an object whose attributes are written.
    """
    if isinstance(obj, np.generic):
        obj = obj.item()
    if isinstance(obj, float) and not math.isfinite(obj):
        return str(obj)
    if isinstance(obj, _KEY_TYPES):
        return _without_secrets(obj) if isinstance(obj, str) else obj
    if "lambda" not in str(getattr(obj, "__name__", "lambda")):
        return str(obj.__name__)
    if any(obj is parent for parent in parents):
        return "..." if isinstance(obj, dict | list | tuple) else _text(obj)

    parents = (*parents, obj)
    if isinstance(obj, tuple) and hasattr(obj, "_asdict"):
        obj = obj._asdict()
    if isinstance(obj, dict):
        return _convert_dict(obj, parents, inside)
    if isinstance(obj, list | tuple):
        if len(obj) == 2 and isinstance(obj[0], str) and _is_secret(*obj):
            return [obj[0], _HIDDEN]  # an entry of a list of headers
        members = [_convert(member, parents, inside) for member in obj]
        return tuple(members) if isinstance(obj, tuple) else members
    if isinstance(obj, set | frozenset):
        return sorted((_convert(member, parents, inside) for member in obj), key=str)
    if getattr(obj, "__dict__", None) and not inside:
        return {_text(obj): _convert_dict(vars(obj), parents, inside=True)}
    return _text(obj)


def _is_secret(name, value):
    return _SECRET_NAME.search(name) and not isinstance(value, bool | None)


def _convert_dict(entries, parents, inside):
    converted = {}
    for key, value in entries.items():
        name = _convert_key(key, parents, inside)
        converted[name] = _HIDDEN if _is_secret(name, value) else _convert(value, parents, inside)
    return converted


def _convert_key(key, parents, inside):
    """Convert a key of a dict to a string, as JSON does, so that keys can be sorted."""
    if isinstance(key, str):
        return _without_secrets(key)
    if isinstance(key, _KEY_TYPES):
        return json.dumps(key)
    return str(_convert(key, parents, inside))


def _without_secrets(text):
    return _IN_TEXT.sub(lambda match: (match[1] or "") + _HIDDEN, text)


def _text(obj):
    """Return an object as text; only by its class if it is not ours and has attributes."""
    kind = type(obj)
    if getattr(obj, "__dict__", None) and not kind.__module__.startswith("spinup_tf2."):
        return f"<{kind.__module__}.{kind.__qualname__} object>"
    return _without_secrets(re.sub(r" at 0x[0-9a-fA-F]+", "", str(obj)))
