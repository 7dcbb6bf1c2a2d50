"""The only module that loads files which can contain code: pickles and SavedModels.

Run directories are passed around, and whoever wrote one of these files decides what happens when it
is loaded. So they are loaded only if the user has declared the run trustworthy (`--allow_pickle`),
or if they are this user's own and private.
"""

import os
import pickle
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spinup_tf2.errors import UserError


@contextmanager
def path_for_tensorflow(path: str | os.PathLike) -> Iterator[Path]:
    """Context manager that yields a path to the directory `path` which TensorFlow can read from.

    When reading, though not when writing, TensorFlow takes a path for a glob pattern, in which [1]
    stands for 1. So a path with brackets is read through a temporary link.
    """
    if "[" not in os.path.abspath(path):
        yield Path(path)
        return
    temporary = tempfile.gettempdir()
    with tempfile.TemporaryDirectory(dir="/tmp" if "[" in temporary else temporary) as folder:
        link = Path(folder, "link")
        link.symlink_to(os.path.abspath(path))
        yield link


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

    with path_for_tensorflow(path) as readable:
        return tf.saved_model.load(str(readable))


def load_private(path: str | os.PathLike) -> Any:
    """Load what this user has pickled to `path`, a file in a directory that nobody else may enter.

    `tempfile.mkdtemp` creates such directories.

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
    # Checks and reads the same open file, and does not follow a link.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or not stat.S_ISREG(status.st_mode):
            raise UserError(
                f"{path} is not loaded, since it is not a file of user {os.geteuid()} (owner "
                f"{status.st_uid}, mode {stat.filemode(status.st_mode)})."
            )
        return pickle.load(file)
