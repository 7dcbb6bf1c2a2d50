"""A disk that is full, read-only or damaged does not end a run, or says clearly why."""

import errno
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest

import spinup_tf2
from spinup_tf2 import user_config
from spinup_tf2.cli.evaluate import evaluate_run
from spinup_tf2.errors import UserError
from spinup_tf2.files.run_directory import run_lock
from spinup_tf2.training import checkpoints
from spinup_tf2.training import run as runs_module
from spinup_tf2.training.checkpoints import Checkpoints
from spinup_tf2.utils.logx import EpochLogger
from spinup_tf2.utils.test_policy import load_policy_and_env
from tests import off_policy_runs
from tests.fake_mpi import run_ranks
from tests.on_policy_runs import make
from tests.progress import rows_without_time
from tests.resume.killed import assert_same, left_by

pytestmark = pytest.mark.slow

A2C = dict(num_envs=1, steps_per_epoch=80, n_steps=20, ac_kwargs=dict(hidden_sizes=(8,)), seed=5)


@pytest.fixture(autouse=True)
def checkpoint_after_every_epoch(monkeypatch):
    monkeypatch.setattr(user_config, "CHECKPOINT_INTERVAL", 0.0)


def train(path, epochs=4, env_fn=make(), **kwargs):  # noqa: B008
    spinup_tf2.a2c(
        env_fn,
        **dict(A2C, epochs=epochs, deterministic_resume=True) | kwargs,
        logger_kwargs=dict(output_dir=str(path), quiet=True),
    )


