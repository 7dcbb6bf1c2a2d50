"""Lists the runs in a directory: `python -m spinup_tf2.run ls [DIR]`."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter

from spinup_tf2 import user_config
from spinup_tf2.envs.modules import modules_of
from spinup_tf2.errors import UserError, one_line, printable
from spinup_tf2.files.printing import print_safely
from spinup_tf2.files.run_directory import is_locked, plot_command, resume_command, watch_command
from spinup_tf2.files.saves import has_save
from spinup_tf2.results.datasets import algorithm, env_name, name_in, read_config, read_rows, walk
from spinup_tf2.training.checkpoints import Checkpoints

# Folders that belong to a run, and contain no other runs.
_OF_A_RUN = re.compile(r"(tf[12]_save\d*|pyt_save|checkpoint)(\.tmp|\.old)?")

# What runs can be sorted by, and the attribute of RunInfo if it has another name.
_SORT = dict(age="modified", name="path", epochs="epochs_done")
_SORT |= {name: name for name in ("state", "last", "best", "env", "algorithm", "seed")}
_HIGHEST_FIRST = ("modified", "epochs_done", "last", "best")

_HEADER = ("Run", "State", "Epochs", "Last", "Best", "Age", "Env", "Algo", "Seed")
_RIGHT = ("Epochs", "Last", "Best", "Age", "Seed")  # columns that are aligned to the right


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
            yield _describe(root, folders)
        folders[:] = [name for name in folders if not (is_run and _OF_A_RUN.fullmatch(name))]


def _describe(run_dir, folders):
    """Return the RunInfo of a run whose directory contains these folders."""
    # Checked first: a run that ends in the meantime still counts as running, with all its rows.
    running = is_locked(run_dir)
    problems = []
    config = {}
    try:
        config = read_config(run_dir)
    except FileNotFoundError:
        problems.append("no config.json")
    except (OSError, ValueError) as error:
        problems.append(one_line(error))
    done, returns, damage = _progress(run_dir, running)
    problems += damage
    numbers = (config.get(name) for name in ("epochs", "seed"))
    epochs, seed = (number if type(number) is int else None for number in numbers)
    checkpoint = {}
    try:
        checkpoint = Checkpoints(run_dir).describe() or {}
    except UserError as error:
        problems.append(one_line(error))
    over = epochs is not None and min(done, checkpoint.get("epochs_done", done)) >= epochs
    saved = has_save(run_dir)
    if over and "checkpoint" in folders and not saved:
        problems.append("no trained agent (tf2_save)")
    if running:
        state = "running"
    elif problems:
        state = "damaged"
    else:
        state = "finished" if over or checkpoint.get("stopped") else "stopped"
    env = env_name(config, run_dir)
    commands = {}
    # Some runs that were started by Python programs have no command to resume them.
    command = checkpoint.get("command")
    command = command if isinstance(command, dict) else {}
    of_env = modules_of(command.get("wrapper"))
    if state in ("stopped", "damaged") and command:
        named = [*modules_of(command.get("callbacks")), *modules_of([checkpoint.get("function")])]
        commands["resume"] = resume_command(run_dir, env, [*of_env, *named])
    commands["plot"] = plot_command(run_dir)
    if saved:
        commands["watch"] = watch_command(run_dir, env, of_env)
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
        algorithm=algorithm(config, name_in(checkpoint, "algorithm")),
        seed=seed,
        commands=commands,
    )


def _progress(run_dir, running):
    """Return the number of completed epochs, all returns, and a list of problems."""
    try:
        rows = read_rows(os.path.join(run_dir, "progress.txt"))
    except FileNotFoundError:
        return 0, [], [] if running else ["no progress.txt"]
    except (OSError, ValueError) as error:
        return 0, [], [one_line(error)]
    returns = [number for number in rows.returns() if math.isfinite(number)]
    return rows.epochs, returns, [rows.report("progress.txt")] if rows.damaged else []


def _modified(run_dir):
    for path in (os.path.join(run_dir, "progress.txt"), run_dir):
        with suppress(OSError):  # it may be removed at this moment
            return os.stat(path).st_mtime
    return 0.0


# ---------------------------------------------------------------- the table


def show(runs: Sequence[RunInfo], directory: str, commands: bool = False) -> None:
    """Print a table of runs.

    Args:
        runs: The runs, one per line.
        directory: Directory to which paths are relative.
        commands: Whether to print the commands for each run below it.
    """
    now = time.time()
    rows = [_HEADER, *(_row(run, directory, now) for run in runs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = [str.rjust if title in _RIGHT else str.ljust for title in _HEADER]
    for run, row in zip([None, *runs], rows, strict=True):
        cells = (align(*cell) for align, *cell in zip(aligned, row, widths, strict=True))
        print_safely("  ".join(cells).rstrip())
        for name, command in run.commands.items() if commands and run else ():
            print_safely(f"    {name + ':':8} {command}")
    for run in runs:
        if run.state == "damaged":
            print_safely(f"{run.path}: {run.problem}")


def _row(run, directory, now):
    """Return the cells of a run, in the order of the header."""
    cells = (
        run.path.removeprefix(directory.rstrip("/") + "/"),
        run.state,
        f"{run.epochs_done}/{'?' if run.epochs is None else run.epochs}",
        "" if run.last is None else f"{run.last:.4g}",
        "" if run.best is None else f"{run.best:.4g}",
        human_age(now - run.modified),
        run.env,
        run.algorithm,
        "" if run.seed is None else str(run.seed),
    )
    return [printable(text).replace("\n", "\\n").replace("\t", "\\t") for text in cells]


def human_age(seconds: float) -> str:
    """Format a duration as `45 s`, `3 min`, `2 h` or `5 d`."""
    for unit, length, limit in (("s", 1, 60), ("min", 60, 60), ("h", 3600, 48)):
        if seconds < limit * length:
            return f"{max(0, seconds) // length:.0f} {unit}"
    return f"{seconds // 86400:.0f} d"


# ---------------------------------------------------------------- the command


def main(argv: Sequence[str]) -> None:
    """Run the command line; `argv` holds the arguments after `ls`."""
    args = _parser().parse_args(argv)
    directory = args.directory or user_config.DEFAULT_DATA_DIR
    runs = sorted(find_runs(directory), key=lambda run: run.path)
    runs = _sorted(runs, _SORT[args.sort], args.reverse)
    if args.json:
        print(json.dumps([vars(run) for run in runs], indent=2))
    elif not runs:
        print_safely(f"No runs in {directory}.")
    else:
        show(runs, directory, args.commands)


def _sorted(runs, attribute, reverse):
    """Return the runs in order; those whose value is unknown come last, whichever way round."""
    known = [run for run in runs if getattr(run, attribute) not in (None, "")]
    known.sort(key=attrgetter(attribute), reverse=reverse != (attribute in _HIGHEST_FIRST))
    return known + [run for run in runs if getattr(run, attribute) in (None, "")]


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m spinup_tf2.run ls", description="List runs and how far they are."
    )
    add = parser.add_argument
    add(
        "directory",
        nargs="?",
        metavar="DIR",
        help="where the runs are, at any depth; by default where experiments are written",
    )
    add("--sort", choices=[*_SORT], default="age", help="by default the newest first (%(default)s)")
    add("--reverse", "-r", action="store_true", help="the other way round")
    add("--commands", action="store_true", help="the commands that resume, plot and watch each run")
    add("--json", action="store_true", help="everything as JSON, for programs")
    return parser
