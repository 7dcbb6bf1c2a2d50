"""Text files of a run, whoever wrote them."""

import os
import sys

import pytest

from spinup_tf2.errors import UserError
from spinup_tf2.utils.reading import forget_current_directory, read_json, read_text


def test_text_is_read(tmp_path):
    path = tmp_path / "file"
    path.write_text("für dich\n", encoding="utf-8")
    assert read_text(path) == "für dich\n"
    link = tmp_path / "link"
    link.symlink_to(path)
    assert read_text(link) == "für dich\n"
    with pytest.raises(FileNotFoundError):
        read_text(tmp_path / "nothing")
    with pytest.raises(IsADirectoryError):
        read_text(tmp_path)


def test_what_is_no_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name in ("pipe", "endless"):
        with pytest.raises(UserError, match="is not a file"):
            read_text(tmp_path / name)


def test_sizes_and_encodings_have_limits(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 11)
    assert len(read_text(path, limit=11)) == 11
    with pytest.raises(UserError, match="larger than 10 bytes"):
        read_text(path, limit=10)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="is not text"):
        read_text(path)


@pytest.mark.parametrize("text", ["", "{", "[" * 10**6, "9" * 10**5, '{"a": 1,}'])
def test_what_is_no_json_is_refused(tmp_path, text):
    path = tmp_path / "file.json"
    path.write_text(text)
    with pytest.raises(UserError, match="not readable as JSON"):
        read_json(path)


def test_the_current_directory_is_forgotten_if_it_is_what_is_read(tmp_path, monkeypatch):
    run, other = tmp_path / "run", tmp_path / "other"
    for path in (run, other):
        path.mkdir()
    paths = ["", str(run), str(other)]
    for directory, remaining in ((other, paths), (run, paths[2:]), (tmp_path, paths[2:])):
        monkeypatch.setattr(sys, "path", [*paths])
        monkeypatch.chdir(run)
        forget_current_directory(directory)
        assert sys.path == remaining
