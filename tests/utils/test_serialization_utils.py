import json
from functools import partial

import numpy as np
import pytest

from spinup_tf2.files.serialization import convert_json, is_json_serializable


def function():
    pass


class Thing:
    def __init__(self, **attributes):
        vars(self).update(attributes)


class Plain:
    __slots__ = ()

    def __str__(self):
        return "plain"


@pytest.mark.parametrize("obj", [1, 0.5, "a", None, True, [1, "b"], {"a": {"b": (1, 2)}}])
def test_what_json_can_hold_stays(obj):
    assert is_json_serializable(obj)
    assert json.dumps(convert_json(obj)) == json.dumps(obj)


def test_golden_configuration():
    config = {"a": 1, "f": len, "c": dict, "lam": None, "nest": {"x": (1, 2)}, "exp_name": "e"}
    text = json.dumps(convert_json(config), separators=(",", ":\t"), indent=4, sort_keys=True)
    assert text == (
        '{\n    "a":\t1,\n    "c":\t"dict",\n    "exp_name":\t"e",\n    "f":\t"len",\n'
        '    "lam":\tnull,\n    "nest":\t{\n        "x":\t[\n            1,\n            2\n'
        "        ]\n    }\n}"
    )


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (function, "function"),
        (Thing, "Thing"),
        (lambda: 0, "<function <lambda>>"),
        (Plain(), "<tests.utils.test_serialization_utils.Plain object>"),
        ([float("-inf"), {"x": float("nan")}, np.float32("inf")], ["-inf", {"x": "nan"}, "inf"]),
        ((function, 2), ["function", 2]),
        ([(function,), {"a": function}], [["function"], {"a": "function"}]),
        ({(1, 2): function}, {"(1, 2)": "function"}),
        ({(1, 2): 3}, {"(1, 2)": 3}),
        ({function: 1, 2: function}, {"function": 1, "2": "function"}),
        ({"boss": 1, 2: 3, None: 4, True: 5}, {"boss": 1, "2": 3, "null": 4, "true": 5}),
        ({"b", "a"}, ["a", "b"]),
        ({"lr": np.float32(0.5), "n": np.int64(3)}, {"lr": 0.5, "n": 3}),
        (np.array([1, 2]), "[1 2]"),
        (1j, "1j"),
    ],
)
def test_conversions(obj, expected):
    assert convert_json(obj) == expected
    assert is_json_serializable(convert_json(obj))
    json.dumps(convert_json(obj), sort_keys=True)


def test_objects_become_their_own_plain_attributes():
    """Not what they refer to: a study with all its trials, a client with its keys."""
    thing = Thing(a=1, pair=(2, function), inner=Thing(b=3), many=[*range(1000)])
    name = "<tests.utils.test_serialization_utils.Thing object>"
    attributes = {"a": 1, "pair": [2, "function"], "inner": name, "many": "<builtins.list object>"}
    assert convert_json(thing) == {name: attributes}
    assert convert_json([{"x": thing}]) == [{"x": {name: attributes}}]


class Storage:
    def __repr__(self):
        return "Storage(url='mysql://bob:hunter2@host/db')"


@pytest.mark.parametrize(
    "obj",
    [
        Thing(api_key="hunter2"),
        Thing(wandb_token="hunter2", storage=Storage()),
        Thing(headers={"Authorization": "Bearer hunter2"}),
        Thing(url="sqlite:///o.db?user=bob&password=hunter2&uri=true"),
        partial(function, Storage(), "mysql://bob:hunter2@host/db"),
        partial(function, password="hunter2"),
        {"env_kwargs": {"password": "hunter2", "size": 3}},
        ["postgres://hunter2@host", ("--token=hunter2",)],
    ],
)
def test_secrets_are_hidden(obj):
    text = json.dumps(convert_json(obj))
    assert "hunter2" not in text
    assert "***" in text


def test_names_that_are_no_secrets_stay():
    plain = {"num_tokens": 3, "obs_key": "pixels", "token": None, "url": "https://host/a@b"}
    assert convert_json(plain) == plain


def test_an_object_that_contains_itself():
    thing = Thing(a=1)
    thing.me = thing
    [(name, attributes)] = convert_json(thing).items()
    assert attributes == {"a": 1, "me": name}

    members = [function]
    members.append({"again": members})
    assert convert_json(members) == ["function", {"again": "..."}]


def test_equal_objects_give_equal_texts():
    assert convert_json({"f": lambda: 0, "t": Thing(a=1)}) == convert_json(
        {"f": lambda: 0, "t": Thing(a=1)}
    )


def test_an_object_that_refers_to_itself_in_many_ways():
    """Fifty objects, with 2**50 ways through them, as there are through a Keras model."""
    thing = Thing(end=1)
    for _ in range(50):
        thing = Thing(left=thing, right=thing)
    assert len(json.dumps(convert_json(thing))) < 300
