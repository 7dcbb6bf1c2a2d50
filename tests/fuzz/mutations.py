"""Inputs that are nearly right, and inputs that are nothing at all."""

import copy
import json
import math

from hypothesis import strategies as st

NASTY = [
    *("", "__import__('os').system('true')", "os:system", "../../etc/passwd", "/dev/zero", "~"),
    *("$\\frac{", "%s%n", "{0.__class__}", "\x00", "\x1b[2J", "\udcff", "a\tb\nc", "nan", "1e999"),
    *("None", "True", "[[[[", "Box", "Dict", "CartPole-v1", "MLPActorCritic", "float32", "object"),
    *("gymnasium.wrappers:ClipReward", "spinup_tf2.run:main", "9" * 5000, "0x" + "f" * 5000),
]
NUMBERS = [0, -1, 2**31, 2**63, 10**12, 10**400, 1.5, -0.0, 1e308, math.nan, math.inf, -math.inf]

LEAVES = st.one_of(
    st.sampled_from(NASTY),
    st.sampled_from(NUMBERS),
    st.sampled_from([None, True, False, [], {}, [[]], [1, 2], {"a": 1}]),
    st.integers(-3, 10),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
)
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)

ACTIONS = ("replace", "replace", "replace", "delete", "rename", "swap", "wrap", "repeat", "deepen")


def _places(value, found):
    """(container, key) of everything in a JSON value."""
    keys = value if isinstance(value, dict) else range(len(value))
    for key in keys:
        found.append((value, key))
        if isinstance(value[key], dict | list):
            _places(value[key], found)
    return found


@st.composite
def changed(draw, *valid):
    """One of some JSON values, in which something was replaced, removed, renamed or moved."""
    root = [copy.deepcopy(draw(st.sampled_from(valid)))]
    for _ in range(draw(st.integers(1, 3))):
        places = _places(root, [])
        container, key = places[draw(st.integers(0, 10**6)) % len(places)]
        action = draw(st.sampled_from(ACTIONS))
        if action == "delete" and container is not root:
            del container[key]
        elif action == "rename" and isinstance(container, dict):
            container[draw(st.text(max_size=5))] = container.pop(key)
        elif action == "swap":
            other, other_key = places[draw(st.integers(0, 10**6)) % len(places)]
            container[key], other[other_key] = (
                copy.deepcopy(other[other_key]),
                copy.deepcopy(container[key]),
            )
        elif action == "wrap":
            container[key] = [container[key]]
        elif action == "repeat" and isinstance(container[key], list):
            container[key] = [copy.deepcopy(each) for each in container[key] * 50]
        elif action == "deepen":
            for _ in range(60):
                container[key] = {"type": "Dict", "spaces": [["a", container[key]]]}
        else:
            container[key] = copy.deepcopy(draw(LEAVES | JSON))
    return root[0]


@st.composite
def damaged(draw, *valid):
    """One of some byte strings, with bits flipped, bytes put in or taken out, or cut off."""
    data = bytearray(draw(st.sampled_from(valid)))
    for _ in range(draw(st.integers(1, 4))):
        where = draw(st.integers(0, max(0, len(data) - 1)))
        action = draw(st.sampled_from(("flip", "cut", "put in", "take out", "overwrite")))
        if action == "flip" and data:
            data[where] ^= 1 << draw(st.integers(0, 7))
        elif action == "cut":
            del data[where:]
        elif action == "put in":
            data[where:where] = draw(st.binary(min_size=1, max_size=8))
        elif action == "take out":
            del data[where : where + draw(st.integers(1, 20))]
        else:
            data[where : where + 4] = draw(st.sampled_from([b"\xff" * 4, b"\0" * 4, b"\x80" * 4]))
    return bytes(data)


def json_files(*valid):
    """The bytes of JSON files: changed, damaged, or something else altogether."""
    texts = [json.dumps(value).encode() for value in valid]
    values = changed(*valid) | changed(*valid) | JSON
    return values.map(lambda value: json.dumps(value).encode()) | damaged(*texts)
