"""Logging of a run: a table on stdout, the same rows in a file, the configuration, saved models.

    logger = EpochLogger(output_dir="data/my_run", exp_name="my_run")
    logger.save_config(config)
    for epoch in range(epochs):
        logger.store(EpRet=ret, VVals=values)      # as often as you like, numbers or arrays
        logger.log_tabular("Epoch", epoch)
        logger.log_tabular("EpRet", with_min_and_max=True)
        logger.dump_tabular()

Under MPI every rank makes the same calls: statistics are computed over all ranks, and only rank 0
prints and writes.
"""

from __future__ import annotations

import inspect
import json
import os
import tempfile
import weakref
from collections.abc import Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from spinup_tf2.errors import UserError, kind_and_line, printable, reason_of
from spinup_tf2.files.disk import atomic_save, remove
from spinup_tf2.files.printing import colored, colorize, format_table, say, warn
from spinup_tf2.files.run_directory import (
    CANNOT_WRITE,
    EXISTING_RUN,
    check_in_place,
    check_output_fname,
    files_of_run,
    holds_run,
    set_aside,
    trim_rows,
)
from spinup_tf2.files.serialization import convert_json
from spinup_tf2.parallel import mpi

if TYPE_CHECKING:
    import tensorflow as tf

__all__ = ["EpochLogger", "Logger", "colorize"]


