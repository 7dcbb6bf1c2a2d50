"""What multiprocessing's fork server imports where environments have processes of their own.

It runs with the signals blocked that ask a run to stop, and so does what it forks: until an
environment listens to them in its own way, they wait. A script may use the same server for
processes of its own, which `terminate` must reach.
"""

import multiprocessing.util
import signal
import sys
from multiprocessing import process

import gymnasium.vector  # noqa: F401  (what environments need, once for all of them)

from spinup_tf2.parallel.interruption import SIGNALS


def _unblock(_):
    """In a process that has been forked, before it begins its work."""
    target = process.current_process()._target
    if getattr(target, "__module__", None) != "gymnasium.vector.async_vector_env":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


multiprocessing.util.register_after_fork(sys.modules[__name__], _unblock)
