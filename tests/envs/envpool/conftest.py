import sys

import pytest

from tests.envs.envpool.stand_in import Pool, envpool_stand_in


@pytest.fixture
def stand_in(monkeypatch):
    """A stand-in for EnvPool, in its place; the class of its pools."""
    monkeypatch.setitem(sys.modules, "envpool", envpool_stand_in())
    monkeypatch.setattr(Pool, "made", 0)
    return Pool