class Logger:
    """Writes the table of epochs, the configuration and the saves of one run.

    Args:
        output_dir: Directory of the run; by default a new one in the system's directory for
            temporary files. The attribute is None on all ranks but the first.
        output_fname: Name of the file of tab-separated rows.
        exp_name: Name of the experiment, shared by all runs that belong to it; `plot` groups by it.
        overwrite: Whether to replace a run that `output_dir` already holds, which is moved to
            `<output_dir>.old-<date>`. Otherwise such a directory is refused.
        quiet: Whether to print neither tables nor messages. The files are the same.
        keep_rows: Number of rows to keep of the run in `output_dir`, which is continued; None
            starts a new run.
        preset: Name of the preset of the run's settings, for config.json.
    """

    def __init__(
        self,
        output_dir: str | os.PathLike | None = None,
        output_fname: str = "progress.txt",
        exp_name: str | None = None,
        *,
        overwrite: bool = False,
        quiet: bool = False,
        keep_rows: int | None = None,
        preset: str | None = None,
    ):
        self.exp_name = exp_name
        self.preset = preset
        self.quiet = quiet
        self.output_dir = None
        self.output_file = None
        self.first_row = True
        self.log_headers = []
        self.log_current_row = {}
        self._model = None
        self._unwritten = b""  # rows that did not fit on the disk
        self._warned = set()
        self._there: set[str] = set()  # files of before, which `take_back` leaves
        self._is_root = mpi.proc_id() == 0

        # Only rank 0 looks at the disk, but every rank must know the result.
        headers = mpi.on_root(lambda: self._open(output_dir, output_fname, overwrite, keep_rows))
        if headers:
            self.first_row, self.log_headers = False, headers
        if self._is_root:
            self.log(f"Logging data to {self.output_file.name}")

    def _open(self, output_dir, output_fname, overwrite, keep_rows):
        """Prepare the directory and open the file of rows; return the columns of kept rows."""
        check_output_fname(output_fname)
        headers = []
        try:
            if output_dir is None:
                output_dir = tempfile.mkdtemp(prefix="experiment-")
            elif not os.path.isdir(output_dir):
                os.makedirs(output_dir)
            elif keep_rows is not None:
                _check_no_link(output_dir, output_fname)
                headers = trim_rows(os.path.join(output_dir, output_fname), keep_rows)
            elif holds_run(output_dir, output_fname):
                if not overwrite:
                    raise UserError(EXISTING_RUN.format(output_dir))
                aside = set_aside(output_dir, output_fname)
                self.log(f"The run that was in {output_dir} is in {aside} now.", color="cyan")
            self.output_dir = os.path.abspath(output_dir)  # an environment may change directories
            self._there = {*os.listdir(output_dir)}
            mode = "wb" if keep_rows is None else "ab"
            # Unbuffered: rows that do not fit on a full disk are kept and written later.
            rows = os.path.join(self.output_dir, output_fname)
            self.output_file = open(rows, mode, buffering=0)  # noqa: SIM115
        except OSError as error:
            raise UserError(
                CANNOT_WRITE.format(output_dir or error.filename, error.strerror)
            ) from error
        weakref.finalize(self, self.output_file.close)
        return headers

    def log(self, msg: str, color: str = "green") -> None:
        """Print a message in color (rank 0)."""
        if self._is_root and not self.quiet:
            say(colored(printable(msg), color, bold=True))

    def log_tabular(self, key: str, val: Any) -> None:
        """Set one value of the current row. The first row determines the columns.

        Args:
            key: Name of the column.
            val: A string, a number, or an array or tensor of one number.

        Raises:
            ValueError: Name or value would break the table: a string with a tab or a line break, or
                an array of several numbers.
        """
        for text in (key, val):
            if isinstance(text, str) and any(character in text for character in "\t\r\n"):
                raise ValueError(
                    f"log_tabular() was given {text!r}, whose tab or line break would break the "
                    "rows of the table; leave it out."
                )
        if self.first_row:
            self.log_headers.append(key)
        else:
            assert key in self.log_headers, (
                f"Trying to introduce a new key {key} that you didn't include "
                "in the first iteration"
            )
        assert key not in self.log_current_row, (
            f"You already set {key} this iteration. Maybe you forgot to call dump_tabular()"
        )
        self.log_current_row[key] = number_in(key, val)

    def dump_tabular(self) -> None:
        """Print the current row as a table, append it to the file, and begin the next one."""
        if not self.log_headers:
            raise ValueError("There is nothing to dump: no column was set with log_tabular().")
        row = {key: self.log_current_row.get(key, "") for key in self.log_headers}
        if self._is_root:
            if not self.quiet:
                say(format_table(row))
            rows = [self.log_headers] if self.first_row else []
            text = "".join("\t".join(map(str, each)) + "\n" for each in [*rows, row.values()])
            self._unwritten += text.encode()
            with self._disk_may_be_full():
                self._write_rows()
        self.log_current_row.clear()
        self.first_row = False

    def check_in_place(self) -> None:
        """Raise UserError if the file of rows is no longer where it was opened. Collective."""
        mpi.on_root(lambda: check_in_place(self.output_file))

    def take_back(self) -> None:
        """Remove what a run has written that has failed before its first step (rank 0)."""
        if self._is_root:
            with suppress(OSError):
                own = files_of_run(self.output_dir, os.path.basename(self.output_file.name))
                for name in {*own} - self._there:
                    remove(os.path.join(self.output_dir, name))
                os.rmdir(self.output_dir)  # if there is nothing else in it, not even the lock

    @property
    def all_written(self) -> bool:
        """Whether all rows have been written; rows wait while the disk is full (rank 0)."""
        return not self._unwritten

    def _write_rows(self):
        while self._unwritten:
            self._unwritten = self._unwritten[self.output_file.write(self._unwritten) :]

    def sync(self) -> None:
        """Flush all rows to the disk (rank 0); raise OSError if that fails."""
        if self._is_root:
            self._write_rows()
            os.fsync(self.output_file.fileno())

    def save_config(self, config: dict[str, Any]) -> None:
        """Write the configuration to config.json, as a record, and print it.

        Values that JSON cannot represent are written as names (functions, classes) or attributes.
        """
        config = dict(convert_json(config))
        names = dict(exp_name=self.exp_name, preset=self.preset)
        config |= {key: name for key, name in names.items() if name is not None}
        if self._is_root:
            text = json.dumps(config, separators=(",", ":\t"), indent=4, sort_keys=True)
            self.log("Saving config:\n", color="cyan")
            if not self.quiet:  # in few lines; the file has one for each value
                shown = ", ".join(f"{key}={config[key]!r}" for key in sorted(config))
                say(fill(shown, 80, break_long_words=False, break_on_hyphens=False))
            with atomic_save(os.path.join(self.output_dir, "config.json")) as path:
                Path(path).write_text(text, encoding="utf-8")

    def setup_tf_saver(self, model: tf.Module) -> None:
        """Choose what `save_state` saves.

        Args:
            model: A `tf.Module` whose tf.functions can be called after loading. Its attribute
                `info` is a dict that is written to model_info.json. Its method `arrays()`, if it
                has one, returns arrays by name for weights.npz, so that the variables can be read
                without the SavedModel.
        """
        self._model = model

    def save_state(self, state_dict: dict[str, Any], itr: int | None = None) -> bool:
        """Save the state of an experiment: `state_dict` in vars.pkl, the model in tf2_save/.

        A crash never leaves a partial save: each is written under a temporary name, then renamed.

        Args:
            state_dict: Objects to pickle, usually `{"env": env}`. If they cannot be pickled, a
                warning is printed and the previous vars.pkl is kept.
            itr: None to replace the latest save, or a number that becomes part of the names
                (vars12.pkl, tf2_save12/), so that this save is kept.

        Returns:
            Whether the model was saved; a full disk causes a warning and no exception.
        """
        if not self._is_root:
            return True
        suffix = "" if itr is None else f"{itr:d}"
        self._save_vars(state_dict, os.path.join(self.output_dir, f"vars{suffix}.pkl"))
        if self._model is None:
            return True
        return self._save_model(os.path.join(self.output_dir, f"tf2_save{suffix}"))

    def _save_vars(self, state_dict, path):
        import joblib

        try:
            with self._disk_may_be_full(), atomic_save(path) as temporary:
                joblib.dump(state_dict, temporary)
        except Exception as error:  # objects may raise anything when they are pickled
            if os.path.exists(os.path.join(self.output_dir, "env_spec.json")):
                return  # the environment is described there, and nothing is lost
            # Later epochs would fail in the same way.
            self.warn_once(
                f"could not pickle state_dict. ({kind_and_line(error)}) No new vars.pkl is written."
            )

    def _save_model(self, path):
        """Save the model; return whether that succeeded."""
        import tensorflow as tf

        with self._disk_may_be_full(tf.errors.OpError):
            with atomic_save(path) as temporary:
                os.mkdir(temporary)  # TensorFlow would make a run's directory that is gone anew
                tf.saved_model.save(self._model, temporary)
                info = json.dumps(self._model.info, indent=4, sort_keys=True)
                Path(temporary, "model_info.json").write_text(info, encoding="utf-8")
                if hasattr(self._model, "arrays"):
                    np.savez(Path(temporary, "weights.npz"), **self._model.arrays())
            return True
        return False

    def warn_once(self, text: str, about: str | None = None) -> None:
        """Print a warning in red (rank 0), unless there was one on the same subject before.

        Args:
            text: The warning.
            about: Key of the subject; None for the text itself.
        """
        about = text if about is None else about
        if self._is_root and about not in self._warned:
            warn(text)
        self._warned.add(about)

    @contextmanager
    def _disk_may_be_full(self, *kinds):
        """Warn if files of the run cannot be written, instead of ending the training.

        Args:
            *kinds: Exceptions that mean this, besides OSError.
        """
        try:
            yield
        except (OSError, *kinds) as error:
            self.warn_once(
                f"cannot write to {self.output_dir} ({reason_of(error)}). The training continues, "
                "and it is tried again after each epoch.",
                about="output_dir",
            )


