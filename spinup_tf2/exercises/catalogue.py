"""The list of exercises, where their files are, and which of them are done."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from spinup_tf2.errors import UserError, kind_and_line
from spinup_tf2.exercises.checking import Check, Wrong

# In the order of the course's chapters.
EXERCISES = {
    "backup": "The Bellman backup: terminated and truncated",
    "gaussian": "The log-likelihood of a diagonal Gaussian",
    "policy": "A Gaussian policy of one's own: network and distribution",
    "gae": "Generalized advantage estimates",
    "clip": "The clipped objective of PPO",
    "cg": "Conjugate gradients, for TRPO",
    "ranks": "The work of environments, divided over MPI ranks",
    "bug": "A DDPG that does not learn: find the bug",
    "td3": "The targets and losses of TD3",
    "temperature": "The temperature loss of SAC",
    "init": "First weights of networks: draw them, and recognize them",
    "repeat": "A gymnasium wrapper that repeats actions",
}

_HERE = Path(__file__).parent
TASKS, SOLUTIONS = _HERE / "tasks", _HERE / "solutions"

_RECORD = "checked.json"  # next to the student's files: digests of those that were right


def checks_of(name: str) -> list[Check]:
    """Return the checks of an exercise; most of them import TensorFlow."""
    return import_module(f"spinup_tf2.exercises.checks.{name}").CHECKS


def load(path: Path) -> ModuleType:
    """Import the module in a student's file.

    Raises:
        UserError: There is no such file.
        Wrong: It cannot be imported.
    """
    if not path.is_file():
        raise UserError(
            f"there is no file {path}; `--copy DIR` makes files to be edited, of all exercises."
        )
    spec = spec_from_file_location(path.stem, path.resolve())
    if spec is None or spec.loader is None:
        raise UserError(f"{path} is no Python file: its name should end in .py.")
    module = module_from_spec(spec)
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise Wrong(f"Line {error.lineno} is not Python yet: {error.msg}") from error
    except Exception as error:
        raise Wrong(f"It cannot be imported: {kind_and_line(error)}") from error
    finally:
        sys.dont_write_bytecode = written
    return module


def copy(names: Iterable[str], folder: Path) -> list[Path]:
    """Copy the files that students complete; raise UserError if one of them exists already."""
    files = {folder / f"{name}.py": TASKS / f"{name}.py" for name in names}
    there = [path.name for path in files if path.exists()]
    if there:
        raise UserError(
            f"{folder} holds {', '.join(there)} already, and nothing is overwritten; name another "
            "directory, or move these away."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, task in files.items():
            shutil.copyfile(task, path)
    except OSError as error:
        raise UserError(
            f"the exercises cannot be copied to {folder} ({error.strerror}); name another "
            "directory."
        ) from error
    return [*files]


# ---------------------------------------------------------------- progress


def state(path: Path) -> str:
    """Return 'no file', 'to do' (unchanged), 'begun', or 'right' (unchanged since it was right).

    The package's own files may be edited as well: such a file is begun once no gap is left in it.
    """
    if not path.is_file():
        return "no file"
    if _recorded(path.parent).get(path.name) == _digest(path):
        return "right"
    text = path.read_text(encoding="utf-8")
    as_copied = text == (TASKS / path.name).read_text(encoding="utf-8")
    return "to do" if as_copied and "raise NotImplementedError" in text else "begun"


def record_right(path: Path) -> None:
    """Record that a file is right, which holds until it is changed."""
    with suppress(OSError):  # an installed package may not be writable; the list is a convenience
        record = _recorded(path.parent) | {path.name: _digest(path)}
        (path.parent / _RECORD).write_text(json.dumps(record, indent=1), encoding="utf-8")


def _recorded(folder):
    try:
        record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()
