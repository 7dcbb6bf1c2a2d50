"""Environment variables in the place of the settings in user_config."""

import os
import runpy
import subprocess
import sys

import pytest

from spinup_tf2 import user_config
from spinup_tf2.errors import UserError


def settings(monkeypatch, **variables):
    """The settings of a process with these environment variables."""
    for name, value in variables.items():
        monkeypatch.setenv(f"SPINUP_TF2_{name}", value)
    return runpy.run_path(user_config.__file__)


def test_what_they_mean(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    found = settings(
        monkeypatch,
        **dict(DATA_DIR="~/data", FORCE_DATESTAMP="Yes", DEFAULT_SHORTHAND="0"),
        **dict(WAIT_BEFORE_LAUNCH="0", CHECKPOINT_INTERVAL="1.5e1"),
    )
    assert found["DEFAULT_DATA_DIR"] == "/home/me/data"
    assert (found["FORCE_DATESTAMP"], found["DEFAULT_SHORTHAND"]) == (True, False)
    assert (found["WAIT_BEFORE_LAUNCH"], found["CHECKPOINT_INTERVAL"]) == (0, 15)


@pytest.mark.parametrize("name", ["CHECKPOINT_INTERVAL", "WAIT_BEFORE_LAUNCH"])
@pytest.mark.parametrize("text", ["nan", "60s", "-1"])
def test_what_is_no_number_of_seconds(monkeypatch, name, text):
    message = f"^the environment variable SPINUP_TF2_{name} is '{text}'; set it to a number of sec"
    with pytest.raises(UserError, match=message):
        settings(monkeypatch, **{name: text})


def test_what_is_neither_yes_nor_no(monkeypatch):
    with pytest.raises(UserError, match="FORCE_DATESTAMP is 'maybe'; set it to 1 or 0"):
        settings(monkeypatch, FORCE_DATESTAMP="maybe")


def test_the_command_says_so_in_one_line():
    done = subprocess.run(
        [sys.executable, "-m", "spinup_tf2.run", "ls", "/"],
        env=os.environ | dict(SPINUP_TF2_CHECKPOINT_INTERVAL="60s"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("spinup_tf2: error: the environment variable SPINUP_TF2_CHECKP")
    assert done.stderr.count("\n") == 1
