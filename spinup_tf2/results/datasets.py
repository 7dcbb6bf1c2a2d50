"""Reads runs of this package or of Spinning Up: config.json, progress.txt, and both as DataFrames.

pandas is imported where it is used, so that `ls` and --help do not have to wait for it.
"""

from __future__ import annotations

import csv
import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

from spinup_tf2.errors import UserError, printable
from spinup_tf2.files.disk import read_json, read_text
from spinup_tf2.files.printing import print_safely
from spinup_tf2.files.run_directory import ASIDE

if TYPE_CHECKING:
    import pandas as pd

# Spinning Up's Performance is the first of these columns that exists.
TESTED = "AverageTestEpRet"
PERFORMANCE = (TESTED, "AverageEpRet")

_LONGEST_NAME = 255  # characters, as for the name of a file
_OF_ONE_RUN = ("seed", "exp_name", "env_fn", "num_envs", "num_cpu", "resume")

# Arguments by which an algorithm is recognized; the first one that is present decides.
TELLTALES = {
    "n_pi": "ppg",
    "clip_ratio": "ppo",
    "damping_coeff": "trpo",
    "rms_eps": "a2c",
    "policy_delay": "td3",
    "act_noise": "ddpg",
    "alpha": "sac",
    "eps_steps": "dqn",
    "train_v_iters": "vpg",
}

MOST_COLUMNS = 10_000  # pandas would take minutes for a million

# Environments in the name of an experiment: Spinning Up's grids write ppo_envhalfcheetah-v2, while
# its files say no more about the environment than <function <lambda> at 0x7f>.
_ID_IN_NAME = re.compile(r"(?:^|_)(?:env-?)?(?P<id>[a-z][a-z0-9]*-v\d+)(?=_|$)", re.IGNORECASE)


def walk(top: str | os.PathLike) -> Iterator[tuple[str, list[str], list[str]]]:
    """os.walk in the order of names, without links and without runs that others have replaced.

    As with os.walk, folders that the caller removes from the list are skipped.
    """
    for root, folders, files in os.walk(top):
        folders[:] = sorted(name for name in folders if ASIDE not in name)
        yield root, folders, files


# ---------------------------------------------------------------- config.json


def read_config(run_dir: str | os.PathLike) -> dict[str, Any]:
    """Read the run's config.json; raise OSError or ValueError if it holds no settings."""
    path = os.path.join(run_dir, "config.json")
    config = read_json(path)
    if not isinstance(config, dict):
        raise ValueError(f"{path} is not a JSON object")
    return config


def name_in(config: dict[str, Any], key: str) -> str:
    """Return the text at a key, safe to print and not too long; "" if there is none."""
    return printable(str(config.get(key) or "")[:_LONGEST_NAME])


def settings(config: dict[str, Any]) -> dict[str, str]:
    """Return, as text, the algorithm and all arguments except those that identify a single run.

    They must be equal in all runs of an experiment.
    """
    arguments = {
        name: re.sub(r" at 0x[0-9a-f]+", "", json.dumps(value, sort_keys=True))
        for name, value in config.items()
        if name not in _OF_ONE_RUN and not name.startswith("logger")
    }
    # EnvFn(env_name='CartPole-v1', env_kwargs={...}, wrappers=...)
    _, _, of_env = str(config.get("env_fn") or "").partition(", env_kwargs=")
    told = dict(algorithm=algorithm(config), env_kwargs=of_env)
    return arguments | {name: text for name, text in told.items() if text}


def env_name(config: dict[str, Any], run_dir: str | os.PathLike) -> str:
    """Return the id of the run's environment; "" if it is unknown.

    It is looked up in env_spec.json, then config.json (`env_name`, `env_fn`), then in `exp_name`.
    """
    try:
        spec = read_json(os.path.join(run_dir, "env_spec.json"))["spec"]
        if spec["env_name"]:
            return name_in(spec, "env_name")
    except (OSError, ValueError, TypeError, KeyError):  # UserError is a ValueError
        pass
    if isinstance(config.get("env_name"), str):
        return name_in(config, "env_name")
    env_fn = str(config.get("env_fn") or "")[: 10 * _LONGEST_NAME]
    found = re.search(r"env_name='(?P<id>[^']+)'", env_fn)
    found = found or re.search(r"(?P<id>[\w./:-]+-v\d+)", env_fn)
    found = found or _ID_IN_NAME.search(name_in(config, "exp_name"))
    return name_in(found.groupdict(), "id") if found else ""


def algorithm(config: dict[str, Any], recorded: str = "") -> str:
    """Return the name of the algorithm of a run; "" if it is unknown.

    Args:
        config: The run's config.json, whose arguments identify the algorithms of this package.
        recorded: The name in its checkpoint, if known: a modified algorithm may have the same
            arguments as the original.
    """
    if config.get("algo") == "npg":  # TRPO without its line search
        return "npg"
    if recorded:
        return recorded
    return next((name for argument, name in TELLTALES.items() if argument in config), "")


# ---------------------------------------------------------------- progress.txt


