import functools
import json
import math
import re
from collections import namedtuple

import numpy as np
import pytest

from spinup_tf2.envs.making import EnvFn
from spinup_tf2.files.serialization import convert_json, is_json_serializable


def function():
    pass


class Thing:
    def __init__(self, **attributes):
        vars(self).update(attributes)


Login = namedtuple("Login", "user password")


class Plain:
    __slots__ = ()

    def __str__(self):
        return "plain"


@pytest.mark.parametrize("obj", [1, 0.5, "a", None, True, [1, "b"], {"a": {"b": (1, 2)}}])
def test_what_json_can_hold_stays(obj):
    assert is_json_serializable(obj)
    assert convert_json(obj) == obj


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (function, "function"),
        (Thing, "Thing"),
        (lambda: 0, "<function <lambda>>"),
        (Plain(), "plain"),
        ((function, 2), ("function", 2)),
        ([(function,), {"a": function}], [("function",), {"a": "function"}]),
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


def test_objects_become_their_own_attributes():
    """What they refer to is only named, however many ways lead to it."""
    inner = Thing(deeper=Thing(url="far away"))
    converted = convert_json([Thing(a=1, f=function, inner=inner, more=[inner, {"again": inner}])])
    [[(name, attributes)]] = [each.items() for each in converted]
    assert re.fullmatch(r"<.*Thing object>", name)
    assert attributes == dict(a=1, f="function", inner=name, more=[name, {"again": name}])


@pytest.mark.parametrize(
    "obj",
    [
        {"password": "hunter2"},
        {"env_kwargs": {"API_KEY": ["hunter2"], "size": (1, 2)}},
        Thing(_auth=("bob", "hunter2")),
        Thing(headers={"Authorization": "Bearer hunter2"}),
        Thing(headers="{'Authorization': 'Bearer hunter2'}"),
        "sqlite:///file:o.db?user=bob&password=hunter2&uri=true",
        Thing(storage="postgresql://bob:hunter2@host/db"),
        {"https://hunter2@host": 1},
        EnvFn("CartPole-v1", {"hf_token": "hunter2"}),
        functools.partial(function, "CartPole-v1", api_key="hunter2"),
        {Thing(secret="hunter2"): 1},
        Thing(login=Login("bob", "hunter2")),
        [[("password", "hunter2")]],
        {"aws_secret_access_key_id": "hunter2"},
        {"db_password2": "hunter2", "secretKey": "hunter2", "ssh_key": "hunter2"},
        ["prog --db-password hunter2", "https://host/?sig=hunter2", "Bearer hunter2"],
        '{"password": "a\\"hunter2"}',
    ],
)
def test_secrets_are_hidden(obj):
    text = json.dumps(convert_json(obj), sort_keys=True)
    assert "hunter2" not in text
    assert "..." in text


@pytest.mark.parametrize(
    "obj",
    [
        {"max_tokens": 5, "bypass": "no", "use_token": True, "token": None},
        "author: me",
        {"secretaries": 3},
        ["obs_key", "image"],
        "the bearer of news",
    ],
)
def test_what_only_resembles_a_secret_stays(obj):
    assert convert_json(obj) == obj


def test_numbers_that_json_lacks():
    config = [{"kl": math.inf, "a": (1, -math.inf)}, Thing(best=np.float32("nan"))]
    text = json.dumps(convert_json(config), allow_nan=False)
    assert all(word in text for word in ('"kl": "inf"', '[1, "-inf"]', '"best": "nan"'))


def test_an_object_that_contains_itself():
    thing = Thing(a=1)
    thing.me = thing
    [(name, attributes)] = convert_json(thing).items()
    assert attributes == {"a": 1, "me": name}

    members = [function]
    members.append({"again": members})
    assert convert_json(members) == ["function", {"again": "..."}]
