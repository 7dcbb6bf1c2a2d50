"""MarioEnv beside the class of gym-super-mario-bros that it is modeled on."""

import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.envs.mario.consoles import emulator_marks
from tests.envs.mario.oracle import held_at_random

pytestmark = emulator_marks


NUMBERS = "5e30fe60bbc225c6"


def test_three_hundred_frames_are_those_that_were_upstreams():
    """Rewards, ends, memory and some pictures; the test below shows where the number is from."""
    from spinup_tf2.envs.mario.env import MarioEnv

    env, seen = MarioEnv(actions="complex"), hashlib.sha256()
    env.reset()
    actions = held_at_random(np.random.default_rng(0), 12)
    for frame, action in zip(range(300), actions, strict=False):
        obs, rew, terminated, *_ = env.step(action)
        seen.update(repr((rew, terminated)).encode() + bytes(env.ram))
        if frame % 50 == 0:
            seen.update(obs.tobytes())
        if terminated:
            env.reset()
    env.close()
    assert seen.hexdigest()[:16] == NUMBERS


@pytest.mark.learning
def test_thousands_of_frames_equal_those_of_upstream():
    program = [sys.executable, "-m", "tests.envs.mario.oracle"]
    quiet = os.environ | {"PYTHONWARNINGS": "ignore"}
    done = subprocess.run(program, capture_output=True, text=True, env=quiet)
    assert done.returncode == 0, done.stderr
    met = json.loads(done.stdout)
    assert sum(each["frames"] for each in met.values()) == 9050
    whole, level = met["vanilla None 3000"], met["vanilla (1, 1) 2000"]
    assert whole["flags"] > 0
    assert whole["stage"] == [1, 2]  # through the pipe between them
    assert whole["deaths"] >= 1
    assert level["flags"] == 1
    assert min(each["deaths"] for each in met.values() if each["frames"] > 300) >= 1
    assert max(each["ends"] for each in met.values()) > 3
