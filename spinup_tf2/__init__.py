"""Spinning Up's algorithms on TensorFlow 2.

    from spinup_tf2 import ppo, EpochLogger

Algorithms are imported on first use, so that `import spinup_tf2` (and with it `--help`, `plot` and
every error message of the command line) does not load TensorFlow. The environments are registered
with gymnasium at once.
"""

import os
import signal
import sys
from importlib import import_module
from typing import TYPE_CHECKING

# Whether this process is `python -m spinup_tf2.run` or another module of this package, the
# installed command, or a process started by them.
_OWN_PROGRAM = os.path.basename(sys.argv[0]) in ("spinup_tf2", "run_entrypoint.py") or (
    sys.argv[0] == "-m" and any(word.startswith("spinup_tf2.") for word in sys.orig_argv)
)
if _OWN_PROGRAM and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Until the package is loaded, Ctrl-C ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from spinup_tf2.parallel.launched import limit_openmp, open_missing_streams  # noqa: E402
from spinup_tf2.tensorflow_import import quiet_tensorflow  # noqa: E402

open_missing_streams()
if _OWN_PROGRAM:
    quiet_tensorflow()
limit_openmp()  # must come before numpy is loaded
# Windows of pygame do without OpenGL: Mesa, which draws it on machines without a graphics card, and
# TensorFlow both contain LLVM, and a process that loads Mesa after TensorFlow crashes.
os.environ.setdefault("SDL_FRAMEBUFFER_ACCELERATION", "0")
os.environ["KERAS_BACKEND"] = "tensorflow"  # even if the user has chosen another backend

from spinup_tf2.algos import ALGORITHMS, module_of  # noqa: E402
from spinup_tf2.envs import register_envs  # noqa: E402
from spinup_tf2.version import __version__  # noqa: E402

register_envs()

_HOME = {name: module_of(name) for name in ALGORITHMS} | {
    "Logger": "spinup_tf2.files.logger",
    "EpochLogger": "spinup_tf2.files.logger",
    "export": "spinup_tf2.exporting",
}

__all__ = [*_HOME, "__version__"]

if TYPE_CHECKING:  # for editors, which do not call __getattr__
    from spinup_tf2.algos.a2c import a2c as a2c
    from spinup_tf2.algos.ddpg import ddpg as ddpg
    from spinup_tf2.algos.dqn import dqn as dqn
    from spinup_tf2.algos.ppg import ppg as ppg
    from spinup_tf2.algos.ppo import ppo as ppo
    from spinup_tf2.algos.sac import sac as sac
    from spinup_tf2.algos.td3 import td3 as td3
    from spinup_tf2.algos.trpo import trpo as trpo
    from spinup_tf2.algos.vpg import vpg as vpg
    from spinup_tf2.exporting import export as export
    from spinup_tf2.files.logger import EpochLogger as EpochLogger
    from spinup_tf2.files.logger import Logger as Logger


def __getattr__(name):
    if name not in _HOME:
        raise AttributeError(f"module 'spinup_tf2' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__():
    return sorted([*globals(), *_HOME])
