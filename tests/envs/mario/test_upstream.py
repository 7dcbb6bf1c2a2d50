"""MarioEnv beside the class of gym-super-mario-bros that it is modeled on."""

import json
import os
import subprocess
import sys

import pytest

from tests.envs.mario.consoles import emulator_marks

pytestmark = emulator_marks


def beside_upstream(games):
    program = [sys.executable, "-m", "tests.envs.mario.oracle", games]
    quiet = os.environ | {"PYTHONWARNINGS": "ignore"}
    done = subprocess.run(program, capture_output=True, text=True, env=quiet)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_thousand_frames_equal_those_of_upstream():
    met = beside_upstream("few")
    assert sum(each["frames"] for each in met.values()) == 1000
    assert met["vanilla None"]["deaths"] > 0


@pytest.mark.slow
def test_thousands_of_frames_equal_those_of_upstream():
    met = beside_upstream("many")
    assert sum(each["frames"] for each in met.values()) == 8750
    whole, level = met["vanilla None"], met["vanilla (1, 1)"]
    assert whole["flags"] > 0
    assert whole["stage"] == [1, 2]  # through the pipe between them
    assert whole["deaths"] >= 1
    assert level["flags"] == 1
    assert min(each["deaths"] for each in met.values()) >= 1
    assert max(each["ends"] for each in met.values()) > 3