@dataclass
class Rows:
    """The contents of a progress.txt.

    Attributes:
        columns: Names of the columns, from the first line; empty if that is missing or incomplete.
        lines: The rows as text, with as many fields as there are columns.
        damaged: Number of rows that were left out, with another number of fields.
    """

    columns: list[str]
    lines: list[str]
    damaged: int = 0

    @property
    def epochs(self) -> int:
        """Number of completed epochs, including those whose rows are damaged."""
        return len(self.lines) + self.damaged

    def returns(self) -> list[float]:
        """Return the mean return in each line; NaN if it is blank or not a number."""
        own = [self.columns.index(name) for name in PERFORMANCE if name in self.columns]
        fields = [line.split("\t") for line in self.lines]
        filled = [i for i in own if any(line[i] for line in fields)]
        return [_number(line[i]) for i in (filled or own)[:1] for line in fields]

    def report(self, path: str | os.PathLike) -> str:
        """Return a sentence on the damaged rows of the file at `path`."""
        plural = "s" if self.damaged > 1 else ""
        return f"Skipped {self.damaged} row{plural} of {path} with a wrong number of fields"


def _number(text):
    try:
        return float(text)
    except ValueError:
        return math.nan


def read_rows(path: str | os.PathLike) -> Rows:
    """Read a progress.txt, even while a run is writing it.

    A line without a line break is left out, as half a number is still a number, and so are lines
    with more or fewer fields than the first line. Bytes that are not text damage only their row.

    Raises:
        OSError, UserError: As in `read_text`.
    """
    *lines, _ = read_text(path, errors="replace").split("\n")
    lines = [line for line in lines if line.strip(" ")]
    if not lines:
        return Rows([], [])
    header, *body = lines
    tabs = header.count("\t")
    if tabs >= MOST_COLUMNS:
        raise UserError(f"{path} has {tabs + 1} columns, which is not what a run writes.")
    sound = [line for line in body if line.count("\t") == tabs and "\r" not in line]
    return Rows(header.split("\t"), sound, len(body) - len(sound))


# ---------------------------------------------------------------- DataFrames


def numbers(column: pd.Series) -> np.ndarray:
    """Return a column of progress.txt as floats [rows]; NaN for anything but finite numbers."""
    import pandas as pd

    if column.dtype == object:  # it may hold integers that are too large for a float
        column = column.astype(str)
    values = pd.to_numeric(column, errors="coerce").to_numpy(float, na_value=math.nan)
    return np.where(np.isfinite(values), values, math.nan)


def _read_progress(path):
    """Return the rows of a progress.txt; report why and return None if there are none."""
    import pandas as pd

    try:
        rows = read_rows(path)
        text = "\n".join(["\t".join(rows.columns), *rows.lines])
        data = pd.read_table(StringIO(text), index_col=False, quoting=csv.QUOTE_NONE)
        if data.empty:
            raise ValueError("it has no rows yet")
    except (OSError, ValueError) as error:  # pandas' own errors are ValueErrors
        print_safely(f"Could not read from {path} ({error})")
        return None
    if rows.damaged:
        print_safely(rows.report(path))
    return data


def get_datasets(logdir: str | os.PathLike, condition: str | None = None) -> list[pd.DataFrame]:
    """Read every run at or below `logdir`.

    Args:
        logdir: A directory. Each directory with a progress.txt is a run.
        condition: Name of the runs in the legend, instead of their exp_name.

    Returns:
        A list of DataFrames, one per run, with the columns of progress.txt, and `Unit` (number of
        the run), `Condition1` (its experiment), `Condition2` (experiment and number) and, if there
        are returns, `Performance` (AverageTestEpRet, or else AverageEpRet). `attrs` holds the run's
        directory (`path`), the id of its environment (`env`, "" if unknown), its `settings` as
        text, whether it has test returns (`tested`), and whether its name is a title that was given
        (`titled`). Runs and rows that cannot be read are reported and left out.
    """
    return _read_runs((run_dir, condition) for run_dir in _run_dirs(logdir))


def _run_dirs(logdir):
    return [root for root, _, files in walk(logdir) if "progress.txt" in files]


def _read_runs(runs):
    """Return a DataFrame for each of the runs, given as (directory, title), that can be read."""
    datasets = []
    for run_dir, title in runs:
        try:
            config = read_config(run_dir)
        except (OSError, ValueError) as error:
            config = {}
            print_safely(f"Without its settings: {run_dir} ({error})")
        data = _read_progress(os.path.join(run_dir, "progress.txt"))
        if data is None:
            continue
        unit, name = len(datasets), title or name_in(config, "exp_name") or "exp"
        data = data.assign(Unit=unit, Condition1=name, Condition2=f"{name}-{unit}")
        own = [column for column in PERFORMANCE if column in data]
        filled = [column for column in own if data[column].notna().any()]
        for column in (filled or own)[:1]:
            data["Performance"] = data[column]
        data.attrs.update(
            path=run_dir,
            env=env_name(config, run_dir),
            settings=settings(config),
            tested=filled[:1] == [TESTED],
            titled=title is not None,
        )
        datasets.append(data)
    # Returns of test episodes and of training must not be mixed in one curve.
    tested = {experiment(run) for run in datasets if run.attrs["tested"]}
    for run in datasets:
        if TESTED in run and not run.attrs["tested"] and experiment(run) in tested:
            run["Performance"] = math.nan
            print_safely(
                f"Left out of Performance: {run.attrs['path']} has no test episodes yet, and other "
                f"runs of {experiment(run)} are shown by theirs."
            )
    return datasets


