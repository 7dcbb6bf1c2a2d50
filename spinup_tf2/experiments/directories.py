"""The directories of experiments: their names, and whether they can be written to."""

from __future__ import annotations

import os
import reprlib
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spinup_tf2 import user_config
from spinup_tf2.errors import UserError
from spinup_tf2.files.lock import run_lock
from spinup_tf2.files.run_directory import EXISTING_RUN, REPLACED, holds_run, set_aside

# File systems allow 255 bytes, of which date, time and seed take some.
_LONGEST_NAME = 255 - len("2026-01-31_23-59-59-" + "_s4294967295")


def setup_logger_kwargs(
    exp_name: str,
    seed: int | None = None,
    data_dir: str | os.PathLike | None = None,
    datestamp: bool = False,
) -> dict[str, Any]:
    """Choose the directory of a run; return the arguments for its logger.

    The directory is `data_dir/exp_name/exp_name_s[seed]`, or `data_dir/exp_name` without a seed.
    With `datestamp`, both names get a date, and the inner one a time as well:
    `data_dir/YYYY-MM-DD_exp_name/YYYY-MM-DD_HH-MM-SS-exp_name_s[seed]`.

    Args:
        exp_name: Name of the experiment, shared by its runs with different seeds.
        seed: Seed of the run.
        data_dir: Directory of all experiments; by default `user_config.DEFAULT_DATA_DIR`.
        datestamp: Whether to put date and time into the names.
    """
    check_exp_name(exp_name)
    datestamp = datestamp or user_config.FORCE_DATESTAMP
    parts = [time.strftime("%Y-%m-%d_") + exp_name if datestamp else exp_name]
    if seed is not None:
        parts.append(
            f"{time.strftime('%Y-%m-%d_%H-%M-%S-') if datestamp else ''}{exp_name}_s{seed}"
        )
    for part in parts:
        _check_file_name(part, f"exp_name is {exp_name!r} and seed {seed!r}")
    output_dir = os.path.join(data_dir or user_config.DEFAULT_DATA_DIR, *parts)
    return dict(output_dir=output_dir, exp_name=exp_name)


def check_exp_name(exp_name: str) -> None:
    """Raise UserError unless an experiment's name is fit for a directory, and not a path."""
    if not isinstance(exp_name, str):
        raise UserError(f"exp_name is {exp_name!r}; Name has to be a string.")
    _check_file_name(exp_name, f"exp_name is {reprlib.repr(exp_name)}")
    size = len(os.fsencode(exp_name))
    if size > _LONGEST_NAME:
        raise UserError(
            f"exp_name is {reprlib.repr(exp_name)}, of {size} bytes; the name of a directory has "
            f"room for {_LONGEST_NAME} beside date and seed. Choose a shorter one, or shorthands "
            "for the parameters that it lists."
        )


def _check_file_name(name, given):
    """Raise UserError for paths, and for names that programs or terminals would misinterpret."""
    if name in ("", ".", "..") or os.sep in name or name[0] in "-~" or not name.isprintable():
        raise UserError(
            f"{given}; it must be a plain name: no slashes, no control characters, and neither - "
            "nor ~ at its beginning. data_dir says where to save."
        )
    if name.startswith(REPLACED):
        raise UserError(f"{given}; {REPLACED} is where runs are that are being replaced.")


def check_directory(output_dir: str | os.PathLike, may_hold_run: bool) -> None:
    """Raise UserError if a run cannot be written there, or if an existing run would be lost."""
    if holds_run(output_dir) and not may_hold_run:
        raise UserError(EXISTING_RUN.format(output_dir))
    _check_writable(Path(output_dir).absolute())


def set_runs_aside(output_fnames: Mapping[str, str]) -> None:
    """Move aside the runs in these directories: all of them, or none if one is being written to.

    Args:
        output_fnames: Maps each directory to the name of its file of rows (progress.txt).

    Raises:
        UserError: Another process writes to one of the runs, or its files cannot be moved.
    """
    held = [path for path, rows in output_fnames.items() if holds_run(path, rows)]
    for output_dir in held:
        with run_lock(output_dir):
            pass  # no other process writes there
    for output_dir in held:
        with run_lock(output_dir):
            set_aside(output_dir, output_fnames[output_dir])


def _check_writable(path):
    """Raise UserError if `path` cannot be created or written to; leaves nothing behind."""
    parent = next(folder for folder in (path, *path.parents) if os.path.lexists(folder))
    try:
        with tempfile.TemporaryDirectory(dir=parent):
            pass
    except OSError as error:
        raise UserError(
            f"cannot write to {path} ({error.strerror}: {parent}); choose another data_dir."
        ) from error
