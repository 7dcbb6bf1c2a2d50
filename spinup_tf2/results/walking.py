"""Walks through directories to find runs."""

import os
from collections.abc import Iterator

from spinup_tf2.files.run_directory import REPLACED


def walk(top: str | os.PathLike) -> Iterator[tuple[str, list[str], list[str]]]:
    """os.walk in the order of names, which follows symbolic links and visits directories only once.

    Runs that are being replaced are left out.

    Yields:
        (directory, names of its folders, names of its files). As with os.walk, folders that the
        caller removes from the list are skipped.
    """
    seen = {os.path.realpath(top)}
    for root, folders, files in os.walk(top, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith(REPLACED))
        yield root, folders, files
        new = []
        for folder in folders:
            real = os.path.realpath(os.path.join(root, folder))
            if real not in seen:
                seen.add(real)
                new.append(folder)
        folders[:] = new