def experiment(run: pd.DataFrame) -> str:
    """Return the name of a run's experiment."""
    return run["Condition1"].iloc[0]


def env_of(run: pd.DataFrame) -> str:
    """Return the id of a run's environment; "" if it is unknown."""
    return run.attrs.get("env", "")


def get_all_datasets(
    all_logdirs: Sequence[str],
    legend: Sequence[str] | None = None,
    select: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
) -> list[pd.DataFrame]:
    """Read the runs of several experiments.

    Args:
        all_logdirs: Directories, or prefixes of directories: `data/ppo` stands for every directory
            in `data` whose name begins with "ppo". With a trailing slash, `data/ppo/` is only that
            directory. A directory that is found twice counts once. (Here and below, a single string
            may be given instead of a list.)
        legend: A title for each of the directories in which runs are found.
        select: Strings that the path of a run's directory must all contain.
        exclude: Strings of which the path of a run's directory must contain none.

    Returns:
        A list of DataFrames as from `get_datasets`.

    Raises:
        UserError: There is no such directory or no run with rows, or the number of titles is wrong.
    """
    select, exclude, legend = map(_several, (select, exclude, legend))

    def wanted(path):
        return all(text in path for text in select) and not any(text in path for text in exclude)

    given = _several(all_logdirs)
    found = [logdir for each in given for logdir in matching_directories(each)]
    found = {os.path.realpath(logdir): logdir for logdir in found}.values()
    logdirs = {logdir: [*filter(wanted, _run_dirs(logdir))] for logdir in found}
    logdirs = {logdir: run_dirs for logdir, run_dirs in logdirs.items() if run_dirs}
    rule = "=" * 50
    print_safely("\n".join(["Plotting from...", rule, "", *logdirs, "", rule]))
    if legend and len(legend) != len(logdirs):
        raise UserError(
            "Must give a legend title for each set of experiments. "
            f"(There are {len(legend)} titles for {len(logdirs)} directories.)"
        )
    titles = legend or [None] * len(logdirs)
    runs = {
        (os.path.realpath(run_dir), title): (run_dir, title)
        for run_dirs, title in zip(logdirs.values(), titles, strict=True)
        for run_dir in run_dirs
    }
    datasets = _read_runs(runs.values())
    if not datasets:
        raise UserError(f"No run with results (progress.txt) is left in {', '.join(given)}.")
    return datasets


def _several(texts):
    """Return a list of strings; a single string becomes a list of one, and None an empty list."""
    if isinstance(texts, str | os.PathLike):
        texts = [texts]
    return [os.fspath(text) for text in texts or ()]


def matching_directories(given: str) -> list[str]:
    """Return the directories that an argument stands for; UserError if there are none."""
    parent, prefix = os.path.split(given)
    if prefix in ("", ".", ".."):
        matches = [given] if os.path.isdir(given) else []
    else:
        there = sorted(os.listdir(parent or ".")) if os.path.isdir(parent or ".") else []
        paths = [os.path.join(parent, name) for name in there if name.startswith(prefix)]
        matches = [path for path in paths if os.path.isdir(path)]
    if not matches:
        raise UserError(f"There is no directory {given}, and none whose name begins like that.")
    return matches


def named_by_env(data: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Return the runs with the environments removed from the names of their experiments.

    A grid names its experiments ppo_envcartpole-v1 and ppo_envacrobot-v1; if each environment has a
    panel or row of its own, both are `ppo`. Names are kept if two experiments in one environment
    would get the same name, and if they are titles that were given.
    """
    long = [(env_of(run), experiment(run)) for run in data]
    short = [
        (env, name if run.attrs.get("titled") else without_env(name, env))
        for run, (env, name) in zip(data, long, strict=True)
    ]
    if len({*short}) < len({*long}):
        return list(data)
    return [
        run.assign(Condition1=name, Condition2=f"{name}-{run['Unit'].iloc[0]}")
        for run, (_, name) in zip(data, short, strict=True)
    ]


def without_env(exp_name: str, env: str) -> str:
    """Remove the part that a grid over environments has added to the name of an experiment.

    `ppo_envcartpole-v1` becomes `ppo` if the environment is CartPole-v1.
    """
    slug = re.escape(re.sub(r"[^-_a-z0-9]", "-", env.lower()))
    shorter = re.sub(rf"_(env-?)?{slug}(?=_|$)", "", exp_name, flags=re.IGNORECASE)
    return shorter or exp_name
