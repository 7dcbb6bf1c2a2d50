"""Saves that survive a crash, and runs that others replace."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spinup_tf2.errors import UserError
from spinup_tf2.files import disk
from spinup_tf2.files.disk import atomic_output, atomic_save
from spinup_tf2.files.run_directory import holds_run, runs_in, set_aside
from spinup_tf2.results.datasets import walk


class Crash(Exception):
    pass


def write(path, content, kind):
    """Write a file, or a directory with a file."""
    if kind == "directory":
        os.mkdir(path)
        path = os.path.join(path, "file")
    Path(path).write_text(content)


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_a_crash_while_saving_leaves_the_last_save(tmp_path, monkeypatch, kind):
    """The crash is before every single system call of a save that changes names."""
    path = tmp_path / "save"

    def save(content):
        with atomic_save(path) as temporary:
            write(temporary, content, kind)

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
                patch.setattr(disk.os, name, crashing(getattr(os, name)))
            patch.setattr(disk, "remove", crashing(disk.remove))
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
            write(temporary, content, kind)
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
        monkeypatch.setattr(disk.os, name, refuse)
    with pytest.raises(UserError, match=r"Cannot write to .*policy: no\."):
        save("third")
    assert saved() == "second"
    assert sorted(os.listdir(tmp_path)) == ["policy", *kept]
    assert all((tmp_path / name / "precious").exists() for name in kept)


def test_leftovers_of_a_killed_process_are_cleaned(tmp_path):
    """A kill -9 in the middle of writing: no handler runs, and the next save still works."""
    save = (
        "import os, sys\n"
        "from spinup_tf2.files.disk import atomic_save\n"
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


RUN = {"config.json": "{}", "progress.txt": "Epoch\n0\n", "vars.pkl": "v"}


def read(folder):
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def test_a_run_that_is_set_aside_lies_beside_its_directory(tmp_path):
    """As often as you like; what is not the run's own stays."""
    run_dir, asides = tmp_path / "run", []
    run_dir.mkdir()
    (run_dir / "notes").write_text("mine")
    for number in range(3):
        for name, text in RUN.items():
            (run_dir / name).write_text(f"{text}{number}")
        (run_dir / "checkpoint").mkdir()
        asides.append(set_aside(run_dir, "progress.txt"))
        assert read(run_dir) == dict(notes="mine")
        assert not holds_run(run_dir)
    for number, aside in enumerate(asides):
        assert os.path.basename(aside).startswith("run.old-")
        assert read(Path(aside)) == {name: f"{text}{number}" for name, text in RUN.items()}
    assert [names for _, _, names in walk(tmp_path)] == [[], ["notes"]]
    assert runs_in(tmp_path, "config.json") == ""


def test_a_run_that_cannot_be_moved_says_where_it_is(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text("{}")

    def rename(*_):
        raise OSError(13, "Permission denied", "config.json")

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(UserError, match=r"cannot be moved to .*\.old-.* \(Permission denied"):
        set_aside(tmp_path, "progress.txt")
    assert read(tmp_path) == {"config.json": "{}"}
