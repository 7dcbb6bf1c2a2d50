"""The one place that runs code which lies in a file: pickles and SavedModels.

Nothing else in this package does so. Run directories are passed around, and whoever wrote one of
these files decides what happens as soon as it is loaded. So they are loaded only if the user has
said that the run may be trusted (`--allow_pickle`), or if they are this user's own and private.
"""

import os
import pickle
import stat
from pathlib import Path
from typing import Any

from spinup_tf2.errors import UserError
from spinup_tf2.persistence.checkpoints import path_for_tensorflow


def load_trusted(path: str | os.PathLike) -> Any:
    """What joblib wrote to `path`. Call it only where the user has passed `allow_pickle`."""
    import joblib

    return joblib.load(path)


def load_saved_model(path: str | os.PathLike) -> Any:
    """The SavedModel in a directory.

    Its operations can read and write files. Call it only where the user has passed `allow_pickle`,
    or on what this process has just written itself (`export`, to compare it).
    """
    import tensorflow as tf

    with path_for_tensorflow(path) as readable:
        return tf.saved_model.load(str(readable))


def load_private(path: str | os.PathLike) -> Any:
    """What this user has pickled to `path`, a file in a directory that nobody else may enter.

    Such as `tempfile.mkdtemp` makes.

    Raises:
        UserError: Somebody else could have written the file.
    """
    path = Path(path)
    folder = path.parent.stat()
    if folder.st_uid != os.geteuid() or stat.S_IMODE(folder.st_mode) & 0o077:
        raise UserError(
            f"{path.parent} is not loaded from, since others may enter it (owner {folder.st_uid}, "
            f"mode {stat.filemode(folder.st_mode)}); it must belong to user {os.geteuid()} and be "
            "closed to everybody else (chmod 700)."
        )
    # The file that is looked at is the one that is read; a link in its place is not followed.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or not stat.S_ISREG(status.st_mode):
            raise UserError(
                f"{path} is not loaded, since it is not a file of user {os.geteuid()} (owner "
                f"{status.st_uid}, mode {stat.filemode(status.st_mode)})."
            )
        return pickle.load(file)
