"""Logging: a table on stdout, the same rows in a file, the configuration, and saved models.

    logger = EpochLogger(output_dir="data/my_run", exp_name="my_run")
    logger.save_config(config)
    for epoch in range(epochs):
        logger.store(EpRet=ret, VVals=values)      # as often as you like, numbers or arrays
        logger.log_tabular("Epoch", epoch)
        logger.log_tabular("EpRet", with_min_and_max=True)
        logger.dump_tabular()

Under MPI every rank makes the same calls: statistics are taken over all ranks, and rank 0 alone
prints and writes.
"""

from __future__ import annotations

import inspect
import json
import os
import weakref
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from spinup_tf2.errors import UserError, did_you_mean, kind_and_line, printable
from spinup_tf2.parallel import mpi
from spinup_tf2.runs.files import (
    EXISTING_RUN,
    LOCK,
    OUTPUT,
    REPLACED,
    atomic_save,
    fresh_directory,
    holds_run,
    remove_run,
    trim_rows,
)
from spinup_tf2.runs.printing import colored, colorize, format_table, say, warn
from spinup_tf2.utils.serialization_utils import convert_json

if TYPE_CHECKING:
    import tensorflow as tf

__all__ = ["EpochLogger", "Logger", "colorize"]


class Logger:
    """Writes a table per epoch, the configuration and the saves of one run.

    Args:
        output_dir: Directory of the run; by default a fresh one, `experiments-<uid>/<time>` in the
            system's directory for temporary files. None on all ranks but the first.
        output_fname: Name of the file of tab-separated rows.
        exp_name: Name of the experiment, shared by all runs that belong to it; `plot` groups by it.
        overwrite: Whether to remove the files of a run that `output_dir` may hold already. Without
            it, such a directory is refused.
        quiet: Print neither tables nor messages. The files are the same.
        keep_rows: Go on with the run that `output_dir` holds, after its first so many rows.
        preset: Name of the preset from which the run has its settings, to be recorded.
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
        self._unwritten = b""  # rows for which the disk has had no room
        self._warned = set()
        self._is_root = mpi.proc_id() == 0

        # Only the first rank looks at the disk, but every rank must learn what it found there.
        headers = mpi.on_root(lambda: self._open(output_dir, output_fname, overwrite, keep_rows))
        if headers:
            self.first_row, self.log_headers = False, headers
        if self._is_root:
            self.log(f"Logging data to {self.output_file.name}")

    def _open(self, output_dir, output_fname, overwrite, keep_rows):
        """Prepare the directory and open the file of rows; returns the columns of kept rows."""
        headers = []
        try:
            if output_dir is None:
                output_dir = fresh_directory()
            elif not os.path.isdir(output_dir):
                os.makedirs(output_dir)
            elif keep_rows is not None:
                headers = trim_rows(os.path.join(output_dir, output_fname), keep_rows)
            elif holds_run(output_dir, output_fname):
                if not overwrite:
                    raise UserError(EXISTING_RUN.format(output_dir))
                remove_run(output_dir, output_fname)
            elif not self.quiet and {*os.listdir(output_dir)} - {LOCK, OUTPUT, REPLACED}:
                say(f"Warning: Log dir {output_dir} already exists! Storing info there anyway.")
            self.output_dir = os.path.abspath(output_dir)  # an environment may change directories
            mode = "wb" if keep_rows is None else "ab"
            # Unbuffered: what a full disk has not taken is kept here, and written later.
            rows = os.path.join(output_dir, output_fname)
            self.output_file = open(rows, mode, buffering=0)  # noqa: SIM115
        except OSError as error:
            raise UserError(
                f"Cannot write to the output directory {output_dir or error.filename} "
                f"({error.strerror}); choose another data_dir (output_dir)."
            ) from error
        weakref.finalize(self, self.output_file.close)
        return headers

    def log(self, msg: str, color: str = "green") -> None:
        """Print a message in colour (rank 0)."""
        if self._is_root and not self.quiet:
            say(colored(printable(msg), color, bold=True))

    def log_tabular(self, key: str, val: Any) -> None:
        """Set one value of the current row. The first row decides which columns there are.

        Raises:
            ValueError: The name or the value would break the table: a text with a tab or a line
                break, or an array of several numbers.
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
        """Print the current row as a table, append it to the file, and begin the next."""
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

    @property
    def all_written(self) -> bool:
        """Whether the file holds all rows: a disk that is full has them wait here (rank 0)."""
        return not self._unwritten

    def _write_rows(self):
        while self._unwritten:
            self._unwritten = self._unwritten[self.output_file.write(self._unwritten) :]

    def sync(self) -> None:
        """Make sure that all rows are on the disk (rank 0); raises OSError if they cannot be."""
        if self._is_root:
            self._write_rows()
            os.fsync(self.output_file.fileno())

    def save_config(self, config: dict[str, Any]) -> None:
        """Write the configuration to config.json, as a record, and print it.

        Values that JSON does not know are written by name (functions, classes) or by their
        attributes.
        """
        config = dict(convert_json(config))
        names = dict(exp_name=self.exp_name, preset=self.preset)
        config |= {key: name for key, name in names.items() if name is not None}
        if self._is_root:
            text = json.dumps(config, separators=(",", ":\t"), indent=4, sort_keys=True)
            self.log("Saving config:\n", color="cyan")
            if not self.quiet:  # in few lines, for the file has one for each
                shown = ", ".join(f"{key}={config[key]!r}" for key in sorted(config))
                say(fill(shown, 80, break_long_words=False, break_on_hyphens=False))
            with atomic_save(os.path.join(self.output_dir, "config.json")) as path:
                Path(path).write_text(text, encoding="utf-8")

    def setup_tf_saver(self, model: tf.Module) -> None:
        """Choose what `save_state` saves.

        Args:
            model: A `tf.Module` whose tf.functions are the ones to be called after loading, with
                an attribute `info`: a dict that goes into model_info.json; and, where the variables
                are to be read without the SavedModel, a method `arrays()`, which returns
                those of weights.npz by name.
        """
        self._model = model

    def save_state(self, state_dict: dict[str, Any], itr: int | None = None) -> bool:
        """Save the state of an experiment: `state_dict` in vars.pkl, the model in tf2_save/.

        A crash never leaves half a save: each is written beside its final name, then renamed.

        Args:
            state_dict: What to pickle, usually `{"env": env}`. If it cannot be pickled, a warning
                is printed and the previous vars.pkl stays.
            itr: None to replace the latest save, or a number that is put into the names
                (vars12.pkl, tf2_save12/) and so keeps this one.

        Returns:
            Whether the model was saved: a disk that is full does not end a training.
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
        except Exception as error:  # whatever an object may raise when it is pickled
            # It will not be any different in the next epochs.
            self.warn_once(
                f"could not pickle state_dict. ({kind_and_line(error)}) No new vars.pkl is written."
            )

    def _save_model(self, path):
        """Save the model; returns whether there was room."""
        import tensorflow as tf

        with self._disk_may_be_full(tf.errors.OpError):
            with atomic_save(path) as temporary:
                tf.saved_model.save(self._model, temporary)
                info = json.dumps(self._model.info, indent=4, sort_keys=True)
                Path(temporary, "model_info.json").write_text(info, encoding="utf-8")
                if hasattr(self._model, "arrays"):
                    np.savez(Path(temporary, "weights.npz"), **self._model.arrays())
            return True
        return False

    def warn_once(self, text: str, about: str | None = None) -> None:
        """Print a warning in red (rank 0), the first time that there is one about this.

        Args:
            text: What to print.
            about: What it is about; None for the text itself.
        """
        about = text if about is None else about
        if self._is_root and about not in self._warned:
            warn(text)
        self._warned.add(about)

    @contextmanager
    def _disk_may_be_full(self, *kinds):
        """Warn where the files of the run cannot be written, and go on: the training is worth more.

        Args:
            *kinds: Exceptions, beside OSError, that say so.
        """
        try:
            yield
        except (OSError, *kinds) as error:
            reason = getattr(error, "strerror", None) or getattr(error, "message", str(error))
            reason = reason.splitlines()[0][:200]  # TensorFlow's is long
            self.warn_once(
                f"cannot write to {self.output_dir} ({reason}). The training goes on, and it is "
                "tried again after each epoch.",
                about="output_dir",
            )


def check_logger_arguments(given: Mapping[str, Any]) -> None:
    """Raise UserError if a logger cannot be made with these arguments."""
    names = inspect.signature(Logger).parameters
    for name in given:
        if name not in names:
            raise UserError(
                f"{name!r} in logger_kwargs is not an argument of EpochLogger;"
                f"{did_you_mean(name, names)} it takes {', '.join(names)}."
            )
    output_dir = given.get("output_dir")
    if not (output_dir is None or isinstance(output_dir, str | os.PathLike)):
        raise UserError(f"output_dir is {output_dir!r} in logger_kwargs; it must be a path.")


class EpochLogger(Logger):
    """A Logger that also gathers values during an epoch and logs their statistics.

    The statistics are over all values stored since the last row, on all MPI ranks.

    Attributes:
        keep: Keys of which the values themselves are kept until the next row.
        kept: These values of all ranks, `[n]`, by key.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.epoch_dict = {}
        self.keep: tuple[str, ...] = ()
        self.kept: dict[str, np.ndarray] = {}

    def store(self, **kwargs: Any) -> None:
        """Add values to the statistics of this epoch.

        Each is a number or an array (NumPy, TensorFlow, list) of any shape, every element of which
        counts as one value. An empty one declares a key, so that it may be logged although nothing
        has happened yet that it could count, such as the end of an episode.
        """
        for key, value in kwargs.items():
            # A copy, because callers reuse their buffers.
            self.epoch_dict.setdefault(key, []).append(np.array(value, np.float64).ravel())

    def log_tabular(
        self, key: str, val: Any = None, with_min_and_max: bool = False, average_only: bool = False
    ) -> None:
        """Log `val`, or without it the statistics of everything stored under `key`.

        Under MPI the latter is a collective call: every rank makes it, with or without data of its
        own. If no rank has any, the columns stay blank.

        Args:
            key: Name of the column; of the columns Average<key>, Std<key>, Max<key> and Min<key>
                for statistics.
            val: Value of the column.
            with_min_and_max: Whether to log the largest and smallest value too.
            average_only: Whether to log the average only, under the bare name.
        """
        if val is not None:
            super().log_tabular(key, val)
            return
        values = self._values(key)
        if key in self.keep:
            self.kept[key] = np.concatenate(mpi.gather_objects(values))
        # NaN would not do to recognize "no data": it is also what a diverged loss looks like.
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
        """What has been stored since the last row; `store` takes it again."""
        return {key: self._values(key) for key in self.epoch_dict}

    def get_stats(self, key: str) -> tuple[np.float32, ...]:
        """The mean and standard deviation of what is stored under `key`, over all ranks.

        Nothing is cleared. NaN if there is no data.
        """
        return mpi.mpi_statistics_scalar(self._values(key))

    def _values(self, key):
        return np.concatenate([*self.epoch_dict[key], np.empty(0)])


def number_in(key: str, value: Any) -> Any:
    """The number in a tensor or an array; anything else is returned as it is.

    Raises:
        UserError: There are several; the message calls them `key`.
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