def times(path):
    return pd.read_table(path / "progress.txt")["Time"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Directories of a whole run of four epochs, and of one that ended after three of them."""
    interval, user_config.CHECKPOINT_INTERVAL = user_config.CHECKPOINT_INTERVAL, 0.0
    path = tmp_path_factory.mktemp("runs")
    train(path / "whole")
    train(path / "short", epochs=3)
    user_config.CHECKPOINT_INTERVAL = interval
    return path


def newest(run_dir):
    return max(run_dir.glob("checkpoint/0*[0-9]"))


# -------------------------------------------------------------------------- clocks, rows, memory


def test_a_clock_that_is_set_back_does_not_change_time(tmp_path, monkeypatch):
    days = itertools.count()
    clock = SimpleNamespace(time=lambda: -86400.0 * next(days), monotonic=time.monotonic)
    monkeypatch.setattr(runs_module, "time", clock)
    train(tmp_path, epochs=2)
    train(tmp_path, epochs=4, resume=True)
    seconds = times(tmp_path)
    assert len(seconds) == 4
    assert (seconds > 0).all()
    assert seconds.is_monotonic_increasing


@pytest.mark.parametrize(("checkpoint_freq", "epochs"), [(1, 2), (2, 3)])
def test_a_wrapper_that_remembers_is_named(tmp_path, capsys, checkpoint_freq, epochs):
    """Where new episodes begin, and where those go on that were cut off."""

    def env_fn():
        return gym.wrappers.NormalizeObservation(gym.make("CartPole-v1"))

    train(tmp_path, epochs, env_fn, checkpoint_freq=checkpoint_freq)
    start = capsys.readouterr().out
    assert start.count("the statistics of NormalizeObservation around the environment") == 1
    assert "even with deterministic_resume" in start
    assert "do not come back" not in start
    train(tmp_path, epochs + 1, env_fn, checkpoint_freq=checkpoint_freq, resume=True)
    resumed = capsys.readouterr().out
    assert resumed.count("environments do not come back as they were") == 1
    assert "environment 0 (CartPole-v1" in resumed
    assert "from the reset on" in resumed
    assert "(NormalizeObservation)" in resumed


def test_statistics_of_a_wrapper_are_not_saved(tmp_path, capsys):
    """Which is said where training begins, and where the agent is watched and evaluated."""

    def env_fn():
        return gym.wrappers.NormalizeObservation(gym.make("CartPole-v1"))

    train(tmp_path, 1, env_fn, deterministic_resume=False)
    start = capsys.readouterr().out
    message = "the statistics of NormalizeObservation around the environment are not saved"
    assert start.count(message) == 1
    assert "returns may be much lower" in start
    evaluate_run(tmp_path, episodes=3)
    load_policy_and_env(tmp_path)
    warning = capsys.readouterr().err
    expected = f"NormalizeObservation around the environment of {tmp_path} are not saved"
    assert warning.count(expected) == 1
    assert "begin empty, so that returns may be much lower than in training" in warning


# -------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize("file", ["rank0.npz", "manifest.json"])
def test_a_run_goes_on_from_the_checkpoint_before(runs, tmp_path, capsys, file):
    run_dir = tmp_path / "run"
    shutil.copytree(runs / "short", run_dir)
    damaged = newest(run_dir)
    (damaged / file).write_bytes(b"garbled")
    train(run_dir, resume=True)
    assert f"Warning: {damaged} is damaged: {file}" in capsys.readouterr().out
    assert_same(left_by(run_dir), left_by(runs / "whole"))


def test_without_any_complete_checkpoint_it_does_not(runs, tmp_path):
    run_dir = tmp_path / "run"
    shutil.copytree(runs / "short", run_dir)
    for path in run_dir.glob("checkpoint/0*/rank0.npz"):
        path.unlink()
    before = {path: path.is_file() and path.read_bytes() for path in run_dir.rglob("*")}
    with pytest.raises(UserError, match="There is no complete checkpoint to resume from"):
        train(run_dir, resume=True)
    assert {path: path.is_file() and path.read_bytes() for path in run_dir.rglob("*")} == before


# ----------------------------------------------------------------------------------- full disks


def test_a_full_disk_does_not_end_a_training(runs, tmp_path, monkeypatch, capsys):
    """Nothing can be written while the second and third epoch end."""
    write_npz, dump = checkpoints._write_npz, EpochLogger.dump_tabular
    full, seen = [False], []

    class Disk:
        def __init__(self, file):
            self.file = file

        def write(self, data):
            if full[0]:
                raise OSError(errno.ENOSPC, "No space left on device")
            return self.file.write(data)

        def __getattr__(self, name):
            return getattr(self.file, name)

    def write(*args):
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_npz(*args)

    def dump_tabular(self):
        if not isinstance(self.output_file, Disk):
            self.output_file = Disk(self.output_file)
        epoch = self.log_current_row["Epoch"]
        full[0] = epoch in (1, 2)
        dump(self)
        seen.append(newest(tmp_path).name)

    monkeypatch.setattr(checkpoints, "_write_npz", write)
    monkeypatch.setattr(EpochLogger, "dump_tabular", dump_tabular)
    train(tmp_path)
    # When an epoch is logged there is the checkpoint of the one before, if there was room.
    assert seen == ["000001", "000002", "000002", "000002"]
    assert newest(tmp_path).name == "000003"
    warnings = [line for line in capsys.readouterr().out.splitlines() if "Warning" in line]
    assert len(warnings) == 2
    assert f"cannot write to {tmp_path} (No space left on device)" in warnings[0]
    assert "the checkpoint cannot be written" in warnings[1]
    assert_same(left_by(tmp_path), left_by(runs / "whole"))


def test_a_training_whose_end_finds_no_room_has_failed(tmp_path, monkeypatch):
    def train_all(epochs, **kwargs):
        train(tmp_path, epochs=epochs, deterministic_resume=False, **kwargs)

    train_all(2)
    kept = tmp_path / "tf2_save" / "model_info.json"
    before = kept.read_text()

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "_write_npz", full)
        patch.setattr(EpochLogger, "_write_rows", full)
        patch.setattr(np, "savez", full)  # a part of the policy
        with pytest.raises(
            OSError, match=r"not written to .*: the policy, the checkpoint, the last rows \("
        ):
            train_all(3, resume=True)
    assert kept.read_text() == before
    train_all(3, resume=True)
    assert json.loads(kept.read_text())["epoch"] == 2
    train_all(3, resume=True)  # which saves the policy again
    assert json.loads(kept.read_text())["epoch"] == 2


# Trains in argv[1]; a file fills the disk while the epochs 2 to 4 are collected, of 8.
FULL = """
import os
import sys
from pathlib import Path
from spinup_tf2.core import on_policy
from tests.resume import test_storage

disk = Path(sys.argv[1])
filler, calls, collect = disk / "filler", 0, on_policy.collect

def fill():
    with open(filler, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1000))
        except OSError:
            pass

