"""Writes files atomically, and reads files that are not trusted, without running code in them."""

import json
import math
import os
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from spinup_tf2.errors import UserError

# The largest files that are read, in bytes.
LARGEST_TEXT = 2**28  # the rows of more than 500,000 epochs
LARGEST_JSON = 2**25
LARGEST_WEIGHTS = 2**30  # 250 million numbers


def remove(path: str | os.PathLike) -> None:
    """Remove a file or a directory, if it exists; of a link, only the link."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.remove(path)


@contextmanager
def atomic_save(path: str | os.PathLike) -> Iterator[str]:
    """Context manager that yields a temporary path, which becomes `path` if nothing is raised.

    Works for files and directories. After a crash at any moment, either the old or the new one is
    there, and complete.
    """
    temporary, old = f"{path}.tmp", f"{path}.old"
    remove(temporary)  # left over from a crash
    try:
        yield temporary
    except BaseException:
        remove(temporary)
        raise
    if os.path.isdir(path):
        # A directory cannot be renamed to an existing one. Between the two renames the complete one
        # is called .old, where `test_policy` finds it.
        remove(old)
        os.rename(path, old)
    os.replace(temporary, path)
    remove(old)


@contextmanager
def atomic_output(path: str | os.PathLike) -> Iterator[str]:
    """Like `atomic_save`, for a path given by the user, who may have other files next to it.

    The temporary path has the same name, in a new directory next to `path`.

    Raises:
        UserError: The system does not let it be written.
    """
    path = os.path.abspath(path)
    beside = os.path.dirname(path)
    try:
        with tempfile.TemporaryDirectory(prefix=".spinup_tf2_", dir=beside) as folder:
            new, old = os.path.join(folder, "new"), os.path.join(folder, "old")
            os.mkdir(new)
            temporary = os.path.join(new, os.path.basename(path))
            yield temporary
            if not os.path.isdir(path):
                os.replace(temporary, path)
                return
            os.rename(path, old)
            try:
                os.rename(temporary, path)
            except BaseException:
                os.rename(old, path)
                raise
    except OSError as error:
        raise UserError(f"Cannot write to {path}: {error}.") from error


def open_regular(path: str | os.PathLike) -> BinaryIO:
    """Open a file that is not trusted, to read its bytes.

    Raises:
        OSError: It does not exist or cannot be opened.
        UserError: It is not a regular file: reading a pipe would block, and a device may never end.
    """
    # O_NONBLOCK, because opening a pipe would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UserError(f"{path} is not a file.")
    return open(descriptor, "rb")


def read_text(path: str | os.PathLike, limit: int = LARGEST_TEXT, *, errors: str = "strict") -> str:
    """Read the text of a file that is not trusted.

    Args:
        path: The file.
        limit: Largest number of bytes that it may have.
        errors: How to handle bytes that are not UTF-8, as in `bytes.decode`.

    Raises:
        OSError: As in `open_regular`.
        UserError: As in `open_regular`, and if it is larger than `limit` or not text.
    """
    with open_regular(path) as file:
        contents = file.read(limit + 1)  # no more than that, whatever size is reported
    if len(contents) > limit:
        raise UserError(f"{path} is larger than {limit} bytes, which is not what a run writes.")
    try:
        # An editor may have added a byte order mark, and changed the ends of lines.
        return contents.decode("utf-8-sig", errors).replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not text ({error}).") from error


def read_json(path: str | os.PathLike, limit: int = LARGEST_JSON) -> Any:
    """Read the value in a JSON file.

    Raises:
        OSError: As in `read_text`.
        UserError: As in `read_text`, and if it is not JSON.
    """
    text = read_text(path, limit)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not readable as JSON ({error}).") from error


# ---------------------------------------------------------------- arrays


class DamagedCheckpoint(Exception):
    """A file or a checkpoint that cannot be used; the message says why."""


class StoredArray:
    """An array in a file of which only the header has been read; `np.asarray` reads the rest.

    Its shape can so be compared with what is expected before any memory is claimed for it.
    """

    def __init__(self, path: Path, name: str, shape: tuple[int, ...], dtype: np.dtype):
        self.path, self.name, self.shape, self.dtype = path, name, shape, dtype
        self.size = math.prod(shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        try:
            return read_npz(self.path, self.name.__eq__, LARGEST_WEIGHTS)[self.name]
        except DamagedCheckpoint as error:
            raise UserError(str(error)) from error


def read_numbered(path: Path) -> list[StoredArray]:
    """Read the headers of a file's arrays, named 0, 1, ... and of real numbers, as weights are.

    Raises:
        DamagedCheckpoint: It cannot be read, or has other arrays.
    """
    found = {}
    with _reading(path), open_regular(path) as file, zipfile.ZipFile(file) as archive:
        for member in archive.namelist():
            with archive.open(member) as array:
                version = np.lib.format.read_magic(array)
                read = "read_array_header_1_0" if version == (1, 0) else "read_array_header_2_0"
                shape, _, dtype = getattr(np.lib.format, read)(array)
            name = member.removesuffix(".npy")
            found[name] = StoredArray(path, name, shape, dtype)
    return numbered(found)


def numbered(arrays: Mapping[str, Any], prefix: str = "") -> list[Any]:
    """Return the arrays that are named 0, 1, ... after a prefix and hold real numbers.

    Raises:
        DamagedCheckpoint: There are others.
    """
    own = {name.removeprefix(prefix): x for name, x in arrays.items() if name.startswith(prefix)}
    for name, array in own.items():
        if array.dtype.kind not in "biuf":
            raise DamagedCheckpoint(
                f"array {prefix}{name} is of type {array.dtype}, and not of real numbers"
            )
    try:
        return [own[str(i)] for i in range(len(own))]
    except KeyError as error:
        raise DamagedCheckpoint(f"there is no array {prefix}{error.args[0]}") from error


def read_npz(
    path: str | os.PathLike,
    wanted: Callable[[str], bool] = lambda name: True,
    largest: float = math.inf,
) -> dict[str, np.ndarray]:
    """Read the arrays of a file, without running any code in it.

    Args:
        path: Path of an uncompressed npz file.
        wanted: Function of an array's name that returns whether to read it.
        largest: Number of bytes that it may hold; a sparse file takes none of them on the disk.

    Raises:
        DamagedCheckpoint: It cannot be read.
    """
    with _reading(path), open_regular(path) as file, np.load(file, allow_pickle=False) as arrays:
        if any(each.compress_type != zipfile.ZIP_STORED for each in arrays.zip.infolist()):
            raise ValueError("it is compressed, and may be of any size")
        if sum(each.file_size for each in arrays.zip.infolist()) > largest:
            raise ValueError(f"it holds more than {largest:.0f} bytes")
        found = {name: arrays[name] for name in arrays.files if wanted(name)}
        for name, member in found.items():
            if not isinstance(member, np.ndarray):
                raise ValueError(f"{name} is no array")
    return found


@contextmanager
def _reading(path: str | os.PathLike) -> Iterator[None]:
    """Context manager in which a file that cannot be used is a DamagedCheckpoint."""
    try:
        yield
    except Exception as error:  # a garbled zip file may raise almost anything
        raise DamagedCheckpoint(
            f"{os.path.basename(path)} cannot be read ({type(error).__name__}: {error})"
        ) from error
