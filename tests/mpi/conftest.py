"""Processes that a failed test has started do not disturb those that come after it."""

import os
from contextlib import suppress
from pathlib import Path

import psutil
import pytest


@pytest.fixture(autouse=True)
def no_process_outlives_its_test(tmp_path):
    """Kill what still works in the test's folder, or was started with a file of it."""
    yield
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        with suppress(psutil.Error):
            works_there = Path(process.cwd()).is_relative_to(tmp_path)
            if works_there or any(str(tmp_path) in word for word in process.cmdline()):
                process.kill()