def collect_on_a_full_disk(*args):
    global calls
    epoch, calls = calls // 4, calls + 1
    if 2 <= epoch <= 4:
        fill()
    elif filler.exists():
        print("checkpoint while the disk was full:", test_storage.newest(disk / "run").name)
        print("complete:", test_storage.Checkpoints(disk / "run").newest().path.name)
        os.remove(filler)
    return collect(*args)

on_policy.collect = collect_on_a_full_disk
test_storage.train(disk / "run", epochs=8, save_freq=1)
test_storage.shutil.copytree(disk / "run", sys.argv[2])
"""


def in_own_mounts(mount, program, *args):
    """Run a Python program where `mount`, a shell command, has been done for it alone."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root can mount a file system")
    command = ["unshare", "--mount", "sh", "-c", f'{mount} || exit 77; exec "$@"', "sh"]
    done = subprocess.run(
        [*command, sys.executable, "-c", program, *map(str, args)],
        cwd=Path(__file__).parents[2],
        env=os.environ | dict(SPINUP_TF2_CHECKPOINT_INTERVAL="0"),
        capture_output=True,
        text=True,
        timeout=600,
    )
    if done.returncode == 77 or "unshare: " in done.stderr:
        pytest.skip(f"nothing can be mounted here: {done.stderr[-200:]}")
    return done


def test_a_disk_that_is_really_full(tmp_path):
    (tmp_path / "disk").mkdir()
    mount = f"mount -t tmpfs -o size=3m none {tmp_path}/disk"
    done = in_own_mounts(mount, FULL, tmp_path / "disk", tmp_path / "copy")
    assert done.returncode == 0, done.stderr[-3000:]
    # The checkpoint of the untrained networks is the first, the one after two epochs the third.
    assert "checkpoint while the disk was full: 000003\ncomplete: 000003\n" in done.stdout
    warnings = [line for line in done.stdout.splitlines() if "Warning" in line]
    assert len([line for line in warnings if "the checkpoint cannot be written" in line]) == 1
    assert len(warnings) == len({*warnings}) <= 4, warnings
    train(tmp_path / "whole", epochs=8, save_freq=1)
    assert_same(left_by(tmp_path / "copy"), left_by(tmp_path / "whole"))
    assert not [*(tmp_path / "copy").rglob("*.tmp*")]


READ_ONLY = """
import sys
from spinup_tf2.errors import UserError
from tests.resume import test_storage

for kwargs in (dict(), dict(resume=True)):
    try:
        test_storage.train(sys.argv[1], **kwargs)
    except UserError as error:
        print(error)
"""


def test_a_read_only_directory_is_refused(runs, tmp_path):
    shutil.copytree(runs / "short", tmp_path / "run")
    mount = f"mount --bind {tmp_path}/run {tmp_path}/run && mount -o remount,ro,bind {tmp_path}/run"
    done = in_own_mounts(mount, READ_ONLY, tmp_path / "run")
    assert done.returncode == 0, done.stderr[-3000:]
    refusal = f"Cannot write to the output directory {tmp_path}/run (Read-only file system); choose"
    assert done.stdout.count(refusal) == 2


# ------------------------------------------------------------------ moved, or removed, meanwhile


class After:
    """Does something to the directory of a run after its epoch 1."""

    def __init__(self, do):
        self.do = do

    def on_epoch_end(self, run, row):
        if run.epoch == 1:
            self.do(Path(run.logger.output_dir))


def moved(run):
    run.rename(run.with_name("moved"))


def moved_and_linked(run):
    moved(run)
    run.symlink_to("moved")


def moved_and_begun_anew(run):
    moved(run)
    run.mkdir()
    (run / "progress.txt").write_text("of another run")


def rows_replaced(run):
    shutil.copy(run / "progress.txt", run / "copy")
    os.replace(run / "copy", run / "progress.txt")


