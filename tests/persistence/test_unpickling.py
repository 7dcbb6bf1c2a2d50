"""Which files of this user's own are unpickled."""

import os
import pickle

import pytest

from spinup_tf2.errors import UserError
from spinup_tf2.files.unpickling import load_private


@pytest.fixture
def path(tmp_path):
    folder = tmp_path / "private"
    folder.mkdir(mode=0o700)
    (folder / "object.pkl").write_bytes(pickle.dumps({"a": 1}))
    return folder / "object.pkl"


def test_a_private_file_is_loaded(path):
    assert load_private(path) == {"a": 1}


@pytest.mark.parametrize("mode", [0o770, 0o701, 0o1777])
def test_a_folder_that_others_may_enter_is_refused(path, mode):
    path.parent.chmod(mode)
    with pytest.raises(UserError, match=r"is not loaded.*chmod 700"):
        load_private(path)


def test_links_and_pipes_are_refused(path):
    link = path.with_name("link.pkl")
    link.symlink_to(path)
    with pytest.raises(OSError, match="symbolic link"):
        load_private(link)
    pipe = path.with_name("pipe.pkl")
    os.mkfifo(pipe)
    with pytest.raises(UserError, match="is not loaded"):
        load_private(pipe)


@pytest.mark.parametrize("which", ["file", "folder"])
def test_what_belongs_to_somebody_else_is_refused(path, which, monkeypatch):
    if os.geteuid() == 0:
        os.chown(path if which == "file" else path.parent, 12345, -1)
    else:  # pretend to be the other one
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(UserError, match="is not loaded"):
        load_private(path)
