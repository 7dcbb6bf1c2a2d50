"""Checkpoints on disk: complete or not there, whatever happens while they are written."""

import errno
import json
import shutil

import numpy as np
import pytest

from spinup_tf2.errors import UserError
from spinup_tf2.parallel.mpi import proc_id
from spinup_tf2.training import checkpoints as checkpoint
from spinup_tf2.training.checkpoints import (
    Checkpoints,
    DamagedCheckpoint,
    NewSteps,
    numbered,
    read_ranks,
    read_steps,
)
from tests.fake_mpi import run_ranks

RUN = dict(algorithm="ppo", num_envs=1)
STEPS = 10  # of the environment, between two checkpoints


def arrays(number, rank=0):
    state = np.array(json.dumps(dict(state=number)))
    found = {"env0/ret": np.float64(number), "env0/generator": state, "rank": np.array(rank)}
    return found | {"best/0": np.full(4, number, np.float32), "best/1": np.int64([number])}


def counters(number):
    return dict(epoch=number, step=0)


def save(checkpoints, number, size=25, **kwargs):
    """Write the checkpoint `number` of a run whose buffer holds the last `size` steps."""
    end, oldest = number * STEPS, max(0, number * STEPS - size)
    first = max(end - STEPS, oldest)
    checkpoints.save(
        RUN,
        counters(number),
        arrays(number, proc_id()),
        NewSteps({"env0/rew": np.arange(first, end)}, first, end, oldest) if number else None,
        **kwargs,
    )


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def three(tmp_path):
    """A directory with the checkpoints 2 and 3 of three."""
    checkpoints = Checkpoints(tmp_path)
    for number in (1, 2, 3):
        save(checkpoints, number)
    return tmp_path


def assert_is(saved, number):
    """A checkpoint that was found holds what was saved under this number."""
    assert (saved.run, saved.counters) == (RUN, counters(number))
    (own,) = read_ranks(saved)
    assert own.keys() == arrays(number).keys()
    assert [each.dtype for each in numbered(own, "best/")] == [np.float32, np.int64]
    for name, x in arrays(number).items():
        np.testing.assert_array_equal(own[name], x)
    steps = [step for _, each in read_steps(saved, lambda name: True) for step in each["env0/rew"]]
    assert steps[-min(25, number * STEPS) :] == [
        *range(max(0, number * STEPS - 25), number * STEPS)
    ]


# ---------------------------------------------------------------------------------- what is kept


def test_what_is_saved_comes_back(three):
    assert_is(Checkpoints(three).newest(), 3)


def copy(path):
    shutil.copytree(path.with_name("000002"), path)


def folder(path):
    path.mkdir()
    (path / "mine.txt").write_text("mine")


def file(path):
    path.write_text("mine")