def rows_removed(run):
    (run / "progress.txt").unlink()


def files(folder):
    return {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}


LAST, WITHOUT = dict(epochs=2), dict(checkpoint_freq=0, deterministic_resume=False)


@pytest.mark.parametrize(
    ("do", "kwargs"),
    [
        *((do, dict()) for do in (moved, moved_and_begun_anew, rows_replaced)),
        *((do, dict()) for do in (shutil.rmtree, rows_removed)),
        *((do, LAST) for do in (moved, shutil.rmtree)),
        *((do, WITHOUT) for do in (moved, rows_removed)),
    ],
)
@pytest.mark.parametrize("num_procs", [1, 2])
def test_a_run_that_is_moved_or_removed_ends(tmp_path, do, kwargs, num_procs):
    left = {}

    def run():
        def note(run):
            do(run)
            left.update(files(tmp_path))

        with pytest.raises(UserError, match="was moved, replaced or removed while the run wrote"):
            train(tmp_path / "run", callbacks=[After(note)], **kwargs)

    run_ranks(num_procs, run)
    assert [path for path in files(tmp_path).keys() ^ left.keys() if path.name != ".lock"] == []
    assert {path: x for path, x in files(tmp_path).items() if x != left[path]} == {}


def test_a_run_that_was_moved_goes_on_where_it_is(runs, tmp_path):
    with pytest.raises(UserError, match=f"it is {tmp_path}/moved/progress.txt now"):
        train(tmp_path / "run", callbacks=[After(moved)])
    train(tmp_path / "moved", resume=True)
    assert_same(left_by(tmp_path / "moved"), left_by(runs / "whole"))


def test_a_link_in_its_place_is_as_good(runs, tmp_path):
    train(tmp_path / "run", callbacks=[After(moved_and_linked)])
    assert_same(left_by(tmp_path / "run"), left_by(runs / "whole"))


def test_rows_after_the_checkpoint_are_kept_aside(runs, tmp_path, capsys):
    run = shutil.copytree(runs / "whole", tmp_path / "run")
    for path in sorted(run.glob("checkpoint/0*"))[1:]:
        shutil.rmtree(path)
    before = pd.read_table(run / "progress.txt")
    train(run, resume=True)
    said = f"had 4 rows, and the checkpoint was made after 3. The later ones are in {run}/progress"
    assert said in capsys.readouterr().out
    pd.testing.assert_frame_equal(
        pd.read_table(run / "progress.txt.cut"), before[3:].reset_index(drop=True)
    )
    assert_same(left_by(run), left_by(runs / "whole"))


def test_checkpoints_that_are_removed_meanwhile_are_written_again(tmp_path):
    """With all the steps of a replay buffer, which are otherwise written once."""

    def train_ddpg(path, epochs, **kwargs):
        off_policy_runs.train(
            spinup_tf2.ddpg, path, epochs=epochs, deterministic_resume=True, **kwargs
        )

    train_ddpg(tmp_path / "whole", 4)
    remove = After(lambda run: shutil.rmtree(run / "checkpoint"))
    train_ddpg(tmp_path / "run", 3, callbacks=[remove])
    train_ddpg(tmp_path / "run", 4, resume=True)
    assert_same(left_by(tmp_path / "run"), left_by(tmp_path / "whole"))


# ---------------------------------------------------------------------------------- two runs


def test_two_runs_in_one_directory_are_refused(runs, tmp_path):
    shutil.copytree(runs / "short", tmp_path / "run")
    with run_lock(tmp_path / "run"):
        for resume in (False, True):
            with pytest.raises(UserError, match="is being written to by another run"):
                train(tmp_path / "run", resume=resume)
    train(tmp_path / "run", resume=True)
    assert len(rows_without_time(tmp_path / "run/progress.txt")) == 5


def test_the_manifest_says_where_the_run_was(runs):
    manifest = json.loads((newest(runs / "short") / "manifest.json").read_text())
    assert (manifest["counters"]["epoch"], manifest["counters"]["step"]) == (3, 0)
    assert Checkpoints(runs / "short").newest().counters == manifest["counters"]
