"""What the tests of the utilities have in common."""

import os

import pytest


@pytest.fixture(autouse=True)
def environment_is_put_back(monkeypatch):
    """What a recording chooses for the graphics libraries holds until the end of its process."""
    for name in ("MUJOCO_GL", "SDL_VIDEODRIVER"):
        if name not in os.environ:
            monkeypatch.setenv(name, "")  # so that it is removed in the end
            monkeypatch.delenv(name)
