"""Reads files of arrays that are not trusted, without running any code in them."""

import math
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from spinup_tf2.files.run_directory import open_regular

LARGEST_WEIGHTS = 2**30  # bytes, 250 million numbers


class DamagedCheckpoint(Exception):
    """A file or a checkpoint that cannot be used; the message says why."""


def read_numbered(path: Path) -> list[np.ndarray]:
    """Read a file whose arrays are named 0, 1, ... and hold real numbers, as weights do.

    Raises:
        DamagedCheckpoint: It cannot be read, or has other arrays.
    """
    return numbered(read_npz(path, largest=LARGEST_WEIGHTS))


def numbered(arrays: Mapping[str, np.ndarray], prefix: str = "") -> list[np.ndarray]:
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
    try:
        with open_regular(path) as file, np.load(file, allow_pickle=False) as arrays:
            if any(each.compress_type != zipfile.ZIP_STORED for each in arrays.zip.infolist()):
                raise ValueError("it is compressed, and may be of any size")
            if sum(each.file_size for each in arrays.zip.infolist()) > largest:
                raise ValueError(f"it holds more than {largest:.0f} bytes")
            found = {name: arrays[name] for name in arrays.files if wanted(name)}
        for name, member in found.items():
            if not isinstance(member, np.ndarray):
                raise ValueError(f"{name} is no array")
        return found
    except Exception as error:  # a garbled zip file may raise almost anything
        raise DamagedCheckpoint(
            f"{os.path.basename(path)} cannot be read ({type(error).__name__}: {error})"
        ) from error
