"""Spaces on disk."""

import json

import numpy as np
import pytest
from gymnasium import spaces

from spinup_tf2.files.as_json import space_from_json, space_to_json
from tests.envs.test_spaces import SUPPORTED

BITS = spaces.Box(np.array([False, True]), np.array([True, True]), dtype=np.bool_)


@pytest.mark.parametrize("space", [*SUPPORTED, BITS], ids=str)
def test_spaces_survive_json(space):
    again = space_from_json(json.loads(json.dumps(space_to_json(space), sort_keys=True)))
    assert again == space
    space.seed(0)
    sample = space.sample()  # equal is not enough: Dicts with another order of keys are equal
    np.testing.assert_array_equal(spaces.flatten(again, sample), spaces.flatten(space, sample))


def test_subclasses_are_written_as_what_they_are():
    class OwnBox(spaces.Box):
        pass

    space = OwnBox(-1, 1, (2,))
    assert space_from_json(space_to_json(space)) == spaces.Box(-1, 1, (2,))
