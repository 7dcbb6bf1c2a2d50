"""Reads files of arrays that are not trusted, without running any code in them."""

import math
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from spinup_tf2.errors import UserError
from spinup_tf2.files.run_directory import open_regular

LARGEST_WEIGHTS = 2**30  # bytes, 250 million numbers


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
    with (
        _reading(path),
        open_regular(path) as file,
        np.load(file, allow_pickle=False) as arrays,
    ):
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
