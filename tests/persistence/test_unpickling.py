"""Which files of this user's own are unpickled."""

import os
import pickle

import pytest
import tensorflow as tf
from spinup_tf2.files.unpickling import load_private, load_saved_model

from spinup_tf2.errors import UserError


@pytest.fixture
def path(tmp_path):
    folder = tmp_path / "private"
    folder.mkdir(mode=0o700)
    (folder / "object.pkl").write_bytes(pickle.dumps({"a": 1}))
    return folder / "object.pkl"


def test_a_savedmodel_may_lie_in_a_directory_with_brackets(tmp_path):
    model = tf.Module()
    model.weight = tf.Variable(2.0)
    model.double = tf.function(lambda x: x * model.weight, [tf.TensorSpec([])])
    tf.saved_model.save(model, str(tmp_path / "exp[1]"))
    assert load_saved_model(tmp_path / "exp[1]").double(3.0) == 6


def test_a_private_file_is_loaded(path):
    assert load_private(path) == {"a": 1}


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o707, 0o701, 0o755, 0o1777])
def test_a_folder_that_others_may_enter_is_refused(path, mode):
    path.parent.chmod(mode)
    with pytest.raises(UserError, match=r"others may enter it .*chmod 700"):
        load_private(path)


def test_links_and_pipes_are_refused(path):
    link = path.with_name("link.pkl")
    link.symlink_to(path)
    with pytest.raises(OSError, match="symbolic link"):
        load_private(link)
    pipe = path.with_name("pipe.pkl")
    os.mkfifo(pipe)
    with pytest.raises(UserError, match="not a file of user"):
        load_private(pipe)


@pytest.mark.parametrize("which", ["file", "folder"])
def test_what_belongs_to_somebody_else_is_refused(path, which, monkeypatch):
    if os.geteuid() == 0:
        os.chown(path if which == "file" else path.parent, 12345, -1)
    else:  # pretend to be the other one
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(UserError, match="12345"):
        load_private(path)
