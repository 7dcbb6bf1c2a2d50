"""Saves that survive a crash, and runs that others replace."""

import os
import subprocess
import sys

import pytest
from spinup_tf2.files import run_directory as run_files
from spinup_tf2.files.run_directory import (
    REPLACED,
    atomic_output,
    atomic_save,
    forget_replaced,
    holds_run,
    move_back,
    put_back,
    runs_in,
    set_aside,
)

from spinup_tf2.results.walking import walk


class Crash(Exception):
    pass


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_a_crash_while_saving_leaves_the_last_save(tmp_path, monkeypatch, kind):
    """The crash is before every single system call of a save that changes names."""
    path = tmp_path / "save"

    def save(content):
        with atomic_save(path) as temporary:
            if kind == "directory":
                os.mkdir(temporary)
                temporary = os.path.join(temporary, "file")
            with open(temporary, "w") as file:
                file.write(content)

    def complete_saves():
        names = [name for name in ("save", "save.old") if (tmp_path / name).exists()]
        files = [tmp_path / name / ("file" if kind == "directory" else "") for name in names]
        return [file.read_text() for file in files]

    save("first")
    survived = 0
    for crash_at in range(10):
        calls = iter(range(100))

        def crashing(function, calls=calls, crash_at=crash_at):
            def call(*args):
                if next(calls) == crash_at:
                    raise Crash
                return function(*args)

            return call

        with monkeypatch.context() as patch:
            for name in ("rename", "replace"):
                patch.setattr(run_files.os, name, crashing(getattr(os, name)))
            patch.setattr(run_files, "_remove", crashing(run_files._remove))
            try:
                save(f"crash {crash_at}")
            except Crash:
                survived += 1
        found = complete_saves()
        assert found, "no save survived"
        assert set(found) <= {"first", "again", f"crash {crash_at}"}
        save("again")
        assert complete_saves() == ["again"]
        assert os.listdir(tmp_path) == ["save"]
    assert survived >= 3


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_what_the_user_has_named_replaces_nothing_else(tmp_path, monkeypatch, kind):
    path = tmp_path / "policy"

    def save(content):
        with atomic_output(path) as temporary:
            assert os.path.basename(temporary) == "policy"
            if kind == "directory":
                os.mkdir(temporary)
                temporary = os.path.join(temporary, "file")
            with open(temporary, "w") as file:
                file.write(content)
            if content == "crash":
                raise Crash

    def saved():
        return (path / "file" if kind == "directory" else path).read_text()

    kept = ("policy.old", "policy.tmp")
    for name in kept:
        (tmp_path / name).mkdir()
        (tmp_path / name / "precious").touch()
    save("first")
    save("second")
    assert saved() == "second"
    with pytest.raises(Crash):
        save("crash")

    def refuse(source, target, rename=os.rename):
        if os.fspath(target) == str(path) and "new" in source:
            raise OSError("no")
        rename(source, target)

    for name in ("rename", "replace"):
        monkeypatch.setattr(run_files.os, name, refuse)
    with pytest.raises(OSError, match="no"):
        save("third")
    assert saved() == "second"
    assert sorted(os.listdir(tmp_path)) == ["policy", *kept]
    assert all((tmp_path / name / "precious").exists() for name in kept)


def test_leftovers_of_a_killed_process_are_cleaned(tmp_path):
    """A kill -9 in the middle of writing: no handler runs, and the next save still works."""
    save = (
        "import os, sys\n"
        "from spinup_tf2.files.run_directory import atomic_save\n"
        "with atomic_save(sys.argv[1]) as path:\n"
        "    os.mkdir(path)\n"
        "    open(path + '/half', 'w').close()\n"
        "    if sys.argv[2] == 'kill': os.kill(os.getpid(), 9)\n"
        "    os.rename(path + '/half', path + '/whole')\n"
    )
    path = tmp_path / "tf2_save"
    for what, names, left in (
        ("finish", ["whole"], ["tf2_save"]),
        ("kill", ["whole"], ["tf2_save", "tf2_save.tmp"]),
        ("finish", ["whole"], ["tf2_save"]),
    ):
        subprocess.run([sys.executable, "-c", save, str(path), what], check=False)
        assert os.listdir(path) == names
        assert sorted(os.listdir(tmp_path)) == left


