"""Trackers: they get what progress.txt gets, and nothing that happens to them ends a training."""

import json
import threading
import time
from importlib.machinery import PathFinder

import numpy as np
import pytest
import tensorflow as tf

from spinup_tf2 import tracking, vpg
from spinup_tf2.callbacks import Callback
from spinup_tf2.errors import UserError
from spinup_tf2.tracking import CLIENTS, Epoch, TrackedRun
from tests.on_policy_runs import train

SMALL = dict(steps_per_epoch=100, train_v_iters=2, ac_kwargs=dict(hidden_sizes=(8,)))


@pytest.fixture
def fake(monkeypatch):
    """Puts a client in the place of TensorBoard's: `fake(log)` returns those that are made."""

    def put(log):
        made = []

        class Client:
            def __init__(self, run):
                self.run, self.logged, self.closed = run, [], False
                made.append(self)

            def log(self, epoch):
                log()
                self.logged.append(epoch)

            def close(self):
                self.closed = True

        monkeypatch.setitem(CLIENTS, "tensorboard", Client)
        return made

    return put


def test_a_client_gets_every_row_and_the_values_behind_it(tmp_path, fake):
    """The same run to the tracker when it is resumed."""
    made, options = fake(lambda: None), dict(track=["tensorboard"], resume=True, **SMALL)
    train(vpg, tmp_path / "another", epochs=1, **options)
    for epochs in (2, 3):
        _, rows = train(vpg, tmp_path / "run", epochs=epochs, **options)
    another, client, resumed = made
    assert (client.run.step, resumed.run.step) == (0, 200)
    assert client.run.id == resumed.run.id != another.run.id
    assert all(each.closed for each in made)
    assert client.run.directory == tmp_path / "run"
    assert client.run.exp_name == "test"
    assert client.run.config["steps_per_epoch"] == 100
    logged = client.logged + resumed.logged
    assert [epoch.step for epoch in logged] == [100, 200, 300]
    for row, epoch in zip(rows, logged, strict=True):
        values = epoch.histograms
        assert {name: pytest.approx(float(value)) for name, value in row.items()} == epoch.scalars
        assert values["VVals"].shape == (100,)
        assert np.mean(values["EpRet"]) == pytest.approx(float(row["AverageEpRet"]), rel=1e-5)
        assert epoch.videos == []


def test_one_that_fails_or_blocks_warns_once_and_training_goes_on(
    tmp_path, fake, capsys, monkeypatch
):
    def fails():
        raise OSError("no room")

    release = threading.Event()
    monkeypatch.setattr(tracking, "MOST_WAITING", 2)
    monkeypatch.setattr(tracking, "PATIENCE", 0.1)
    for log, reason in [
        (fails, "OSError: no room"),
        (release.wait, "it is more than 2 epochs behind; the rest is left out"),
    ]:
        fake(log)
        _, rows = train(vpg, tmp_path / reason[:5], epochs=5, track=["tensorboard"], **SMALL)
        assert len(rows) == 5
        printed = "".join(capsys.readouterr())
        warning = f"tensorboard does not get what is logged ({reason}). The training continues."
        assert printed.count("tensorboard does not get what is logged") == 1
        assert warning in printed
    release.set()


def test_what_cannot_be_tracked_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    (tmp_path / "wandb").mkdir()  # a mere folder of its name is no package
    monkeypatch.setattr(
        tracking, "find_spec", lambda name: PathFinder.find_spec(name, [str(tmp_path)])
    )
    for value, message in [
        (["wandb"], r'track names wandb, which is not.*pip install "spinup_tf2\[wandb\]"'),
        (["mlflow"], "track names mlflow, which is not installed"),
        *[
            (value, "it must be a list of some of 'tensorboard', 'wandb'")
            for value in ("wandb", ["comet"], [], ["wandb", "wandb"])
        ],
    ]:
        with pytest.raises(UserError, match=message):
            train(vpg, tmp_path / "run", track=value)
    assert not (tmp_path / "run").exists()


# --------------------------------------------------------------------------- the real ones


def scalars_of_tensorboard(run_dir):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run_dir / "tensorboard"))
    events.Reload()
    tags = events.Tags()
    assert "histograms/VVals" in tags["tensors"]
    assert "videos/episode" in tags["images"]
    return {
        tag.removeprefix("columns/"): {each.step: each.value for each in events.Scalars(tag)}
        for tag in tags["scalars"]
    }


