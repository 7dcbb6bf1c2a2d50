"""Processes that a failed test has started do not disturb those that come after it."""

import os
from contextlib import suppress
from pathlib import Path

import psutil
import pytest


@pytest.fixture(autouse=True)
def no_process_outlives_its_test(tmp_path):
    """Kill what still works in the test's folder, as everything does that it starts."""
    yield
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid() and Path(process.cwd()).is_relative_to(tmp_path):
                process.kill()
