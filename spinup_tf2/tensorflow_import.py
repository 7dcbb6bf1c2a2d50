"""Imports TensorFlow faster, and without the dozen lines that it prints about GPUs.

This module imports only the standard library, because it is used before anything else.
"""

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from importlib.abc import MetaPathFinder
from importlib.util import find_spec

# TensorFlow's C++ code prints notes (I), warnings (W) and errors (E) before its logging can be
# configured, whatever TF_CPP_MIN_LOG_LEVEL says. One of the errors is that there is no GPU, which
# is normal on a CPU machine.
_NOISE = r"WARNING: All log messages before absl|[{}]\d{{4}} |E\d{{4}} .* cuda_\w+\.cc"

# What Keras and its like import if it is there, for functions that training does not call; they do
# without. It would take a sixth of the time.
_SPARED = ("IPython", "cv2", "matplotlib", "pandas")

_FILTER = """
import re, sys
noise = re.compile(sys.argv[1].encode())
for line in sys.stdin.buffer:
    if not noise.match(line):
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
"""


def quiet_tensorflow() -> None:
    """Hide what TensorFlow prints about processors and GPUs while it is imported.

    The import also takes less time: garbage collection is paused, and what is only for drawing and
    tables is not imported with Keras.

    TensorFlow's logger then shows only warnings and errors. In notebooks and interactive shells it
    would otherwise also log which files it has written.

    If TF_CPP_MIN_LOG_LEVEL is not set, warnings of TensorFlow's C++ code stay hidden after the
    import. If it is set, it decides what is hidden, and 0 shows everything, as --debug does.

    To be called in programs and notebooks. A library should not change what its caller sees.
    """
    for name, change in dict(
        tensorflow=_quietly, keras=_sparingly, tensorflow_probability=_sparingly
    ).items():
        if name not in sys.modules:
            sys.meta_path.insert(0, _Finder(name, change))


class _Finder(MetaPathFinder):
    """Finds a module like the other finders, but changes how it is loaded."""

    def __init__(self, name, change):
        self.name, self.change = name, change

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        finders = sys.meta_path
        finders[:] = [x for x in finders if not isinstance(x, _Finder) or x.name != name]
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = self.change(spec.loader.exec_module)
        return spec


def _sparingly(load):
    """Change a loader so that the modules `_SPARED` seem not to be installed."""

    def exec_module(module):
        spared = [name for name in _SPARED if name not in sys.modules]
        sys.modules.update(dict.fromkeys(spared))
        try:
            load(module)
        finally:
            for name in spared:
                del sys.modules[name]

    return exec_module


def _quietly(load):
    """Change a loader so that nothing is printed, and that it takes a quarter less time.

    Garbage collection would scan hundreds of thousands of new objects again and again, all of which
    stay alive.
    """

    def exec_module(module):
        level = os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        hidden = "IWE"[: int(level)] if level.isdigit() else ""
        enabled = gc.isenabled()
        gc.disable()
        try:
            with stderr_without(_NOISE.format(hidden)) if hidden else nullcontext():
                _sparingly(load)(module)
                if hidden:
                    module.get_logger().setLevel("WARNING")  # in interactive shells it is INFO
                    # Looks for GPUs. The program can still choose GPUs and the number of threads.
                    module.config.list_physical_devices()
        finally:
            gc.freeze()  # later collections skip these objects, too
            if enabled:
                gc.enable()

    return exec_module


@contextmanager
def stderr_without(noise: str) -> Iterator[None]:
    """Context manager that removes lines from stderr whose beginning matches the regex `noise`.

    The lines are filtered by another process, so that the last output of a library that crashes is
    not lost.
    """
    try:
        stderr = os.dup(2)
    except OSError:  # there is no stderr
        yield
        return
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _FILTER, noise],
        stdin=subprocess.PIPE,
        stdout=stderr,
        start_new_session=True,  # so that Ctrl-C does not reach it
    )
    os.dup2(process.stdin.fileno(), 2)
    process.stdin.close()
    try:
        yield
    finally:
        if sys.stderr is not None:
            sys.stderr.flush()
        os.dup2(stderr, 2)
        os.close(stderr)
        with suppress(subprocess.TimeoutExpired):  # a process started here may still hold stderr
            process.wait(timeout=5)
