"""What is left out while TensorFlow is imported, with a package in its place that prints the like.

What the real one prints is in `tests/cli/test_start.py` and `tests/examples`.
"""

import os
import signal
import subprocess
import sys

import pytest

from spinup_tf2 import tensorflow_import

ABSL = "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR"
NOTE = "I0000 00:00:1795369317.417461   11979 port.cc:153] oneDNN custom operations are on."
WARNING = "W0000 00:00:1795369317.417461   11979 gpu_device.cc:1] Cannot dlopen some libraries."
NO_GPU = "E0000 00:00:1795369323.393166   11979 cuda_platform.cc:52] failed call to cuInit"
ERROR = "E0000 00:00:1795369323.393166   11979 other.cc:5] something is broken"
WORDS = "somebody else's words"
LOGGED = "Assets written to: data/run/tf2_save"

TENSORFLOW = f"""
import logging, os, types
def write(*lines):
    os.write(2, "".join(f"{{line}}\\n" for line in lines).encode())
write({ABSL!r}, {NOTE!r}, {WARNING!r}, {ERROR!r}, {WORDS!r})
config = types.SimpleNamespace(list_physical_devices=lambda: write({NO_GPU!r}))
get_logger = lambda: logging.getLogger("tensorflow")
get_logger().addHandler(logging.StreamHandler())
get_logger().setLevel("INFO")  # as where there is a prompt
"""

PROGRAM = f"""
import os, runpy, sys
quiet_tensorflow = runpy.run_path({tensorflow_import.__file__!r})["quiet_tensorflow"]
quiet_tensorflow()
quiet_tensorflow()  # also where a program and what it calls both ask for it
try:
    import tensorflow
finally:
    os.write(2, b"after\\n")
tensorflow.config.list_physical_devices()
tensorflow.get_logger().info({LOGGED!r})
tensorflow.get_logger().warning({WORDS!r})
"""


def printed(folder, level=None, package=TENSORFLOW):
    """Exit status of PROGRAM, and the lines that it prints on stderr."""
    (folder / "tensorflow.py").write_text(package)
    env = {name: x for name, x in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    env |= dict(PYTHONPATH=str(folder)) | ({} if level is None else {"TF_CPP_MIN_LOG_LEVEL": level})
    done = subprocess.run(
        [sys.executable, "-S", "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stderr.splitlines()


@pytest.mark.parametrize(
    ("level", "shown", "logged"),
    [
        (None, [ERROR, WORDS], [WORDS]),
        ("0", [ABSL, NOTE, WARNING, ERROR, WORDS], [LOGGED, WORDS]),
        ("1", [WARNING, ERROR, WORDS], [WORDS]),
        ("2", [ERROR, WORDS], [WORDS]),
        ("3", [WORDS], [WORDS]),
    ],
)
def test_the_import_shows_what_the_level_does(tmp_path, level, shown, logged):
    assert printed(tmp_path, level) == (0, [*shown, "after", NO_GPU, *logged])


def test_an_import_that_fails_is_seen(tmp_path):
    status, lines = printed(tmp_path, package=TENSORFLOW + "\nimport none_such")
    assert status == 1
    assert lines[:4] == [ERROR, WORDS, "after", "Traceback (most recent call last):"]
    assert lines[-1] == "ModuleNotFoundError: No module named 'none_such'"


def test_the_last_words_of_a_crash_are_seen(tmp_path):
    status, lines = printed(tmp_path, package=TENSORFLOW + "\nos.abort()")
    assert status == -signal.SIGABRT
    assert lines == [ERROR, WORDS]


@pytest.mark.parametrize("used", [True, False])
@pytest.mark.parametrize("package", ["", "raise ImportError"])
def test_garbage_is_not_collected_during_the_import(used, package, tmp_path):
    """And afterwards if it was before, also if the import fails."""
    (tmp_path / "tensorflow.py").write_text(
        f"import gc, types\nprint(gc.isenabled())\n{package}\n"
        "get_logger = lambda: types.SimpleNamespace(setLevel=print)\n"
        "config = types.SimpleNamespace(list_physical_devices=lambda: None)\n"
    )
    program = (
        "import contextlib, gc, runpy\n"
        f"runpy.run_path({tensorflow_import.__file__!r})['quiet_tensorflow']()\n"
        f"gc.{'enable' if used else 'disable'}()\n"
        "with contextlib.suppress(ImportError):\n"
        "    import tensorflow\n"
        "print(gc.isenabled(), gc.get_freeze_count() > 1000)\n"
    )
    env = os.environ | dict(PYTHONPATH=str(tmp_path))
    command = [sys.executable, "-S", "-c", program]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=True)
    first, *_, last = done.stdout.splitlines()
    assert (first, last) == ("False", f"{used} True")


def test_keras_is_imported_without_what_draws_and_the_program_still_has_it(tmp_path):
    """cv2 has been imported before, and so Keras gets it."""
    for name in ("pandas", "cv2"):
        (tmp_path / f"{name}.py").write_text("")
    (tmp_path / "keras.py").write_text(
        "import cv2\ntry:\n    import pandas\nexcept ImportError:\n    pandas = None"
    )
    program = PROGRAM.partition("try:")[0] + "import cv2, keras, pandas\nassert not keras.pandas"
    done = subprocess.run([sys.executable, "-S", "-c", program], cwd=tmp_path, timeout=60)
    assert done.returncode == 0
