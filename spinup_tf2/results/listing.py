"""Describes the runs below a directory, without TensorFlow or pandas."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from spinup_tf2.envs.modules import modules_of
from spinup_tf2.errors import UserError, one_line
from spinup_tf2.files.commands import plot_command, resume_command, watch_command
from spinup_tf2.files.lock import is_locked
from spinup_tf2.files.run_directory import read_json
from spinup_tf2.results.reading import algorithm, env_name, name_in, read_config
from spinup_tf2.results.rows import UNFINISHED, read_rows
from spinup_tf2.results.walking import walk

# Folders that belong to a run, and contain no other runs.
_OF_A_RUN = re.compile(r"(tf[12]_save\d*|pyt_save|checkpoint)(\.tmp|\.old)?")
_SAVE = re.compile(r"tf2_save\d*")


@dataclass(frozen=True)
class RunInfo:
    """Information on a run.

    Attributes:
        path: Directory of the run.
        state: "running": another process holds its lock. "finished": it has all its epochs, or was
            ended by a callback. "stopped": it is not finished, and no process continues it.
            "damaged": see `problem`.
        problem: What is missing or cannot be read, or how many rows are damaged; "" if nothing is.
        epochs_done: Number of completed epochs, by its rows.
        epochs: Number of epochs requested; None if unknown.
        last, best: The last and the highest return (AverageTestEpRet, or else AverageEpRet); None
            if there are none.
        modified: Time at which a row was last written, in seconds since 1970.
        exp_name, env: Name of the experiment and id of the environment; "" if unknown.
        algorithm: Name of the algorithm, from its checkpoint or else inferred from the arguments in
            config.json; "" if unknown.
        seed: Seed of the run; None if unknown.
        commands: The commands among "resume", "plot" and "watch" that make sense, as command lines.
    """

    path: str
    state: str
    problem: str
    epochs_done: int
    epochs: int | None
    last: float | None
    best: float | None
    modified: float
    exp_name: str
    env: str
    algorithm: str
    seed: int | None
    commands: dict[str, str]


def find_runs(directory: str | os.PathLike) -> Iterator[RunInfo]:
    """Describe each run at or below a directory, in the order of their names.

    A run is a directory with a progress.txt or a config.json. Damaged runs are included.

    Raises:
        UserError: There is no such directory.
    """
    if not os.path.isdir(directory):
        raise UserError(f"There is no directory {directory}; give one in which runs are.")
    for root, folders, files in walk(directory):
        is_run = "progress.txt" in files or "config.json" in files
        if is_run:
            yield describe_run(root, folders)
        folders[:] = [name for name in folders if not (is_run and _OF_A_RUN.fullmatch(name))]


def describe_run(run_dir: str, folders: list[str]) -> RunInfo:
    """Describe the run in a directory that contains these folders."""
    # Checked first: a run that ends in the meantime still counts as running, with all its rows.
    running = is_locked(run_dir)
    problems = []
    config: dict[str, Any] = {}
    try:
        config = read_config(run_dir)
    except FileNotFoundError:
        problems.append("no config.json")
    except (OSError, ValueError) as error:
        problems.append(one_line(error))
    done, returns, damage = _progress(run_dir, running)
    problems += damage
    epochs = config.get("epochs")
    epochs = epochs if type(epochs) is int else None
    run = _described(run_dir) if "checkpoint" in folders else {}
    over = epochs is not None and min(done, run.get("epochs_done", done)) >= epochs
    if over and "checkpoint" in folders and not any(map(_SAVE.match, folders)):
        problems.append("no trained agent (tf2_save)")
    if running:
        state = "running"
    elif problems:
        state = "damaged"
    elif over:
        state = "finished"
    else:
        state = "finished" if run.get("stopped") else "stopped"
    seed, env = config.get("seed"), env_name(config, run_dir)
    return RunInfo(
        path=run_dir,
        state=state,
        problem="; ".join(problems),
        epochs_done=done,
        epochs=epochs,
        last=returns[-1] if returns else None,
        best=max(returns, default=None),
        modified=_modified(run_dir),
        exp_name=name_in(config, "exp_name"),
        env=env,
        algorithm=algorithm(config, name_in(run, "algorithm")),
        seed=seed if type(seed) is int else None,
        commands=_commands(run_dir, folders, state, env, run.get("command")),
    )


def _described(run_dir):
    """Return `algorithm`, `command`, `stopped` (the reason) and `epochs_done`, if it is known, from
    the newest checkpoint; {} if that is impossible.
    """
    root = os.path.join(run_dir, "checkpoint")
    try:
        newest = max((name for name in os.listdir(root) if name.isdecimal()), key=int)
        manifest = read_json(os.path.join(root, newest, "manifest.json"))
        run, counters = manifest["run"], manifest["counters"]
        known = dict(algorithm=run.get("algorithm"), command=run["command"])
        known["stopped"] = counters.get("stopped", "")
        if type(counters.get("epoch")) is int:
            known["epochs_done"] = counters["epoch"]
        return known
    except (OSError, ValueError, TypeError, KeyError, AttributeError):  # none, or a damaged one
        return {}


def _progress(run_dir, running):
    """Return the number of completed epochs, all returns, and a list of problems."""
    path = os.path.join(run_dir, "progress.txt")
    try:
        rows = read_rows(path)
    except FileNotFoundError:
        return 0, [], [] if running else ["no progress.txt"]
    except (OSError, ValueError) as error:
        return 0, [], [one_line(error)]
    rows.damage.pop(UNFINISHED, None)  # normal if a run is killed while it writes a row
    done, returns = rows.epochs, rows.returns()
    if None in returns:
        rows.damage["with text in the place of a number"] = returns.count(None)
    known = [number for number in returns if number is not None and math.isfinite(number)]
    return done, known, [rows.report("progress.txt")] if rows.damage else []


def _modified(run_dir):
    for path in (os.path.join(run_dir, "progress.txt"), run_dir):
        with suppress(OSError):
            return os.stat(path).st_mtime
    return 0.0


def _commands(run_dir, folders, state, env, command):
    commands = {}
    # Some runs that were started by Python programs have no command to resume them.
    if state in ("stopped", "damaged") and isinstance(command, dict):
        commands["resume"] = resume_command(run_dir, env, modules_of(command.get("callbacks")))
    commands["plot"] = plot_command(run_dir) + " --watch" * (state == "running")
    if any(map(_SAVE.fullmatch, folders)):
        commands["watch"] = watch_command(run_dir, env)
    return commands


def as_json(runs: list[RunInfo]) -> str:
    """Return the runs as a JSON list of objects with all their attributes."""
    return json.dumps([vars(run) for run in runs], indent=2)
