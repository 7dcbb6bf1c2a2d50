"""Text files of a run, whoever wrote them."""

import os

import pytest

from spinup_tf2.errors import UserError
from spinup_tf2.files.disk import read_json, read_text


def test_text_is_read(tmp_path):
    path = tmp_path / "file"
    path.write_text("für dich\n", encoding="utf-8")
    assert read_text(path) == "für dich\n"
    link = tmp_path / "link"
    link.symlink_to(path)
    assert read_text(link) == "für dich\n"
    with pytest.raises(FileNotFoundError):
        read_text(tmp_path / "nothing")
    with pytest.raises(UserError, match="is not a file"):
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
