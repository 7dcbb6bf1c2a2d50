"""Which of a run's saves is taken, and what is said where there is none."""

import shutil

import pytest
from spinup_tf2.files.saves import find_save

from spinup_tf2.errors import UserError


@pytest.fixture
def run(tmp_path):
    """The directory of a run with two numbered saves; the policies in them are empty."""
    directory = tmp_path / "run"
    for name in ("tf2_save", "tf2_save9", "tf2_save10"):
        (directory / name).mkdir(parents=True)
    return directory


def test_last_is_the_highest_number_or_else_the_save_without_one(run):
    assert find_save(run) == find_save(run, -1) == str(run / "tf2_save10")
    assert find_save(run, 9) == str(run / "tf2_save9")
    for name in ("tf2_save9", "tf2_save10"):
        (run / name).rmdir()
    assert find_save(run) == str(run / "tf2_save")


def test_the_save_that_a_crash_left(run):
    """Between the two renames of a save there is only the old one, and maybe a half-written one."""
    (run / "tf2_save11.tmp").mkdir()
    (run / "tf2_save10").rename(run / "tf2_save10.old")
    assert find_save(run) == str(run / "tf2_save10.old")
    (run / "tf2_save10").mkdir()
    assert find_save(run) == str(run / "tf2_save10")


def test_what_is_not_there_is_named(run, tmp_path):
    with pytest.raises(UserError, match=r"no save with itr 3; there is 9, 10\.$"):
        find_save(run, 3)
    with pytest.raises(UserError, match=r"needs to be int or 'last'\): '3'"):
        find_save(run, "3")
    with pytest.raises(UserError, match=r"There is no directory .*nowhere"):
        find_save(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"no trained agent.*give one of the runs in it: run\.$"):
        find_save(tmp_path)
    (run / "tf2_save10" / "saved_model.pb").touch()
    with pytest.raises(UserError, match=rf"is a save itself: give the run .*, {run}\.$"):
        find_save(run / "tf2_save10")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"no trained agent.*nothing has been saved"):
        find_save(tmp_path / "empty")
    (tmp_path / "empty" / "progress.txt").touch()
    with pytest.raises(UserError, match=r"no trained agent.*its training has not saved one yet"):
        find_save(tmp_path / "empty")
    (tmp_path / "empty" / "pyt_save").mkdir()
    with pytest.raises(UserError, match=r"pyt_save was written by the original Spinning Up"):
        find_save(tmp_path / "empty")
    shutil.rmtree(run / "tf2_save9")
    shutil.rmtree(run / "tf2_save10")
    with pytest.raises(UserError, match=r"no save with itr 0; its only save has no number"):
        find_save(run, 0)
