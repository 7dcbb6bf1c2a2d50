"""Callbacks: what they are told, what they may do, and how the package's own end a training."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from spinup_tf2 import a2c, ddpg, ppo, vpg
from spinup_tf2.callbacks import (
    Callback,
    Prune,
    StopAfter,
    StopAtReturn,
    StopWithoutImprovement,
    mean_return,
    seconds_of,
)
from spinup_tf2.cli.resume import parse_resume
from spinup_tf2.errors import UserError
from spinup_tf2.training.checkpoints import Checkpoints
from spinup_tf2.utils.logx import EpochLogger
from tests import off_policy_runs
from tests.on_policy_runs import train
from tests.progress import rows_without_time


class Diary:
    """Writes down what it is told. It has all of the methods, and is not derived from Callback."""

    def __init__(self):
        self.entries, self.rows = [], []

    def on_start(self, run):
        self.entries.append(("start", run.epoch))

    def on_epoch_end(self, run, row):
        run.policy.act(np.zeros(run.envs.observation_space.shape))  # draws random numbers
        self.entries.append(("epoch", run.epoch))
        self.rows.append({key: str(value) for key, value in row.items()})

    def on_end(self, run):
        self.entries.append(("end", run.epoch))


class OnlyTheEnd:
    def on_end(self, run):
        self.directory = run.logger.output_dir


@pytest.mark.parametrize("algorithm", [a2c, ddpg], ids=["a2c", "ddpg"])
def test_they_hear_of_every_epoch_and_change_nothing(tmp_path, algorithm):
    run = off_policy_runs.train if algorithm is ddpg else train
    options = dict(steps_per_epoch=160, epochs=3, num_envs=1)
    diary, end = Diary(), OnlyTheEnd()
    ac, rows = run(algorithm, tmp_path / "with", **options, callbacks=[diary, end])
    plain, _ = run(algorithm, tmp_path / "without", **options)
    assert diary.entries == [("start", 0), ("epoch", 0), ("epoch", 1), ("epoch", 2), ("end", 2)]
    assert diary.rows == rows
    assert end.directory == str(tmp_path / "with")
    for ours, theirs in zip(ac.variables, plain.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert rows_without_time(tmp_path / "with" / "progress.txt") == rows_without_time(
        tmp_path / "without" / "progress.txt"
    )


class Adds(Callback):
    """Adds columns; what each call returns is given."""

    def __init__(self, *returned):
        self.returned, self.rows = iter(returned), []

    def columns(self, run):
        return next(self.returned)

    def on_epoch_end(self, run, row):
        self.rows.append(row)


@pytest.mark.parametrize("algorithm", [vpg, ddpg], ids=["vpg", "ddpg"])
def test_columns_of_their_own(tmp_path, algorithm):
    """Logged, seen by all callbacks, and blank where there is none; also by one that goes on."""
    run = off_policy_runs.train if algorithm is ddpg else train
    options = dict(steps_per_epoch=160, num_envs=1)
    adds = Adds(dict(A=1.5, B=np.float32(2)), dict(A=None, B=np.array([3])))
    diary = Diary()
    _, rows = run(algorithm, tmp_path / "run", **options, epochs=2, callbacks=[diary, adds])
    assert [(row["A"], row["B"]) for row in adds.rows] == [(1.5, 2.0), ("", 3.0)]
    assert [(row["A"], row["B"]) for row in diary.rows] == [("1.5", "2.0"), ("", "3.0")]
    assert diary.rows == rows
    adds = Adds(dict(B=4, A=5))
    options |= dict(epochs=3, resume=True, callbacks=[adds])
    _, rows = run(algorithm, tmp_path / "run", **options)
    assert [(row["A"], row["B"]) for row in rows][1:] == [("", "3.0"), ("5.0", "4.0")]
    _, rows = run(algorithm, tmp_path / "run", **options | dict(epochs=4, callbacks=[]))
    assert (rows[-1]["A"], rows[-1]["B"]) == ("", "")


def test_numbers_of_the_row_may_be_remembered(tmp_path):
    """They are NumPy's, which JSON does not know."""

    class Best(Callback):
        def on_start(self, run):
            self.best = float("-inf")

        def on_epoch_end(self, run, row):
            self.best = max(self.best, row["AverageEpRet"])

        def state_dict(self):
            return dict(best=self.best, curve=np.zeros(2))

        def columns(self, run):
            return None

    train(vpg, tmp_path / "run", epochs=2, callbacks=[best := Best()])
    [(_, state)] = Checkpoints(tmp_path / "run").newest().counters["callbacks"]
    assert state == dict(best=float(best.best), curve=[0.0, 0.0])
    best.state_dict = lambda: dict(best={1, 2})
    with pytest.raises(UserError, match=r"state_dict of the callbacks Best cannot be saved: .*set"):
        train(vpg, tmp_path / "again", epochs=1, callbacks=[best])