def wandb_records(path):
    """The records of W&B's file: LevelDB's format of logs, behind a header of seven bytes."""
    data, at, record = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        if kind not in (1, 2, 3, 4):  # the rest of a block
            at += 32768 - at % 32768
            continue
        record += data[at + 7 : at + 7 + length]
        at += 7 + length
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
        if kind in (1, 4):  # a whole record, or the last part of one
            yield record
            record = b""


def scalars_of_wandb(run_dir):
    from wandb.proto import wandb_internal_pb2

    found, ids = {}, set()
    for path in run_dir.glob("wandb/offline-run-*/run-*.wandb"):
        for data in wandb_records(path):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            if record.run.run_id:
                ids.add(record.run.run_id)
            row = {
                item.key or "/".join(item.nested_key): json.loads(item.value_json)
                for item in record.history.item
            }
            for key, value in row.items() if "TotalEnvInteracts" in row else ():
                if isinstance(value, int | float) and key[0] != "_" and "/" not in key:
                    found.setdefault(key, {})[row["TotalEnvInteracts"]] = value
    assert len(ids) == 1
    return found


def scalars_of_mlflow(run_dir):
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{run_dir.parent / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("test")
    [run] = client.search_runs([experiment.experiment_id])
    assert run.info.run_name == run_dir.name
    assert run.info.status == "FINISHED"
    assert run.data.params["steps_per_epoch"] == "100"
    artifacts = {each.path for each in client.list_artifacts(run.info.run_id, "videos")}
    assert artifacts == {"videos/epoch-0-episode-0.mp4", "videos/epoch-2-episode-0.mp4"}
    names = [name for name in run.data.metrics if "." not in name]
    assert "VVals.p50" in run.data.metrics
    history = {name: client.get_metric_history(run.info.run_id, name) for name in names}
    return {name: {each.step: each.value for each in values} for name, values in history.items()}


def test_tensorboard_forgets_what_came_after_the_checkpoint(tmp_path, monkeypatch):
    """A killed run had logged two epochs more, which come again; also the last video stays."""
    from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

    monkeypatch.setattr(tracking, "animation", lambda path: b"GIF89a" + bytes([1, 0, 1, 0]))
    for before, steps in ((0, (100, 200, 300, 400)), (200, (300,))):
        client = CLIENTS["tensorboard"](TrackedRun("id", tmp_path, "test", {}, before))
        for step in steps:
            client.log(Epoch(step, dict(Loss=step + before), {}, [tmp_path / "video.mp4"]))
        client.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    losses = events.Tensors("columns/Loss")
    found = {each.step: float(tf.make_ndarray(each.tensor_proto)) for each in losses}
    assert found == {100: 100, 200: 200, 300: 500}
    assert [each.step for each in events.Tensors("videos/episode")] == [100, 200, 300]


@pytest.mark.slow
def test_a_run_of_wandb_that_the_program_has_begun_goes_on(tmp_path, monkeypatch):
    import wandb

    monkeypatch.setenv("WANDB_MODE", "offline")

    class LogsMore(Callback):
        def on_epoch_end(self, run, row):
            deadline = time.monotonic() + 30
            while wandb.run is None and time.monotonic() < deadline:
                time.sleep(0.1)  # the tracker has a thread of its own
            wandb.log(dict(more=1))

    def trained(name):
        train(vpg, tmp_path / name, **SMALL, epochs=1, track=["wandb"], callbacks=[LogsMore()])
        return scalars_of_wandb(tmp_path / name)

    assert "Entropy" in trained("alone")
    mine = wandb.init(project="mine", dir=str(tmp_path))
    assert "Entropy" in trained("beside")
    assert wandb.run is mine
    mine.log(dict(final=1))  # of one that has ended it would raise
    mine.finish()


@pytest.mark.slow
def test_all_three_hold_what_progress_txt_holds(tmp_path, monkeypatch):
    for name in ("WANDB_API_KEY", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WANDB_MODE", "offline")
    options = dict(track=[*CLIENTS], record_every=2)
    for epochs in (2, 4):  # the second time it goes on
        again = dict(SMALL, epochs=epochs, resume=True)
        ac, rows = train(vpg, tmp_path / "run", **again, **options)
        plain, _ = train(vpg, tmp_path / "plain", **again)
    for ours, theirs in zip(ac.variables, plain.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for read in (scalars_of_tensorboard, scalars_of_wandb, scalars_of_mlflow):
        found = read(tmp_path / "run")
        assert {*found} == {*rows[0]}
        for name, values in found.items():
            expected = {int(row["TotalEnvInteracts"]): float(row[name]) for row in rows}
            assert values.keys() == expected.keys()
            values = [values[step] for step in expected]
            np.testing.assert_allclose(values, [*expected.values()], rtol=1e-5)
