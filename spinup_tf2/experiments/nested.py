"""Nested dicts of arguments, and names with colons for their entries: `ac_kwargs:hidden_sizes`."""

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any


def nested(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Convert the pairs ("a:b", 1), ("a:c", 2), ("d", 3) to {"a": {"b": 1, "c": 2}, "d": 3}."""
    result: dict[str, Any] = {}
    for key, value in items:
        *path, last = key.split(":")
        level = reduce(lambda level, part: level.setdefault(part, {}), path, result)
        level[last] = value
    return result


def merged(base: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of `base` updated with `other`; nested dicts are merged key by key."""
    result = dict(base)
    for key, value in other.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


def as_flags(arguments: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten `{"gamma": 1, "ac_kwargs": {"conv": 2}}` to `{"gamma": 1, "ac_kwargs:conv": 2}`."""
    flags = {}
    for name, value in arguments.items():
        name = f"{prefix}{name}"
        flags |= as_flags(value, f"{name}:") if isinstance(value, dict) else {name: value}
    return flags
