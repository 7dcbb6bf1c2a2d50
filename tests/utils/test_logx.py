"""The logger: Spinning Up's table and files byte for byte, statistics, and saves that survive."""

import errno
import json
import os
import subprocess
import sys

import joblib
import numpy as np
import pytest
import tensorflow as tf

from spinup_tf2.errors import UserError, reason_of
from spinup_tf2.files import run_directory as run_files
from spinup_tf2.files.logger import check_logger_arguments
from spinup_tf2.parallel import mpi
from spinup_tf2.utils.logx import EpochLogger, Logger
from tests.fake_mpi import run_ranks

pytestmark = pytest.mark.saved_model

TABLE = """\
---------------------------------------------
|                   Epoch |               0 |
|             AverageTest |             4.5 |
|                 StdTest |            2.87 |
|                 MaxTest |               9 |
|                 MinTest |               0 |
|                AverageV |               2 |
|                    StdV |             0.5 |
|                       S |               3 |
| AVeryVeryLongColumnName |        1.23e+04 |
|                     Str |             abc |
|                    Time |            1.23 |
---------------------------------------------
"""


def log_golden_row(logger):
    for i in range(10):
        logger.store(Test=i)
    logger.store(V=np.array([1.5, 2.5], np.float32), S=3.0)
    logger.log_tabular("Epoch", 0)
    logger.log_tabular("Test", with_min_and_max=True)
    logger.log_tabular("V")
    logger.log_tabular("S", average_only=True)
    logger.log_tabular("AVeryVeryLongColumnName", 12345)
    logger.log_tabular("Str", "abc")
    logger.log_tabular("Time", 1.23456789)
    logger.dump_tabular()


def rows(directory):
    """Header and rows of progress.txt, as lists of fields."""
    text = (directory / "progress.txt").read_text()
    return [line.split("\t") for line in text.splitlines()]


# ---------------------------------------------------------------- the table and its file


def test_table_and_file_byte_for_byte(tmp_path, capsys):
    logger = EpochLogger(output_dir=tmp_path / "run")
    assert capsys.readouterr().out == f"Logging data to {tmp_path}/run/progress.txt\n"
    log_golden_row(logger)
    assert capsys.readouterr().out == TABLE
    logger.log_tabular("Epoch", 3)
    logger.dump_tabular()
    assert (tmp_path / "run" / "progress.txt").read_bytes() == (
        b"Epoch\tAverageTest\tStdTest\tMaxTest\tMinTest\tAverageV\tStdV\tS\t"
        b"AVeryVeryLongColumnName\tStr\tTime\n"
        b"0\t4.5\t2.8722813\t9.0\t0.0\t2.0\t0.5\t3.0\t12345\tabc\t1.23456789\n"
        b"3\t\t\t\t\t\t\t\t\t\t\n"
    )


def test_misuse_is_explained(tmp_path):
    logger = EpochLogger(output_dir=tmp_path / "run", quiet=True)
    with pytest.raises(ValueError, match="no column was set"):
        logger.dump_tabular()
    with pytest.raises(KeyError, match="Nope"):
        logger.log_tabular("Nope")
    with pytest.raises(ValueError, match=r"'A'.*\(2,\).*store"):
        logger.log_tabular("A", np.zeros(2))
    for key, value in (("A\tB", 1), ("A", "a\nb")):
        with pytest.raises(ValueError, match="tab or line break"):
            logger.log_tabular(key, value)
    log_golden_row(logger)
    logger.log_tabular("Epoch", 1)
    with pytest.raises(AssertionError) as twice:
        logger.log_tabular("Epoch", 1)
    assert str(twice.value) == (
        "You already set Epoch this iteration. Maybe you forgot to call dump_tabular()"
    )
    with pytest.raises(AssertionError) as new:
        logger.log_tabular("New", 1)
    assert str(new.value) == (
        "Trying to introduce a new key New that you didn't include in the first iteration"
    )


# ---------------------------------------------------------------- statistics


def test_statistics_equal_numpy_for_values_of_any_shape(tmp_path):
    rng = np.random.default_rng(0)
    values = [rng.normal(size=shape).astype(np.float32) for shape in ((), (3,), (4, 1), (2, 3, 4))]
    logger = EpochLogger(output_dir=tmp_path / "run", quiet=True)
    for value in values:
        logger.store(X=value)
    everything = np.concatenate([value.ravel() for value in values])
    mean, std = logger.get_stats("X")
    np.testing.assert_allclose([mean, std], [everything.mean(), everything.std()], rtol=1e-6)
    logger.log_tabular("X", with_min_and_max=True)
    logged = list(logger.log_current_row.values())
    expected = [everything.mean(), everything.std(), everything.max(), everything.min()]
    np.testing.assert_allclose(logged, expected, rtol=1e-6)
    assert list(logger.log_current_row) == ["AverageX", "StdX", "MaxX", "MinX"]


