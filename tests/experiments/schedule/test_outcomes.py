"""What is said of a grid that is over, and what was read from the runs for it."""

import pytest

from spinup_tf2.errors import ExperimentsFailed, Interrupted
from spinup_tf2.experiments.experiment import Experiment, NamedAlgorithm
from spinup_tf2.experiments.schedule import outcomes
from spinup_tf2.experiments.schedule.outcomes import (
    FAILED,
    FINISHED,
    NOT_BEGUN,
    SKIPPED,
    STOPPED,
    Again,
    Outcome,
    duration,
    raise_if_incomplete,
)
from spinup_tf2.experiments.schedule.progress import Progress, progress_of


def outcome(state=FAILED, thunk=None, where="data/g/g_s0", signum=0, **kwargs):
    thunk = thunk or NamedAlgorithm("ppo")
    experiment = Experiment("g", thunk, kwargs, dict(output_dir=where))
    return Outcome(experiment, 1, state, signum=signum)


@pytest.mark.parametrize(
    ("command", "again"),
    [
        ("ppo --seed 0 1", "ppo --seed 0 1 --resume --skip_finished"),
        ("ppo --resume --seed 0 1 --skip_finished", "ppo --seed 0 1 --resume --skip_finished"),
        ("ppo --overwrite True --hid[h] [32,32]", "ppo '--hid[h]' '[32,32]' --resume --skip_fin"),
    ],
)
def test_the_command_that_does_the_rest(command, again):
    said = Again(command.split()).explain([outcome()])
    assert f"\npython -m spinup_tf2.run {again}" in said


@pytest.mark.parametrize(
    ("command", "more"),
    [("ppo --seed 0 1", " --num_cpu 4"), ("ppo --cpu 4", ""), ("ppo --num_cpu 4", "")],
)
def test_the_rest_has_the_processes_of_the_launcher(monkeypatch, command, more):
    monkeypatch.setattr(outcomes.launched, "by_mpi", lambda: True)
    monkeypatch.setattr(outcomes.launched, "size", lambda: 4)
    said = Again(command.split()).explain([outcome()])
    assert said.endswith(f"{command} --resume --skip_finished{more}")


def test_what_has_no_checkpoints_begins_anew():
    missing = [outcome(checkpoint_freq=0)]
    said = Again(["ppo", "--checkpoint_freq", "0"]).explain(missing)
    assert said.endswith("ppo --checkpoint_freq 0 --overwrite --skip_finished")
    assert "run(..., overwrite=True, skip_finished=True)" in Again().explain(missing)


def test_directories_with_a_date_are_resumed_one_by_one(monkeypatch):
    class OfSeed0:
        def __init__(self, run_dir):
            self.run_dir = run_dir

        def describe(self):
            started = {"data/py_s0": None, "my data/g_s0": dict(env_name="own_envs:Own-v0")}
            return dict(command=started[self.run_dir]) if "s0" in self.run_dir else None

    monkeypatch.setattr(outcomes, "Checkpoints", OfSeed0)
    begun = outcome(where="my data/g_s0", env_name="own_envs:Own-v0")
    again = Again(["ppo"], datestamp=True)
    assert again.explain([begun, outcome(NOT_BEGUN, where="data/g_s1")]).splitlines()[1:] == [
        "",
        "python -m spinup_tf2.run resume 'my data/g_s0' --import own_envs",
    ]
    assert "resume" not in again.explain([outcome(NOT_BEGUN, where="data/g_s1")])
    assert "resume" not in again.explain([outcome(where="data/py_s0")])  # of a Python program


def test_what_the_caller_gets():
    done = [outcome(FINISHED), outcome(SKIPPED)]
    raise_if_incomplete(done)
    with pytest.raises(ExperimentsFailed, match="1 of 4 experiments failed: data/g/g_s0"):
        raise_if_incomplete([*done, outcome(STOPPED, signum=15), outcome(FAILED)])
    with pytest.raises(Interrupted, match="SIGTERM"):
        raise_if_incomplete([*done, outcome(STOPPED, signum=15)])
    with pytest.raises(Interrupted, match="SIGINT"):
        raise_if_incomplete([*done, outcome(FAILED)], signum=2)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (59.6, "1 min 00 s"), (125, "2 min 05 s"), (3600 + 59 * 60, "1 h 59 min")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (None, Progress(0, None)),
        ("", Progress(0, None)),
        ("Epoch\tAverageEpRet\n", Progress(0, None)),
        ("Epoch\tAverageEpRet\n0\t1.5\n1\t2", Progress(1, 1.5)),  # the last row is on its way
        ("Epoch\tAverageEpRet\n0\t1.5\n1\t\n2\tnan\n", Progress(3, 1.5)),
        ("AverageEpRet\tAverageTestEpRet\n1\t2\n", Progress(1, 2.0)),
        ("Loss\n1\n", Progress(1, None)),
        ("Epoch\tAverageEpRet\n0\n", Progress(1, None)),
    ],
)
def test_rows(rows, expected, tmp_path):
    if rows is not None:
        (tmp_path / "progress.txt").write_text(rows)
    assert progress_of(tmp_path) == expected
