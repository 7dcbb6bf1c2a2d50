"""Arguments as JSON, and back."""

import json
from collections import namedtuple

import numpy as np
import pytest

from spinup_tf2.files.as_json import from_json, to_json

Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 3, 0.5, "text", [], {}, (), [1, [2]], (1, (2, [3])), [(1,)]),
        {"size": (2, 3), "deep": {"list": [(4,), {"x": ()}]}},
    ],
)
def test_values_come_back_with_their_types(value):
    again = from_json(json.loads(json.dumps(to_json(value))))
    assert repr(again) == repr(value)


@pytest.mark.parametrize(
    "array",
    [
        *(np.float32([[1, 2.5]]), np.arange(3, dtype=np.uint8), np.array(7), np.array([True])),
        np.array([np.inf, -np.inf]),
    ],
)
def test_arrays_come_back_with_their_types(array):
    [again] = from_json(json.loads(json.dumps(to_json([array]))))
    assert (again.dtype, again.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(again, array)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({1: 5}, "the key 1"),
        ({"x": {None: 5}}, "the key None"),
        ({"__tuple__": []}, "the key '__tuple__'"),
        (Point(1, 2), "a Point"),
        (np.zeros(5000), r"shape \(5000,\)"),
        (np.zeros((0, 3)), r"shape \(0, 3\)"),
        ({"x": {1, 2}}, "type set"),
        (np.array(["a"]), "type ndarray"),
        (print, "not JSON serializable"),
    ],
)
def test_what_would_not_come_back_is_refused(value, reason):
    with pytest.raises(TypeError, match=reason):
        to_json(value)


@pytest.mark.parametrize(
    "value",
    [
        *({"__tuple__": 5}, {"__tuple__": [], "more": 1}, {"__array__": [1]}),
        *({"__array__": [1], "dtype": "O"}, {"__array__": [[1], [2, 3]], "dtype": "int64"}),
        *({"__array__": [300], "dtype": "uint8"}, {"__array__": [None], "dtype": "int8"}),
    ],
)
def test_strange_files_are_refused(value):
    with pytest.raises(ValueError):
        from_json([value])


def test_what_contains_itself_is_refused():
    value = []
    value.append(value)
    with pytest.raises(TypeError, match="contains itself"):
        to_json(dict(x=value))