def link(path):
    folder(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


@pytest.mark.parametrize("put", [copy, folder, file, link])
@pytest.mark.parametrize(
    "name",
    [
        *("20261127", "999999", "000004", "000000", "٠٠٠٠٠٤"),
        *("000004.tmp", "261127.tmp", "replay/261127-rank0.npz"),
    ],
)
def test_what_somebody_else_has_put_there_is_neither_used_nor_removed(three, capsys, name, put):
    root = three / "checkpoint"
    if put is copy and name.startswith(("000004.tmp", "replay")):
        pytest.skip("what a crash leaves looks like this")
    put(root / name if put is not copy or "/" not in name else root)
    (root / "000002/mine.txt").write_text("mine")
    theirs = {path: path.is_file() and path.read_bytes() for path in root.rglob("*")}
    theirs = {path: data for path, data in theirs.items() if "mine" in f"{data}{path}"}
    theirs |= {path: path.read_bytes() for path in (root / name).glob("*.npz")}
    saved = Checkpoints(three).newest()
    assert_is(saved, 3)
    assert capsys.readouterr().out == ""
    checkpoints = Checkpoints(three, saved=saved)
    for number in (4, 5, 6):
        save(checkpoints, number)
    assert_is(Checkpoints(three).newest(), 6)
    assert Checkpoints(three).describe()["epochs_done"] == 6
    assert theirs == {path: path.is_file() and path.read_bytes() for path in theirs}
    assert len([*Checkpoints(three)._contents()]) == 2


def test_steps_that_somebody_has_removed_are_missed(three):
    checkpoints = Checkpoints(three, saved=Checkpoints(three).newest())
    assert checkpoints.has_steps()
    shutil.rmtree(three / "checkpoint")
    assert not checkpoints.has_steps()
    checkpoints.save(
        RUN, counters(4), arrays(4), NewSteps({"env0/rew": np.arange(15, 40)}, 15, 40, 15)
    )
    assert_is(Checkpoints(three).newest(), 4)


def test_a_run_without_checkpoints(tmp_path):
    assert Checkpoints(tmp_path).newest() is None
    assert Checkpoints(tmp_path / "nowhere").newest() is None
    assert Checkpoints(tmp_path).describe() is None


@pytest.mark.parametrize("keep", [1, 2, 5])
def test_the_newest_are_kept_and_the_steps_that_they_need(tmp_path, keep):
    checkpoints = Checkpoints(tmp_path, keep)
    for number in range(1, 8):
        save(checkpoints, number)
        kept = range(max(1, number - keep + 1), number + 1)
        assert names(tmp_path / "checkpoint") == [*(f"{n:06d}" for n in kept), "replay"]
        # 25 steps are in the last three files of ten: those of the oldest one that is kept, too.
        needed = range(max(1, kept[0] - 2), number + 1)
        assert names(tmp_path / "checkpoint/replay") == [f"{n:06d}-rank0.npz" for n in needed]
        assert_is(Checkpoints(tmp_path).newest(), number)


def test_a_resumed_run_goes_on_with_the_same_steps(three):
    saved = Checkpoints(three).newest()
    save(Checkpoints(three, saved=saved), 4)
    assert_is(Checkpoints(three).newest(), 4)


def test_without_replay_buffer_there_are_no_steps(tmp_path):
    Checkpoints(tmp_path).save(RUN, counters(0), arrays(0))
    assert read_steps(Checkpoints(tmp_path).newest(), lambda name: True) == []
    assert names(tmp_path / "checkpoint/replay") == []


# ---------------------------------------------------------------------------------- damage


def truncated(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flipped(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def empty(path):
    path.write_bytes(b"")


def missing(path):
    path.unlink()


def longer(path):
    path.write_bytes(path.read_bytes() + b"\0")


def linked(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def turned_into_a_directory(path):
    path.unlink()
    path.mkdir()


DAMAGES = [truncated, flipped, empty, missing, longer, linked, turned_into_a_directory]
FILES = ["manifest.json", "rank0.npz", "../replay/000003-rank0.npz"]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", FILES)
def test_a_damaged_one_falls_back_to_the_one_before(three, capsys, file, damage):
    damage(three / "checkpoint/000003" / file)
    saved = Checkpoints(three).newest()
    assert_is(saved, 2)
    warning = capsys.readouterr().out
    if (file, damage) != ("manifest.json", missing):  # without one it is no checkpoint
        assert f"Warning: {three}/checkpoint/000003 is damaged: " in warning
        assert warning.count("Warning") == 1
    # The run goes on from there, and writes the third anew.
    save(Checkpoints(three, saved=saved), 3)
    assert_is(Checkpoints(three).newest(), 3)


@pytest.mark.parametrize("file", FILES)
def test_without_a_complete_one_nothing_can_be_resumed(three, file):
    for number in (2, 3):
        path = three / f"checkpoint/{number:06d}" / file.replace("000003", f"{number:06d}")
        flipped(path)
    before = sorted((three / "checkpoint").rglob("*"))
    with pytest.raises(UserError, match=r"000003 is damaged.*000002 is damaged.*--overwrite"):
        Checkpoints(three).newest()
    assert sorted((three / "checkpoint").rglob("*")) == before  # it may be of use to somebody


def rewrite(path, **changes):
    """Change a manifest as its writer could have written it."""
    content = json.loads(path.read_text()) | changes
    content = {name: x for name, x in content.items() if x is not None and name != "sha256"}
    path.write_text(json.dumps(dict(content, sha256=checkpoint.digest_of(content))))


def test_another_format_is_not_touched(three):
    """A later version's checkpoint is no garbage."""
    rewrite(three / "checkpoint/000003/manifest.json", format=3)
    before = sorted((three / "checkpoint").rglob("*"))
    with pytest.raises(UserError, match=r"000003 is of format 3.*reads 2"):
        Checkpoints(three).newest()
    with pytest.raises(UserError, match=r"000003 is of format 3.*reads 2"):
        Checkpoints(three).describe()
    assert sorted((three / "checkpoint").rglob("*")) == before


@pytest.mark.parametrize("name", ["../../x.npz", "/etc/passwd", "rank0.npy"])
def test_names_lead_nowhere_else(three, name):
    manifest = three / "checkpoint/000003/manifest.json"
    files = json.loads(manifest.read_text())["files"]
    rewrite(manifest, files=files | {name: files["rank0.npz"]})
    with pytest.raises(DamagedCheckpoint, match="not of the form in which manifests are written"):
        Checkpoints(three).check(3)


def test_leftovers_of_a_crash_are_cleaned(three):
    root = three / "checkpoint"
    shutil.copytree(root / "000003", root / "000004.tmp")
    shutil.copytree(root / "000003", root / "000001.tmp")
    for name in ("000004-rank0.npz", "000004-rank1.npz", "000000-rank0.npz"):
        (root / "replay" / name).write_bytes(b"half")
    (root / "notes.txt").write_text("mine")
    saved = Checkpoints(three).newest()
    assert_is(saved, 3)
    save(Checkpoints(three, saved=saved), 4)
    assert names(root) == ["000003", "000004", "notes.txt", "replay"]
    assert names(root / "replay") == [f"{n:06d}-rank0.npz" for n in (1, 2, 3, 4)]
    assert_is(Checkpoints(three).newest(), 4)


# ------------------------------------------------------------------------- failure to write


def failing(function, when):
    """`function`, which finds the disk full in its call number `when`, from 1."""
    calls = [0]

    def call(*args, **kwargs):
        calls[0] += 1
        if calls[0] == when:
            raise OSError(errno.ENOSPC, "No space left on device")
        return function(*args, **kwargs)

    return call


@pytest.mark.parametrize(
    ("function", "when"),
    [*(("_write_npz", when) for when in (1, 2)), *(("_sync", when) for when in range(1, 7))],
)
def test_a_full_disk_leaves_what_was_there(three, monkeypatch, function, when):
    root = three / "checkpoint"
    before = {path: path.is_file() and path.read_bytes() for path in root.rglob("*")}
    checkpoints = Checkpoints(three, saved=Checkpoints(three).newest())
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, function, failing(getattr(checkpoint, function), when))
        with pytest.raises(OSError, match="No space left on device"):
            save(checkpoints, 4)
    after = {path: path.is_file() and path.read_bytes() for path in root.rglob("*")}
    assert {path: x for path, x in after.items() if path.suffix != ".tmp"} == before
    assert_is(Checkpoints(three).newest(), 3)
    save(checkpoints, 4)  # there is room again
    assert_is(Checkpoints(three).newest(), 4)
    assert not [*root.rglob("*.tmp")]


# ------------------------------------------------------------------------------- several ranks


def test_every_rank_writes_its_own(tmp_path):
    def run():
        checkpoints = Checkpoints(tmp_path)
        for number in (1, 2, 3, 4):
            save(checkpoints, number)
        return Checkpoints(tmp_path).newest()

    for saved in run_ranks(3, run):
        assert (saved.path.name, saved.num_ranks) == ("000004", 3)
        assert [int(each["rank"]) for each in read_ranks(saved)] == [0, 1, 2]
        entries = [(each["file"][-9:-4], each["first"], each["end"]) for each in saved.replay]
        assert entries == [(f"rank{r}", n, n + 10) for n in (10, 20, 30) for r in (0, 1, 2)]


@pytest.mark.parametrize("unlucky", [0, 1, 2])
def test_a_rank_that_cannot_write_fails_on_all(tmp_path, monkeypatch, unlucky):
    """On each machine there may be another disk; what was there before stays."""
    write = checkpoint._write_npz

    def write_npz(path, arrays):
        if proc_id() == unlucky and path.name == f"000002-rank{unlucky}.npz":
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, arrays)

    monkeypatch.setattr(checkpoint, "_write_npz", write_npz)

    def run():
        checkpoints = Checkpoints(tmp_path)
        save(checkpoints, 1)
        with pytest.raises(OSError, match=rf"No space left on device \(rank {unlucky}\)"):
            save(checkpoints, 2)
        return Checkpoints(tmp_path).newest().path.name

    assert run_ranks(3, run) == ["000001"] * 3
    assert not [*tmp_path.rglob("000002*")]


def test_only_rank_0_fails_before_anything_is_written(tmp_path):
    """As when rows of progress.txt could not be written: nobody may wait for the others."""

    def first():
        if proc_id() == 0:
            raise OSError(errno.ENOSPC, "No space left on device")

    def run():
        with pytest.raises(OSError, match=r"No space left on device \(rank 0\)"):
            save(Checkpoints(tmp_path), 1, before=first)

    run_ranks(2, run)


def test_damage_is_found_by_all_ranks(three):
    flipped(three / "checkpoint/000003/rank0.npz")
    saved = run_ranks(2, lambda: Checkpoints(three).newest())
    assert [each.path.name for each in saved] == ["000002"] * 2
    flipped(three / "checkpoint/000002/rank0.npz")

    def run():
        with pytest.raises(UserError, match="000002 is damaged"):
            Checkpoints(three).newest()

    run_ranks(2, run)
