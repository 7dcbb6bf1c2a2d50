"""Importing TensorFlow without the dozen lines that it prints about graphics cards."""

import os
import re
import sys
import tempfile

# TensorFlow's C++ code prints these before its logging can be configured: notes and warnings, and
# that there is no GPU, which on a CPU machine is no news.
_NOISE = re.compile(rb"^(WARNING: All log messages before absl|[IW]\d{4} |E\d{4} .* cuda_\w+\.cc)")


def import_tensorflow() -> None:
    """Import TensorFlow and find its devices; what it prints meanwhile is shown without the noise.

    A user who sets TF_CPP_MIN_LOG_LEVEL (0 shows everything, as --debug does) gets what it says.
    For programs: a library that imports TensorFlow has no business with its caller's stderr.
    """
    if "TF_CPP_MIN_LOG_LEVEL" in os.environ:
        return
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as printed:
        os.dup2(printed.fileno(), 2)
        try:
            import tensorflow as tf

            from spinup_tf2.utils.threads import limit_tensorflow

            limit_tensorflow()  # finding the devices fixes the number of threads
            tf.config.list_logical_devices()
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            printed.seek(0)
            for line in printed:
                if not _NOISE.match(line):
                    os.write(2, line)
