"""What experiments and their directories are called."""

import os
import re
import time

import pytest
from spinup_tf2.files.lock import run_lock

from spinup_tf2 import user_config
from spinup_tf2.errors import UserError
from spinup_tf2.experiments import directories
from spinup_tf2.experiments.experiment import check_exp_name, set_runs_aside, setup_logger_kwargs


@pytest.mark.parametrize(
    ("seed", "datestamp", "expected"),
    [
        (None, False, "D/name"),
        (3, False, "D/name/name_s3"),
        (0, False, "D/name/name_s0"),
        (None, True, "D/2026-01-02_name"),
        (3, True, "D/2026-01-02_name/2026-01-02_03-04-05-name_s3"),
    ],
)
def test_setup_logger_kwargs(monkeypatch, seed, datestamp, expected):
    now = time.struct_time((2026, 1, 2, 3, 4, 5, 4, 2, 0))
    strftime = time.strftime
    monkeypatch.setattr(directories.time, "strftime", lambda form: strftime(form, now))
    kwargs = setup_logger_kwargs("name", seed, "D", datestamp)
    assert kwargs == {"output_dir": expected, "exp_name": "name"}


def test_user_config_has_the_defaults(monkeypatch):
    monkeypatch.setattr(user_config, "DEFAULT_DATA_DIR", "/D")
    assert setup_logger_kwargs("name")["output_dir"] == "/D/name"
    monkeypatch.setattr(user_config, "FORCE_DATESTAMP", True)
    assert re.fullmatch(r"/D/\d{4}-\d\d-\d\d_name", setup_logger_kwargs("name")["output_dir"])


@pytest.mark.parametrize(
    "exp_name",
    [
        *("", ".", "..", "a/b", "/a", "../a", "~", "~root", "-rf", "a\0b", "a\nb", "\x1b[2J"),
        *("\udcff", "a" * 224, "ä" * 112, 3, None, b"a"),
    ],
)
def test_an_experiment_needs_a_plain_name(exp_name, tmp_path):
    with pytest.raises(UserError, match="exp_name"):
        check_exp_name(exp_name)
    with pytest.raises(UserError, match="exp_name"):
        setup_logger_kwargs(exp_name, 0, tmp_path)


def test_a_name_that_fits_fits_with_date_and_seed(tmp_path):
    name = "ä" * 111 + "!"
    path = setup_logger_kwargs(name, 4294967295, tmp_path, datestamp=True)["output_dir"]
    os.makedirs(path)


def test_runs_are_set_aside_all_or_none(tmp_path, monkeypatch):
    rows = {str(tmp_path / "a"): "progress.txt", str(tmp_path / "b"): "rows.txt"}
    for folder, name in rows.items():
        os.mkdir(folder)
        for file in (name, "vars.pkl", "notes.md"):
            open(os.path.join(folder, file), "w").close()
    rows[str(tmp_path / "none")] = "progress.txt"

    def left():
        return {path.name: sorted(os.listdir(path)) for path in tmp_path.iterdir()}

    before = left()
    with run_lock(tmp_path / "b"), pytest.raises(UserError, match="b is being written to"):
        set_runs_aside(rows)
    assert left() == before
    with monkeypatch.context() as patch:
        error = PermissionError(13, "Permission denied", "vars.pkl")
        patch.setattr(os, "rename", lambda *_: (_ for _ in ()).throw(error))
        with pytest.raises(UserError, match=r"run in .*a cannot be moved \(Permission denied: va"):
            set_runs_aside(rows)
    set_runs_aside(rows)
    assert left() == dict(a=[".replaced", "notes.md"], b=[".replaced", "notes.md"])
    assert sorted(os.listdir(tmp_path / "b" / ".replaced")) == ["rows.txt", "vars.pkl"]


def test_a_seed_is_no_path(tmp_path):
    with pytest.raises(UserError, match=r"seed '/\.\./\.\./x'; it must be a plain name"):
        setup_logger_kwargs("name", "/../../x", tmp_path)