def test_those_that_have_started_hear_of_the_end_when_another_does_not_start(tmp_path):
    class Fails(Callback):
        ended = False

        def on_start(self, run):
            raise RuntimeError("not today")

        def on_end(self, run):
            self.ended = True

    diary, fails = Diary(), Fails()
    with pytest.raises(RuntimeError, match="not today"):
        train(vpg, tmp_path / "run", callbacks=[diary, fails])
    assert diary.entries == [("start", 0), ("end", 0)]
    assert not fails.ended
    assert [*tmp_path.iterdir()] == []


def test_one_that_raises_ends_the_training_and_all_hear_of_the_end(tmp_path):
    class Raises(Callback):
        def on_epoch_end(self, run, row):
            raise RuntimeError(f"after epoch {run.epoch}")

    diary = Diary()
    with pytest.raises(RuntimeError, match="after epoch 0"):
        train(vpg, tmp_path / "run", callbacks=[diary, Raises()])
    assert diary.entries == [("start", 0), ("epoch", 0), ("end", 0)]


def test_the_agent_is_saved_where_a_training_is_stopped(tmp_path, monkeypatch):
    """Though save_freq is 10."""

    class StopsAtTwo(Callback):
        def on_epoch_end(self, run, row):
            saves_before.append(len(saved))
            if run.epoch == 2:
                run.stop("enough")

    saves_before, saved, save_state = [], [], EpochLogger.save_state
    monkeypatch.setattr(
        EpochLogger, "save_state", lambda self, *args: saved.append(1) or save_state(self, *args)
    )
    train(vpg, tmp_path, steps_per_epoch=20, epochs=9, save_freq=10, callbacks=[StopsAtTwo()])
    assert saves_before == [0, 1, 1]  # after the first epoch, as always
    assert len(saved) == 2


def test_a_training_that_one_has_stopped_says_why_and_goes_on(tmp_path, capsys):
    path = tmp_path / "run"

    def part(**kwargs):
        options = dict(epochs=4, steps_per_epoch=100, train_v_iters=5, **kwargs)
        vpg("CartPole-v1", **options, logger_kwargs=dict(output_dir=str(path)))
        return capsys.readouterr().out

    printed = part(stop_at_return=1.0)
    assert "Stopped: the mean return, " in printed
    assert " has reached 1. Resume it with: python -m spinup_tf2.run resume " in printed
    assert len(rows_without_time(path / "progress.txt")) == 2
    assert (path / "tf2_save").is_dir()

    diary = Diary()
    printed = part(resume=True, callbacks=[diary])
    assert "It had stopped: the mean return, " in printed
    assert diary.entries[0] == ("start", 1)
    assert len(rows_without_time(path / "progress.txt")) == 5


def a_run(num_test_episodes=0, test_freq=1):
    settings = SimpleNamespace(num_test_episodes=num_test_episodes, test_freq=test_freq)
    return SimpleNamespace(settings=settings, epoch=0)


def test_the_return_is_that_of_the_test_episodes_if_there_are_any():
    assert mean_return(a_run(), dict(AverageEpRet=3.0)) == 3
    assert mean_return(a_run(), dict(AverageEpRet="")) is None
    assert mean_return(a_run(2), dict(AverageEpRet=3.0, AverageTestEpRet=5.0)) == 5
    assert mean_return(a_run(2), dict(AverageEpRet=3.0, AverageTestEpRet="")) is None  # not due
    # Off-policy, the column is there in any case.
    assert mean_return(a_run(), dict(AverageEpRet=3.0, AverageTestEpRet="")) == 3


def reasons(callback, returns, **tests):
    """What a callback says in epochs with these mean returns; None where it says nothing."""
    said, run = [], a_run(**tests)
    run.stop = said.append
    callback.on_start(run)
    told = []
    for run.epoch, value in enumerate(returns):
        callback.on_epoch_end(run, dict(AverageEpRet=value, AverageTestEpRet=value))
        told.append(said.pop() if said else None)
    return told


def test_stop_at_return():
    told = reasons(StopAtReturn(10), [9.99, "", float("nan"), 10.0])
    assert told == [None, None, None, "the mean return, 10, has reached 10"]


def test_stop_without_improvement():
    told = reasons(StopWithoutImprovement(epochs=2, min_delta=1), ["", 5.0, 6.0, 5.5, 7.0])
    assert told == [
        *(None, None, None),
        "the mean return has not risen for 2 epochs; the best is 5",
        None,
    ]
    told = reasons(StopWithoutImprovement(epochs=2), ["", ""])
    assert told[1] == "the mean return has not risen for 2 epochs; no episode has ended"


def test_stop_without_improvement_waits_for_a_test():
    """With a test in every third epoch, it is decided in these alone."""
    returns = ["", "", 5.0, "", "", 6.0, "", "", 6.0, "", ""]
    told = reasons(StopWithoutImprovement(epochs=2), returns, num_test_episodes=1, test_freq=3)
    assert told.pop(8) == "the mean return has not risen for 3 epochs; the best is 6"
    assert told == 10 * [None]


