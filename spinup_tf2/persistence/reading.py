"""Reads the text files of a run, which anybody may have written."""

import json
import os
import stat
from pathlib import Path
from typing import Any

from spinup_tf2.errors import UserError

LARGEST_TEXT = 2**28  # bytes: the rows of more than 500,000 epochs
LARGEST_JSON = 2**25


def read_text(path: str | os.PathLike, limit: int = LARGEST_TEXT) -> str:
    """The text of a file.

    Raises OSError if it is not there or cannot be read, and UserError if it is not text, larger
    than `limit` bytes, or no file: a pipe would be waited for, and a device may never end.
    """
    # O_NONBLOCK, since to open a pipe would be to wait for somebody who writes into it.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise UserError(f"{path} is not a file.")
        contents = file.read(limit + 1)  # not more, whatever size it may say
    if len(contents) > limit:
        raise UserError(f"{path} is larger than {limit} bytes, which is not what a run writes.")
    try:
        return contents.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not text ({error}).") from error


def read_json(path: str | os.PathLike, limit: int = LARGEST_JSON) -> Any:
    """The value in a JSON file. Raises as `read_text` does; UserError also if it is not JSON."""
    text = read_text(path, limit)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not readable as JSON ({error}).") from error


def runs_in(folder: str | os.PathLike, holding: str) -> str:
    """The first runs below a directory, as a list in words; "" if there are none.

    holding: the pattern of what is in a run.
    """
    found = [path for depth in ("*", "*/*") for path in Path(folder).glob(f"{depth}/{holding}")]
    runs = sorted({str(path.parent.relative_to(folder)) for path in found})
    return ", ".join(runs[:10] + ["..."] * (len(runs) > 10))
