"""TensorFlow, imported faster and without the dozen lines that it prints about graphics cards.

Imports nothing but the standard library: it is used before all else.
"""

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.abc import MetaPathFinder
from importlib.util import find_spec

# TensorFlow's C++ code prints notes (I), warnings (W) and errors (E) before its logging can be
# configured, whatever TF_CPP_MIN_LOG_LEVEL says; and that there is no GPU, which on a CPU machine
# is no news, as an error.
_NOISE = r"WARNING: All log messages before absl|[{}]\d{{4}} |E\d{{4}} .* cuda_\w+\.cc"

_FILTER = """
import re, sys
noise = re.compile(sys.argv[1].encode())
for line in sys.stdin.buffer:
    if not noise.match(line):
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
"""


def quiet_tensorflow() -> None:
    """Hide what TensorFlow prints about processors and graphics cards while it is imported.

    The import also takes less time, because there is no garbage collection in it.

    Its logger then shows warnings and errors only. In notebooks and interactive shells it would
    also say which files it has written.

    If TF_CPP_MIN_LOG_LEVEL is not set, the warnings of TensorFlow's C++ code stay hidden after the
    import. If it is set, it decides what is hidden, and 0 shows everything, as --debug does.

    Call it in programs and notebooks. A library should not change what its caller sees.
    """
    if "tensorflow" not in sys.modules:
        sys.meta_path.insert(0, _QuietFinder())


class _QuietFinder(MetaPathFinder):
    """Finds TensorFlow as the other finders do, and changes how it is loaded."""

    def find_spec(self, name, path=None, target=None):
        if name != "tensorflow":
            return None
        sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, _QuietFinder)]
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = _quietly(_uncollected(spec.loader.exec_module))
        return spec


def _uncollected(load):
    """A loader without garbage collection, which would take a quarter of the import's time.

    It would look through hundreds of thousands of objects again and again, and all of them stay.
    """

    def exec_module(module):
        enabled = gc.isenabled()
        gc.disable()
        try:
            load(module)
        finally:
            gc.freeze()  # later collections need not look at them either
            if enabled:
                gc.enable()

    return exec_module


def _quietly(load):
    def exec_module(module):
        level = os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        hidden = "IWE"[: int(level)] if level.isdigit() else ""
        if not hidden:
            load(module)
            return
        with stderr_without(_NOISE.format(hidden)):
            load(module)
            module.get_logger().setLevel("WARNING")  # where there is a prompt it begins with INFO
            # Looks for a GPU. The program may still say which it wants, and how many threads.
            module.config.list_physical_devices()

    return exec_module


@contextmanager
def stderr_without(noise: str) -> Iterator[None]:
    """Let no line through to file descriptor 2 that begins with the regular expression `noise`.

    The lines go through another process, so that the last words of a library that crashes are seen.
    """
    try:
        stderr = os.dup(2)
    except OSError:  # there is none
        yield
        return
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _FILTER, noise],
        stdin=subprocess.PIPE,
        stdout=stderr,
        start_new_session=True,  # Ctrl-C is not for it
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
        with suppress(subprocess.TimeoutExpired):  # a process that was started here may live on
            process.wait(timeout=5)
