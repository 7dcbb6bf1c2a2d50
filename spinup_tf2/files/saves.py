"""Finds and reads the saved policies of a run: tf2_save/, or tf2_save12/ for one with a number.

Besides a SavedModel, each holds the variables as plain arrays (weights.npz), and model_info.json.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spinup_tf2.errors import UserError, one_line
from spinup_tf2.files.disk import DamagedCheckpoint, StoredArray, read_json, read_numbered
from spinup_tf2.files.run_directory import runs_in

WEIGHTS = "weights.npz"


def find_save(fpath: str | os.PathLike, itr: int | str = "last") -> str:
    """Return the directory of a run's saved policy (tf2_save, tf2_save12).

    Args:
        fpath: Directory of the run.
        itr: Number of the save. "last" or a negative number means the one with the highest number.

    Raises:
        UserError: There is no such save.
    """
    if not os.path.isdir(fpath):
        raise UserError(f"There is no directory {fpath}.")
    saves = _saves(fpath)
    if not saves:
        runs = runs_in(fpath, "tf2_save*")
        advice = f"give one of the runs in it: {runs}" if runs else "nothing has been saved there"
        raise UserError(f"{fpath} holds no trained agent (tf2_save); {advice}.")
    if itr == "last" or itr < 0:
        itr = max(saves)
    if itr not in saves:
        numbers = ", ".join(str(number) for number in sorted(saves) if number >= 0)
        raise UserError(f"{fpath} has no save with itr {itr}; there is {numbers or 'none'}.")
    return saves[itr]


def has_save(fpath: str | os.PathLike) -> bool:
    """Return whether a run has saved a policy."""
    return bool(_saves(fpath))


def _saves(fpath):
    """Return the complete saves of a run as {number: directory}; -1 for the one without number."""
    saves = {}
    # In this order tf2_save takes precedence over tf2_save.old, which a crash may leave behind.
    for name in sorted(os.listdir(fpath), reverse=True):
        match = re.fullmatch(r"tf2_save([0-9]*)(\.old)?", name)
        if match and os.path.isdir(os.path.join(fpath, name)):
            saves[int(match[1] or -1)] = os.path.join(fpath, name)
    return saves


def read_info(save_dir: str | os.PathLike) -> dict[str, Any]:
    """Return the contents of model_info.json, which include the spaces."""
    info = read_json(Path(save_dir, "model_info.json"))
    if not isinstance(info, dict) or not {"observation_space", "action_space"} <= {*info}:
        raise UserError("model_info.json does not say what the spaces are")
    return info


def read_weights(save_dir: str | os.PathLike) -> list[StoredArray]:
    """Return the arrays of weights.npz, in the order of the variables; see `StoredArray`."""
    try:
        return read_numbered(Path(save_dir, WEIGHTS))
    except DamagedCheckpoint as error:
        raise UserError(f"the saved policy in {save_dir} is damaged: {one_line(error)}") from error


@contextmanager
def complete_save(save_dir: str | os.PathLike) -> Iterator[None]:
    """Context manager that reports OSError and ValueError as a UserError of an incomplete save."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise UserError(f"There is no complete saved policy in {save_dir} ({error}).") from error