def test_tensors_are_numbers(tmp_path):
    tf = pytest.importorskip("tensorflow")
    logger = EpochLogger(output_dir=tmp_path / "run", quiet=True)
    logger.store(Loss=tf.constant([[1.0], [2.0]]))
    logger.log_tabular("Loss", average_only=True)
    logger.log_tabular("Scalar", tf.constant(0.25))
    logger.log_tabular("Variable", tf.Variable(3))
    logger.log_tabular("Array", np.full((1, 1), 0.1, np.float32))
    logger.dump_tabular()
    assert rows(tmp_path / "run")[1] == ["1.5", "0.25", "3", "0.1"]


def test_an_epoch_without_data_is_blank_and_one_with_nan_is_not(tmp_path):
    logger = EpochLogger(output_dir=tmp_path / "run", quiet=True)
    logger.store(EpRet=[])
    for returns in ([], [2.0, 4.0], [], [np.nan]):
        logger.store(EpRet=returns)
        logger.log_tabular("EpRet", with_min_and_max=True)
        logger.dump_tabular()
    header, *values = rows(tmp_path / "run")
    assert header == ["AverageEpRet", "StdEpRet", "MaxEpRet", "MinEpRet"]
    assert values == [[""] * 4, ["3.0", "1.0", "4.0", "2.0"], [""] * 4, ["nan"] * 4]


def test_statistics_are_over_all_ranks_with_and_without_data(tmp_path, capsys):
    """Rank 2 never finishes an episode; in the second epoch nobody does."""

    def train():
        logger = EpochLogger(output_dir=tmp_path / "run")
        rank = mpi.proc_id()
        logger.store(EpRet=[])
        for epoch in range(3):
            if rank != 2 and epoch != 1:
                logger.store(EpRet=np.full(rank + 1, 10.0 * rank))
            logger.log_tabular("EpRet", with_min_and_max=True)
            logger.dump_tabular()
        return logger.output_dir, logger.output_file is None

    root, *others = run_ranks(3, train)
    assert root == (str(tmp_path / "run"), False)
    assert others == [(None, True)] * 2
    # Rank 0 has one 0, rank 1 has two 10s: mean 20/3, std sqrt(200/3 - 400/9).
    std = str(np.float32(np.sqrt(200 / 9)))
    some = [str(np.float32(20 / 3)), std, "10.0", "0.0"]
    assert rows(tmp_path / "run")[1:] == [some, [""] * 4, some]
    assert capsys.readouterr().out.count("AverageEpRet") == 3  # rank 0 alone prints


# ---------------------------------------------------------------- configuration


def test_config_byte_for_byte(tmp_path, capsys):
    config = {"a": 1, "f": len, "c": dict, "lam": None, "nest": {"x": (1, 2)}}
    logger = Logger(output_dir=tmp_path / "run", exp_name="e")
    capsys.readouterr()
    logger.save_config(config)
    text = (
        '{\n    "a":\t1,\n    "c":\t"dict",\n    "exp_name":\t"e",\n    "f":\t"len",\n'
        '    "lam":\tnull,\n    "nest":\t{\n        "x":\t[\n            1,\n            2\n'
        "        ]\n    }\n}"
    )
    assert (tmp_path / "run" / "config.json").read_text() == text
    shown = "a=1, c='dict', exp_name='e', f='len', lam=None, nest={'x': (1, 2)}"
    assert capsys.readouterr().out == f"Saving config:\n\n{shown}\n"


# ---------------------------------------------------------------- the directory


