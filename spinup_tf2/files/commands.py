"""Command lines, to be printed, that resume a run, plot it, or show its agent."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable

from spinup_tf2.envs.modules import import_flag

_COMMAND = "python -m spinup_tf2.run"


def resume_command(
    run_dir: str | os.PathLike, env_name: object = "", modules: Iterable[str] = ()
) -> str:
    """Return the command that resumes a run; modules, and the environment's, go into --import."""
    return f"{_COMMAND} resume {_quoted(run_dir)}{import_flag(env_name, modules)}"


def watch_command(
    run_dir: str | os.PathLike, env_name: object = "", modules: Iterable[str] = ()
) -> str:
    """Return the command that shows the agent of a run."""
    return f"{_COMMAND} test_policy {_quoted(run_dir)}{import_flag(env_name, modules)}"


def plot_command(run_dir: str | os.PathLike) -> str:
    """Return the command that plots a run. Without the slash, s1 would stand for s10 as well."""
    return f"{_COMMAND} plot {_quoted(run_dir)}/"


def _quoted(run_dir):
    # With ./ a directory whose name begins with a dash is not taken for a flag.
    path = os.fspath(run_dir)
    return shlex.quote(f"./{path}" if path.startswith("-") else path)
