"""A pipe that nobody reads, as after `| true`."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock


@contextmanager
def closed_pipe() -> Iterator[None]:
    """Let stdout and stderr be such pipes, and complain of what the end of a process would."""
    read, write = os.pipe()
    os.close(read)
    with (
        open(write, "w") as out,
        open(os.dup(write), "w") as err,
        mock.patch.multiple(sys, stdout=out, __stdout__=out, stderr=err, __stderr__=err),
    ):
        yield
        sys.stdout.flush()
        sys.stderr.flush()
