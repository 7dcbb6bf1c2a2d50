"""What all tests have in common."""

import gc
import os
import sys

import pytest

# Ranks that are threads of one process wait for each other in as many of TensorFlow's.
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "16")


@pytest.fixture(autouse=True)
def environment_is_put_back(monkeypatch):
    """What a recording chooses for the graphics libraries holds until the end of its process."""
    for name in ("MUJOCO_GL", "SDL_VIDEODRIVER"):
        if name not in os.environ:
            monkeypatch.setenv(name, "")  # so that it is removed in the end
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def policies_are_saved_as_weights(request, monkeypatch):
    """Without TensorFlow's SavedModel, which takes a third of a second and which few tests read.

    Those have the mark `saved_model`.
    """
    if "tensorflow" in sys.modules and not request.node.get_closest_marker("saved_model"):
        monkeypatch.setattr(sys.modules["tensorflow"].saved_model, "save", lambda *_, **__: None)


def pytest_collection_finish(session):
    """Collect garbage less often: looking through all that TensorFlow has made takes long."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


def pytest_terminal_summary(terminalreporter):
    """Say how many inputs the fuzz tests have tried."""
    stats = terminalreporter.stats
    reports = [report for name in ("passed", "failed") for report in stats.get(name, [])]
    counts = [n for each in reports for name, n in each.user_properties if name == "fuzzed inputs"]
    if counts:
        terminalreporter.write_line(f"fuzzed inputs: {sum(counts)} in {len(counts)} tests")
