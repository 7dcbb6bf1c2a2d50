"""The demonstrations that come with the package, on the emulator."""

import pytest

from spinup_tf2.envs.mario.demonstrations import demonstrated, demonstration
from spinup_tf2.envs.mario.env import LEVELS
from spinup_tf2.envs.mario.search import Search, reaches_flag
from tests.envs.mario.consoles import emulator_marks

pytestmark = emulator_marks


SHORTEST = min(demonstrated(), key=lambda stage: len(demonstration(stage)))
STAGES = [
    pytest.param(stage, marks=[] if stage == SHORTEST else pytest.mark.learning)
    for stage in demonstrated()
]


@pytest.mark.parametrize("stage", STAGES)
def test_a_demonstration_clears_its_level(stage):
    assert reaches_flag(LEVELS[stage], demonstration(stage))


@pytest.mark.learning
def test_the_search_finds_the_demonstration_that_is_kept():
    assert Search((1, 4)).run() == demonstration("1-4")
