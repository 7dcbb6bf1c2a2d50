"""Checks what an algorithm needs besides valid arguments: modules, packages, initial weights.

The process of an experiment looks for all of these when it starts. Here they are checked before
anything is removed or written, as far as possible without importing TensorFlow.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Mapping
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from typing import Any

from spinup_tf2.callbacks import not_available
from spinup_tf2.envs.rendering import check_shown_in_training
from spinup_tf2.files.saves import find_save, read_weights
from spinup_tf2.tracking.tracker import check_installed


def check_needs(runs: Iterable[Mapping[str, Any]]) -> None:
    """Raise UserError if something that one of the runs needs is missing.

    Args:
        runs: For each run, the arguments of its algorithm.
    """
    found = []

    def look_once(check, value):
        if (check, value) not in found:
            check(value)
            found.append((check, value))

    for arguments in runs:
        for callback in arguments.get("callbacks") or ():
            if isinstance(callback, str):
                look_once(_check_callback, callback)
        for name in arguments.get("track") or ():
            look_once(check_installed, name)
        for option in ("record_every", "render_every"):
            if arguments.get(option) is not None:
                look_once(check_shown_in_training, option)
        # A run that is resumed has its own weights, and the other run may no longer exist.
        if arguments.get("init_from") is not None and not arguments.get("resume"):
            look_once(_check_init_from, arguments["init_from"])


def _check_init_from(run_dir):
    read_weights(find_save(run_dir))  # the experiment's own process checks whether they fit


def _check_callback(name):
    """Check that `module:Name` exists, without importing the module: it may load TensorFlow."""
    module, _, attribute = name.rpartition(":")
    try:
        if module in sys.modules:
            getattr(sys.modules[module], attribute)
            return
        spec = _spec_of(module)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {module!r}")
        source = getattr(spec.loader, "get_source", lambda _: None)(module)
        if source is not None:  # it is None for a module written in C
            ast.parse(source)
            ways = (attribute, "import *", "__getattr__", "globals()")  # to define the attribute
            if not any(way in source for way in ways):
                raise AttributeError(f"module {module!r} has no attribute {attribute!r}")
    except Exception as error:  # a finder may raise anything
        raise not_available(name, error) from error


def _spec_of(module: str) -> ModuleSpec | None:
    """Return the spec of a module, or None if there is none, without importing its packages."""
    parts = module.split(".")
    spec = find_spec(parts[0])
    for end in range(2, len(parts) + 1):
        places = spec and spec.submodule_search_locations
        spec = PathFinder.find_spec(".".join(parts[:end]), places) if places else None
    return spec
