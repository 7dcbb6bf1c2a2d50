"""A disk that is full, read-only or damaged does not end a run, or says clearly why."""

import errno
import json
import os
import shutil
from pathlib import Path

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest

import spinup_tf2
from spinup_tf2 import user_config
from spinup_tf2.errors import UserError
from spinup_tf2.files.run_directory import run_lock
from spinup_tf2.training import checkpoints
from spinup_tf2.utils.logx import EpochLogger
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
        *((do, dict()) for do in (moved_and_begun_anew, rows_replaced)),
        *((do, LAST) for do in (moved, shutil.rmtree)),
        (rows_removed, WITHOUT),
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
    with pytest.raises(UserError, match="can be resumed where it is now"):
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
