"""The command lines that go on with a run, plot it and show its agent, to be printed."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable

from spinup_tf2.envs.modules import import_flag

_COMMAND = "python -m spinup_tf2.run"


def resume_command(
    run_dir: str | os.PathLike, env_name: object = "", modules: Iterable[str] = ()
) -> str:
    """What goes on with a run in this environment; its modules are named with --import."""
    return f"{_COMMAND} resume {_quoted(run_dir)}{import_flag(env_name, modules)}"


def watch_command(
    run_dir: str | os.PathLike, env_name: object = "", modules: Iterable[str] = ()
) -> str:
    """What shows the agent of a run in this environment."""
    return f"{_COMMAND} test_policy {_quoted(run_dir)}{import_flag(env_name, modules)}"


def plot_command(run_dir: str | os.PathLike) -> str:
    """What plots a run. Without the slash it would plot s10 with s1: all that begins like it."""
    return f"{_COMMAND} plot {_quoted(run_dir)}/"


def _quoted(run_dir):
    # Both spellings of a directory whose name begins with a dash are understood.
    path = os.fspath(run_dir)
    return shlex.quote(f"./{path}" if path.startswith("-") else path)