@pytest.mark.parametrize("pruned", [False, True])
def test_prune(pruned):
    """The trial gets the return of each epoch that has one, and may end the training."""
    reported = []
    trial = SimpleNamespace(
        report=lambda score, epoch: reported.append((epoch, score)),
        should_prune=lambda: pruned and len(reported) == 2,
    )
    callback = Prune(trial)
    told = reasons(callback, ["", 5.0, 4.0])
    assert [score for _, score in reported] == [5.0, 4.0]
    assert (callback.score, callback.pruned) == (4.0, pruned)
    assert told == [None, None, "Optuna's pruner has given the trial up" if pruned else None]


def test_stop_after(monkeypatch):
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    callback, said = StopAfter(minutes=1), []
    run = SimpleNamespace(stop=said.append)
    callback.on_start(run)
    for now, expected in ((159.0, 0), (160.0, 1)):  # noqa: B007
        callback.on_epoch_end(run, {})
        assert len(said) == expected
    assert said == ["the time that it was given, 0:01:00, is over"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *[("8h", 28800), ("90m", 5400), ("90min", 5400), ("1h30m", 5400), ("45s", 45)],
        *[("1.5h", 5400), ("2d", 172800), ("", None), ("8", None), ("0h", None), (8, None)],
        *[("h", None), ("30m1h", None), ("-1h", None), (None, None), ("9999999999d", None)],
    ],
)
def test_durations(text, seconds):
    assert seconds_of(text) == seconds


def test_what_they_remember_is_in_the_checkpoint(tmp_path):
    train(vpg, tmp_path / "run", steps_per_epoch=100, epochs=3, stop_without_improvement=50)
    saved = Checkpoints(tmp_path / "run").newest()
    [(name, state)] = saved.counters["callbacks"]
    assert name == "StopWithoutImprovement"

    class Keeps(StopWithoutImprovement):
        pass

    Keeps.__name__ = "StopWithoutImprovement"
    callback = Keeps(epochs=50)
    kwargs = dict(steps_per_epoch=100, resume=True)
    _, rows = train(vpg, tmp_path / "run", epochs=4, callbacks=[callback], **kwargs)
    returns = [float(row["AverageEpRet"]) for row in rows]
    assert state["best"] == pytest.approx(max(returns[:3]), rel=1e-6)
    assert callback.best == pytest.approx(max(returns), rel=1e-6)
    assert callback.waited == len(returns) - 1 - int(np.argmax(returns))


MODULE = """
from pathlib import Path
Path({sensor!r}).write_text("imported")
class Counts:
    epochs = 0
    def on_epoch_end(self, run, row):
        Counts.epochs += 1
counts = Counts()
class Needs:
    def __init__(self, argument): ...
    def on_end(self, run): ...
def function(): ...
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of the user's, and the file that it writes when it is imported."""
    sensor = tmp_path / "sensor"
    (tmp_path / "users_callbacks.py").write_text(MODULE.format(sensor=str(sensor)))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield sensor
    sys.modules.pop("users_callbacks", None)


def test_by_name(tmp_path, module):
    names = ["users_callbacks:Counts", "users_callbacks:counts"]
    train(vpg, tmp_path / "run", "CartPole-v1", callbacks=names, steps_per_epoch=100, epochs=2)
    assert sys.modules["users_callbacks"].Counts.epochs == 4
    # The word of the run's file does not import it.
    command = Checkpoints(tmp_path / "run").describe()["command"]
    assert command["callbacks"] == names
    del sys.modules["users_callbacks"]
    module.unlink()
    with pytest.raises(UserError, match=r"callback users_callbacks:Counts: .*--import users_c"):
        parse_resume([str(tmp_path / "run"), "--epochs", "3"])
    assert not module.exists()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("users_callbacks:Nothing", "AttributeError"),
        ("users_callbacks:Needs", "TypeError.*argument"),
        ("users_callbacks:function", "has none of the methods on_start"),
        ("os:abort", "has none of the methods on_start"),
        ("no_such_module:Nothing", "No module named 'no_such_module'"),
    ],
)
def test_names_that_stand_for_nothing(tmp_path, module, name, reason):
    with pytest.raises(UserError, match=f"the callback {name} cannot be had .*{reason}"):
        train(vpg, tmp_path / "run", callbacks=[name])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "value", ["StopAtReturn", [StopAtReturn], [3], ["no module"], 5, [object()]]
)
def test_what_is_none_is_refused(tmp_path, value):
    with pytest.raises(UserError, match="it must be a list of objects with on_start"):
        ppo("CartPole-v1", callbacks=value, logger_kwargs=dict(output_dir=str(tmp_path / "run")))
    assert not (tmp_path / "run").exists()
