"""The only module that loads files which can contain code: pickles and SavedModels.

Run directories are passed around, and whoever wrote one of these files decides what happens when it
is loaded. So they are loaded only if the user has declared the run trustworthy (`--allow_pickle`),
or if they are this user's own and private.
"""

import os
import pickle
import stat
from pathlib import Path
from typing import Any

from spinup_tf2.errors import UserError


def load_trusted(path: str | os.PathLike) -> Any:
    """Load what joblib wrote to `path`. To be called only if the user passed `allow_pickle`."""
    import joblib

    return joblib.load(path)


def load_saved_model(path: str | os.PathLike) -> Any:
    """Load the SavedModel in a directory.

    Its operations can read and write files. To be called only if the user passed `allow_pickle`, or
    for a model that this process has just written itself (as `export` does to compare it).
    """
    import tensorflow as tf

    return tf.saved_model.load(str(path))


def load_private(path: str | os.PathLike) -> Any:
    """Load what this user has pickled to `path`, a file in a directory that nobody else may enter.

    `tempfile.mkdtemp` creates such directories.

    Raises:
        UserError: Somebody else could have written the file.
    """
    path = Path(path)
    folder = path.parent.stat()
    closed = folder.st_uid == os.geteuid() and not stat.S_IMODE(folder.st_mode) & 0o077
    # Checks and reads the same open file, and does not follow a link.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        ours = status.st_uid == os.geteuid() and stat.S_ISREG(status.st_mode)
        if not (closed and ours):
            raise UserError(
                f"{path} is not loaded: it must be a file of user {os.geteuid()}, in a directory "
                "of this user that is closed to everybody else (chmod 700)."
            )
        return pickle.load(file)