RUN = {"checkpoint": "c", "config.json": "old", "progress.txt": "rows", "vars.pkl": "v"}


def read(folder):
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def crashing(monkeypatch, number, killed):
    """Let the rename of this number fail; and all that follow, if the process is killed then."""
    calls = []

    def rename(*args):
        calls.append(args)
        if len(calls) == number or (killed and len(calls) > number):
            raise Crash
        RENAME(*args)

    monkeypatch.setattr(os, "rename", rename)


RENAME = os.rename


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("crash", range(1, 6))
def test_a_crash_while_a_run_is_set_aside_loses_nothing(tmp_path, monkeypatch, crash, killed):
    """It is before each of the five renames, there and back."""
    for name, text in dict(RUN, notes="mine").items():
        (tmp_path / name).write_text(text)
    crashing(monkeypatch, crash, killed)
    with pytest.raises(Crash):
        set_aside(tmp_path, "progress.txt")
    if not killed:  # all is as before
        assert read(tmp_path) == dict(RUN, notes="mine")
    assert holds_run(tmp_path)  # nobody takes the directory for an empty one
    monkeypatch.setattr(os, "rename", RENAME)
    set_aside(tmp_path, "progress.txt")
    assert read(tmp_path) == dict(notes="mine")
    assert read(tmp_path / REPLACED) == RUN
    assert not (tmp_path / f"{REPLACED}.tmp").exists()

    crashing(monkeypatch, crash, killed)
    with pytest.raises(Crash):
        put_back(tmp_path, "progress.txt")
    assert holds_run(tmp_path) == (crash > 1)  # else it is all in `.replaced`
    monkeypatch.setattr(os, "rename", RENAME)
    move_back(tmp_path)
    put_back(tmp_path, "progress.txt")
    assert read(tmp_path) == dict(RUN, notes="mine")
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []


def test_a_run_that_has_begun_stays_whatever_is_left_of_the_old_one(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text("old")
    set_aside(tmp_path, "progress.txt")
    (tmp_path / "config.json").write_text("new")
    with monkeypatch.context() as patch:
        patch.setattr(run_files.shutil, "rmtree", lambda *_, **__: None)  # nothing can be removed
        forget_replaced(tmp_path)
    put_back(tmp_path, "progress.txt")
    assert read(tmp_path) == {"config.json": "new"}
    assert [names for root, _, names in walk(tmp_path)] == [["config.json"]]
    assert runs_in(tmp_path, "config.json") == ""
    forget_replaced(tmp_path)
    assert os.listdir(tmp_path) == ["config.json"]


def test_what_has_rows_has_begun(tmp_path):
    """Though it has not said so."""
    (tmp_path / "config.json").write_text("old")
    set_aside(tmp_path, "progress.txt")
    (tmp_path / "progress.txt").write_text("Epoch\n0\n")
    set_aside(tmp_path, "progress.txt")
    assert read(tmp_path / REPLACED) == {"progress.txt": "Epoch\n0\n"}


def test_what_has_not_begun_replaces_no_other_run(tmp_path):
    for name, text in RUN.items():
        (tmp_path / name).write_text(text)
    set_aside(tmp_path, "progress.txt")
    (tmp_path / "config.json").write_text("new")
    (tmp_path / "output.txt").write_text("why it has not begun")
    set_aside(tmp_path, "progress.txt")  # of the next one
    assert read(tmp_path) == {}
    assert read(tmp_path / REPLACED) == RUN
    (tmp_path / "config.json").write_text("newer")
    forget_replaced(tmp_path)
    put_back(tmp_path, "progress.txt")  # it has begun
    assert read(tmp_path) == {"config.json": "newer"}
