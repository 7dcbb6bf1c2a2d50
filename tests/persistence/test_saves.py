"""Which of a run's saves is taken, and what is said where there is none."""

import pytest

from spinup_tf2.errors import UserError
from spinup_tf2.files.saves import find_save


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
    with pytest.raises(UserError, match=r"There is no directory .*nowhere"):
        find_save(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"no trained agent.*give one of the runs in it: run\.$"):
        find_save(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"no trained agent.*nothing has been saved"):
        find_save(tmp_path / "empty")
