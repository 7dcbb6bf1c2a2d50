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
        own = (checkout / "setup.py").exists()
        return str(checkout / "data") if own else os.path.abspath("data")
    except OSError:  # the current directory has been removed
        return "data"


def _variable(name, default, read, wanted):
    """Return what `read` makes of an environment variable, or the default if it is not set."""
    text = os.environ.get(name)
    try:
        return default if text is None else read(text)
    except (KeyError, ValueError):
        raise UserError(
            f"the environment variable {name} is {text!r}; set it to {wanted}, or unset it."
        ) from None


def _boolean(name, default):
    words = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    return _variable(name, default, lambda text: words[text.lower()], "1 or 0")


def _seconds(name, default):
    def read(text):
        if not 0 <= float(text) < math.inf:
            raise ValueError
        return float(text)

    return _variable(name, default, read, "a number of seconds, at least 0")


# Where experiments are written.                                    SPINUP_TF2_DATA_DIR
DEFAULT_DATA_DIR = os.path.expanduser(os.environ.get("SPINUP_TF2_DATA_DIR") or _default_data_dir())

# Whether names of experiment directories begin with date and time.  SPINUP_TF2_FORCE_DATESTAMP
FORCE_DATESTAMP = _boolean("SPINUP_TF2_FORCE_DATESTAMP", False)

# Whether grid parameters get a default shorthand of 3 letters.      SPINUP_TF2_DEFAULT_SHORTHAND
DEFAULT_SHORTHAND = _boolean("SPINUP_TF2_DEFAULT_SHORTHAND", True)

# Seconds to review a grid of experiments before the first starts.   SPINUP_TF2_WAIT_BEFORE_LAUNCH
WAIT_BEFORE_LAUNCH = _seconds("SPINUP_TF2_WAIT_BEFORE_LAUNCH", 5)

# Minimum number of seconds between two checkpoints of a run.        SPINUP_TF2_CHECKPOINT_INTERVAL
CHECKPOINT_INTERVAL = _seconds("SPINUP_TF2_CHECKPOINT_INTERVAL", 60)
