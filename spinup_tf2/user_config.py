"""Defaults that a user may want to change permanently.

Each can be overridden by the environment variable named next to it. An invalid value raises
UserError.
"""

import math
import os
from pathlib import Path

from spinup_tf2.errors import UserError


def _default_data_dir():
    """Return `data/` next to the package in a checkout, or `./data` for an installed package."""
    checkout = Path(__file__).resolve().parent.parent
    try:
        return (
            str(checkout / "data") if (checkout / "setup.py").exists() else os.path.abspath("data")
        )
    except OSError:  # the current directory has been removed
        return "data"


def _boolean(name, default):
    """Read a yes/no environment variable."""
    text = os.environ.get(name)
    if text is None:
        return default
    words = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    if text.lower() not in words:
        raise UserError(
            f"the environment variable {name} is {text!r}, which is no yes or no; set it to 1 or 0."
        )
    return words[text.lower()]


def _seconds(name, default):
    """Read an environment variable that holds a number of seconds."""
    text = os.environ.get(name, default)
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise UserError(
            f"the environment variable {name} is {text!r}; set it to a number of seconds, "
            "at least 0."
        )
    return seconds


def _directory(name, default):
    """Read an environment variable that names a directory."""
    path = os.environ.get(name, default)
    if not path:
        raise UserError(
            f"the environment variable {name} is empty (was another variable not set?); set it to "
            "a directory, or unset it."
        )
    return os.path.expanduser(path)  # in a systemd unit, no shell expands the ~


# Where experiments are written.                                    SPINUP_TF2_DATA_DIR
DEFAULT_DATA_DIR = _directory("SPINUP_TF2_DATA_DIR", _default_data_dir())

# Whether names of experiment directories begin with date and time.  SPINUP_TF2_FORCE_DATESTAMP
FORCE_DATESTAMP = _boolean("SPINUP_TF2_FORCE_DATESTAMP", False)

# Whether grid parameters get a default shorthand of 3 letters.      SPINUP_TF2_DEFAULT_SHORTHAND
DEFAULT_SHORTHAND = _boolean("SPINUP_TF2_DEFAULT_SHORTHAND", True)

# Seconds to review a grid of experiments before the first starts.   SPINUP_TF2_WAIT_BEFORE_LAUNCH
WAIT_BEFORE_LAUNCH = _seconds("SPINUP_TF2_WAIT_BEFORE_LAUNCH", 5)

# Minimum number of seconds between two checkpoints of a run.        SPINUP_TF2_CHECKPOINT_INTERVAL
CHECKPOINT_INTERVAL = _seconds("SPINUP_TF2_CHECKPOINT_INTERVAL", 60)