def test_default_directories_are_fresh_and_temporary(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first, second = (EpochLogger(quiet=True).output_dir for _ in range(2))
    assert first != second
    assert {os.path.dirname(first), os.path.dirname(second)} == {str(tmp_path)}


@pytest.mark.parametrize("name", ["progress.txt", "config.json", "other.txt"])
def test_a_run_is_not_overwritten_without_a_word(tmp_path, name):
    (tmp_path / name).write_text("precious")
    with pytest.raises(UserError, match=r"already holds a run.*--overwrite"):
        Logger(output_dir=tmp_path, output_fname="other.txt")
    assert (tmp_path / name).read_text() == "precious"


def test_overwrite_removes_the_files_of_a_run_and_no_others(tmp_path):
    of_a_run = ["config.json", "env_spec.json", "vars.pkl", "vars12.pkl", "vars.pkl.tmp"]
    of_a_run += ["output.txt", "progress.txt.cut"]
    others = ["notes.md", "vars_of_mine.pkl", "tf2_save.txt", "config.json.bak"]
    for name in of_a_run + others:
        (tmp_path / name).write_text("x")
    folders = ["tf2_save", "tf2_save12", "tf2_save3.old", "checkpoint"]
    folders += ["videos", "tensorboard", "wandb"]
    for name in [*folders, "videos_of_mine"]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("x")
    (tmp_path / "progress.txt").write_text("x")
    Logger(output_dir=tmp_path, overwrite=True, quiet=True)
    assert sorted(os.listdir(tmp_path)) == sorted([*others, "progress.txt", "videos_of_mine"])
    assert (tmp_path / "progress.txt").read_text() == ""


def test_overwrite_leaves_the_file_that_this_run_prints_to(tmp_path, monkeypatch):
    (tmp_path / "progress.txt").write_text("x")
    (tmp_path / "output.txt").write_text("of this run")
    monkeypatch.setenv("SPINUP_TF2_OUTPUT", str(tmp_path / "output.txt"))
    Logger(output_dir=tmp_path, overwrite=True, quiet=True)
    assert (tmp_path / "output.txt").read_text() == "of this run"


# ---------------------------------------------------------------- saving


def test_what_cannot_be_pickled_is_a_warning_and_the_last_save_stays(tmp_path, capsys):
    logger = Logger(output_dir=tmp_path / "run", quiet=True)
    logger.save_state({"env": 1})
    logger.save_state({"env": lambda: 0})
    assert capsys.readouterr().out.startswith("Warning: could not pickle state_dict.")
    assert joblib.load(tmp_path / "run" / "vars.pkl") == {"env": 1}
    assert sorted(os.listdir(tmp_path / "run")) == ["progress.txt", "vars.pkl"]
    (tmp_path / "run" / "env_spec.json").touch()  # describes the environment: nothing is lost
    logger = Logger(output_dir=tmp_path / "run", quiet=True, overwrite=False, keep_rows=0)
    logger.save_state({"env": lambda: 0})
    assert capsys.readouterr().out == ""


def test_only_rank_0_saves(tmp_path):
    def save():
        logger = Logger(output_dir=tmp_path / "run", quiet=True)
        logger.save_state({"rank": mpi.proc_id()})
        logger.save_config({})

    run_ranks(2, save)
    assert joblib.load(tmp_path / "run" / "vars.pkl") == {"rank": 0}


def test_the_model_is_saved_and_replaced(tmp_path):
    tf = pytest.importorskip("tensorflow")

    class Model(tf.Module):
        def __init__(self):
            super().__init__()
            self.weight = tf.Variable(1.0)
            self.info = {"algo": "test"}

        @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
        def act(self, obs):
            return self.weight * obs

    model = Model()
    logger = Logger(output_dir=tmp_path / "run", quiet=True)
    logger.setup_tf_saver(model)
    for weight in (1.0, 2.0):
        model.weight.assign(weight)
        logger.save_state({}, None)
    logger.save_state({}, 7)
    for name in ("tf2_save", "tf2_save7"):
        loaded = tf.saved_model.load(str(tmp_path / "run" / name))
        assert loaded.act(tf.constant(3.0)).numpy() == 6.0
        info = json.loads((tmp_path / "run" / name / "model_info.json").read_text())
        assert info == {"algo": "test"}
    assert not list((tmp_path / "run").glob("*.tmp")) + list((tmp_path / "run").glob("*.old"))


def test_the_logger_does_not_load_tensorflow():
    code = "import sys, spinup_tf2.utils.logx; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---------------------------------------------------------------- runs that go on


def log_rows(logger, first, end):
    for epoch in range(first, end):
        logger.log_tabular("Epoch", epoch)
        logger.log_tabular("Value", epoch / 3)
        logger.dump_tabular()


def test_a_resumed_logger_writes_what_one_that_never_stopped_writes(tmp_path):
    """Rows that came after the checkpoint, and half a row, are dropped."""
    log_rows(EpochLogger(output_dir=tmp_path / "whole", quiet=True), 0, 6)
    expected = (tmp_path / "whole" / "progress.txt").read_bytes()
    for kept in range(5):
        path = tmp_path / str(kept)
        log_rows(EpochLogger(output_dir=path, quiet=True), 0, 5)
        with open(path / "progress.txt", "ab") as file:
            file.write(b"5\t1.66")
        logger = EpochLogger(output_dir=path, quiet=True, keep_rows=kept)
        assert logger.first_row == (kept == 0)
        log_rows(logger, kept, 6)
        assert (path / "progress.txt").read_bytes() == expected
        aside = [line.split(b"\t")[0] for line in (path / "progress.txt.cut").read_bytes().split()]
        assert aside[::2] == [b"Epoch", *(b"%d" % epoch for epoch in range(kept, 5))]


def test_what_an_editor_does_to_a_file_does_no_harm(tmp_path):
    log_rows(EpochLogger(output_dir=tmp_path, quiet=True), 0, 3)
    expected = (tmp_path / "progress.txt").read_bytes()
    edited = b"\xef\xbb\xbf" + expected.replace(b"\n", b"\r\n")  # a byte order mark
    (tmp_path / "progress.txt").write_bytes(edited)
    logger = EpochLogger(output_dir=tmp_path, quiet=True, keep_rows=2)
    assert logger.log_headers == ["Epoch", "Value"]
    log_rows(logger, 2, 3)
    assert (tmp_path / "progress.txt").read_bytes() == expected


@pytest.mark.parametrize("separator", "\x0b\u2028\udc80")
def test_rows_end_at_line_feeds_alone(tmp_path, separator):
    lines = [f"{a}\t{separator}{b}\n" for a, b in ("XY", "AB", "CD")]
    header, *rows = (line.encode(errors="surrogateescape") for line in lines)
    path = tmp_path / "progress.txt"
    path.write_bytes(header + b"".join(rows))
    assert run_files.holds_rows(tmp_path)
    assert run_files.trim_rows(path, 1) == ["X", f"{separator}Y"]
    assert path.read_bytes() == header + rows[0]
    assert (tmp_path / "progress.txt.cut").read_bytes() == header + rows[1]


def test_missing_rows_are_said(tmp_path, capsys):
    log_rows(EpochLogger(output_dir=tmp_path, quiet=True), 0, 2)
    EpochLogger(output_dir=tmp_path, quiet=True, keep_rows=3)
    assert "has 2 complete rows, and the checkpoint was made after 3" in capsys.readouterr().out
    assert len(rows(tmp_path)) == 3
    (tmp_path / "progress.txt").unlink()
    logger = EpochLogger(output_dir=tmp_path, quiet=True, keep_rows=3)
    assert "has 0 complete rows, and the checkpoint was made after 3" in capsys.readouterr().out
    log_rows(logger, 3, 4)
    assert rows(tmp_path) == [["Epoch", "Value"], ["3", "1.0"]]


class SmallDisk:
    """A file on a disk with room for so many bytes."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def write(self, data):
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = self.file.write(data[: self.room])
        self.room -= taken
        return taken

    def fileno(self):
        return self.file.fileno()


@pytest.mark.parametrize("room", [0, 5, 20])
def test_rows_wait_until_there_is_room(tmp_path, capsys, room):
    """The disk takes `room` bytes, which may end in the middle of a row, and then no more."""
    log_rows(EpochLogger(output_dir=tmp_path / "whole", quiet=True), 0, 6)
    logger = EpochLogger(output_dir=tmp_path / "run", quiet=True)
    logger.output_file = disk = SmallDisk(logger.output_file, room)
    log_rows(logger, 0, 5)
    with pytest.raises(OSError, match="No space left on device"):
        logger.sync()
    disk.room = 10_000
    log_rows(logger, 5, 6)
    logger.sync()
    warnings = capsys.readouterr().out
    assert warnings.count("Warning") == 1
    assert f"cannot write to {tmp_path}/run (No space left on device)" in warnings
    files = [tmp_path / name / "progress.txt" for name in ("whole", "run")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_one_warning_about_one_thing(tmp_path, capsys):
    logger = EpochLogger(output_dir=tmp_path, quiet=True)
    for text, about in (("a", "x"), ("b", "x"), ("c", None), ("c", None), ("d", None)):
        logger.warn_once(text, about)
    assert capsys.readouterr().out.splitlines() == ["Warning: a", "Warning: c", "Warning: d"]


def test_what_is_stored_can_be_stored_again(tmp_path):
    logger, other = (EpochLogger(output_dir=tmp_path / name, quiet=True) for name in "ab")
    for x in (1, [2.5, 3], [], np.float32(0.1)):
        logger.store(X=x, Empty=[])
    other.store(**logger.stored())
    for each in (logger, other):
        each.log_tabular("X", with_min_and_max=True)
        each.log_tabular("Empty")
        each.dump_tabular()
    assert rows(tmp_path / "a") == rows(tmp_path / "b")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "x"), "No space left on device"),
        (
            tf.errors.ResourceExhaustedError(
                None, None, "{{node __wrapped__SaveV2}} /a b/x; No space left on device [Op:SaveV2]"
            ),
            "No space left on device",
        ),
    ],
)
def test_the_reason_is_the_systems(error, reason):
    assert reason_of(error) == reason


@pytest.mark.parametrize("name", ["config.json", "../x.txt", "a/b", "", "..", ".lock", "x\n", None])
def test_names_for_the_file_of_rows_that_are_refused(tmp_path, name):
    with pytest.raises(UserError, match="output_fname is"):
        EpochLogger(tmp_path / "run", name, quiet=True)
    with pytest.raises(UserError, match="output_fname is"):
        check_logger_arguments(dict(output_fname=name))
    assert not any(tmp_path.iterdir())
