"""Looking for runs in directories."""

import os
from collections.abc import Iterator

from spinup_tf2.runs.files import REPLACED


def walk(top: str | os.PathLike) -> Iterator[tuple[str, list[str], list[str]]]:
    """os.walk in the order of names, also through symbolic links, to each real directory once.

    It leaves out runs that are being replaced.

    Yields (directory, names of its folders, names of its files). As with os.walk, folders that are
    taken out of their list are left out.
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