def _check_no_link(output_dir, output_fname):
    """Raise UserError if a run would be read from, or written to, what a link leads to."""
    ours = files_of_run(output_dir, output_fname)
    for name in os.listdir(output_dir):
        own = name in ours or name.startswith(output_fname)
        if own and os.path.islink(os.path.join(output_dir, name)):
            raise UserError(
                f"{name} in {output_dir} is a link, and not a file of a run. Remove it to resume."
            )


def check_logger_arguments(given: Mapping[str, Any]) -> None:
    """Raise UserError if a logger cannot be created with these arguments."""
    try:
        inspect.signature(Logger).bind(**given)
    except TypeError as error:
        raise UserError(f"logger_kwargs are those of EpochLogger: {error}.") from error
    if "output_fname" in given:
        check_output_fname(given["output_fname"])


class EpochLogger(Logger):
    """A Logger that also collects values during an epoch and logs their statistics.

    The statistics are over all values stored since the last row, on all MPI ranks.

    Attributes:
        keep: Keys whose values are kept when their statistics are logged.
        kept: The kept values of all ranks, `[n]`, by key.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.epoch_dict = {}
        self.keep: tuple[str, ...] = ()
        self.kept: dict[str, np.ndarray] = {}

    def store(self, **kwargs: Any) -> None:
        """Add values to the statistics of this epoch.

        Each is a number or an array (NumPy, TensorFlow, list) of any shape, every element of which
        counts as one value. An empty array declares a key, so that it can be logged even if there
        is no value, for example because no episode has ended.
        """
        for key, value in kwargs.items():
            # A copy, because callers reuse their buffers.
            self.epoch_dict.setdefault(key, []).append(np.array(value, np.float64).ravel())

    def log_tabular(
        self, key: str, val: Any = None, with_min_and_max: bool = False, average_only: bool = False
    ) -> None:
        """Log `val`, or without it the statistics of everything stored under `key`.

        Under MPI the latter is a collective call: every rank makes it, with or without values of
        its own. If no rank has any, the columns are left blank.

        Args:
            key: Name of the column; statistics have the columns Average<key>, Std<key>, Max<key>
                and Min<key>.
            val: Value of the column.
            with_min_and_max: Whether to log the maximum and the minimum, too.
            average_only: Whether to log only the average, under the name `key` itself.
        """
        if val is not None:
            super().log_tabular(key, val)
            return
        values = self._values(key)
        if key in self.keep:
            self.kept[key] = np.concatenate(mpi.gather_objects(values))
        # NaN could not stand for "no data", because a diverged loss is NaN, too.
        has_data = mpi.mpi_sum(values.size) > 0
        stats = mpi.mpi_statistics_scalar(values, with_min_and_max) if has_data else [""] * 4
        super().log_tabular(key if average_only else f"Average{key}", stats[0])
        if not average_only:
            super().log_tabular(f"Std{key}", stats[1])
        if with_min_and_max:
            super().log_tabular(f"Max{key}", stats[3])
            super().log_tabular(f"Min{key}", stats[2])
        self.epoch_dict[key] = []

    def stored(self) -> dict[str, np.ndarray]:
        """Return the values stored since the last row, by key, as `store` takes them."""
        return {key: self._values(key) for key in self.epoch_dict}

    def get_stats(self, key: str) -> tuple[np.float32, ...]:
        """Return mean and standard deviation of the values stored under `key`, over all ranks.

        The values are not cleared. Both are NaN if there are none.
        """
        return mpi.mpi_statistics_scalar(self._values(key))

    def _values(self, key):
        return np.concatenate([*self.epoch_dict[key], np.empty(0)])


def number_in(key: str, value: Any) -> Any:
    """Return the number in a tensor or an array; anything else is returned unchanged.

    Raises:
        UserError: There are several numbers; the message calls them `key`.
    """
    if hasattr(value, "numpy"):
        value = value.numpy()
    if isinstance(value, np.ndarray):
        if value.size != 1:
            raise UserError(
                f"{key!r} is to be logged as one number, and is an array of shape {value.shape}; "
                "log its mean, or store() it with the logger to log its statistics."
            )
        value = value.reshape(-1)[0]
    return value
