"""What is finished is not run again."""

import json
import os
import re
import shlex

import pytest

from spinup_tf2 import ppo, run
from spinup_tf2.errors import UserError
from spinup_tf2.experiments import run_entrypoint
from spinup_tf2.experiments.calling import Processes
from spinup_tf2.experiments.checks import signature_of
from spinup_tf2.experiments.grid import ExperimentGrid
from spinup_tf2.experiments.outcomes import progress_of
from spinup_tf2.files.run_directory import holds_run
from spinup_tf2.training.checkpoints import Checkpoints
from tests.experiments.fakes import execute

SKIPPING = "--seed 0 1 --workers 2 --skip_finished"


def write_run(tmp_path, seed, rows=2, algorithm="ppo", **changes):
    """What a run of `execute` leaves in its directory."""
    run_dir = tmp_path / "g" / f"g_s{seed}"
    run_dir.mkdir(parents=True, exist_ok=True)
    config = dict(
        signature_of(algorithm).defaults,
        actor_critic="MLPActorCritic",
        env_fn="EnvFn(env_name='CartPole-v1', env_kwargs=None)",
        epochs=2,
        seed=seed,
        exp_name="g",
        logger_kwargs=dict(output_dir=str(run_dir), exp_name="g"),
    )
    config = {name: x for name, x in (config | changes).items() if x != "left out"}
    (run_dir / "config.json").write_text(json.dumps(config))
    lines = [f"{epoch}\t{20 + epoch}.5\n" for epoch in range(rows)]
    (run_dir / "progress.txt").write_text("".join(["Epoch\tAverageEpRet\n", *lines]))
    (run_dir / "tf2_save").mkdir(exist_ok=True)
    return run_dir


def describing(monkeypatch, **checkpoint):
    description = dict(epochs_done=2, algorithm="ppo", num_envs=1) | checkpoint
    monkeypatch.setattr(Checkpoints, "describe", lambda self: description)


def seeds_of(fakes):
    return sorted(seed for seed, *_ in fakes)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_what_is_finished_is_skipped(workers, fakes, tmp_path, capsys, monkeypatch):
    ran = []
    monkeypatch.setattr(
        "spinup_tf2.experiments.calling._run_in_fresh_process", lambda *x: ran.append(x)
    )
    for seed in (0, 2):
        write_run(tmp_path, seed)
    assert execute(tmp_path, f"--seed 0 1 2 3 --workers {workers} --skip_finished") == 0
    assert (len(ran), seeds_of(fakes)) == ((2, []) if workers == 1 else (0, [1, 3]))
    assert all(at_a_time == 2 for _, at_a_time, _ in fakes)  # no more are left to share the cores
    announced, summary = capsys.readouterr().out.split("\n4 experiments: ")
    assert "2 of 4 experiments are finished already, and skipped.\n" in announced
    assert summary.startswith("2 finished, 2 skipped, in ")
    assert f"skipped  {tmp_path}/g/g_s0  return 21.5\n" in summary


def test_what_is_not_finished_needs_a_word(fakes, tmp_path, capsys):
    write_run(tmp_path, 0)
    write_run(tmp_path, 1, rows=1)
    flags = "--seed 0 1 2 --workers 2 --skip_finished"
    assert execute(tmp_path, flags) == 2
    message = "g_s1 holds a run that is not finished (1 of 2 epochs); pass --resume"
    assert message in capsys.readouterr().err
    assert fakes == []
    assert execute(tmp_path, f"{flags} --resume") == 0
    assert fakes == [(1, 2, True), (2, 2, True)]
    assert "2 finished, 1 skipped" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        (dict(gamma=0.9), "its gamma was 0.9 and would now be 0.99"),
        (dict(ac_kwargs=dict(hidden_sizes=[32])), "its ac_kwargs was {'hidden_sizes': [32]}"),
        (dict(env_fn="EnvFn(env_name='Pendulum-v1', env_kwargs=None)"), "its env_fn was"),
        (dict(actor_critic="MyActorCritic"), "its actor_critic was 'MyActorCritic'"),
        (dict(num_envs=2), "its num_envs was 2 and would now be 1"),
    ],
)
def test_another_run_is_refused(changes, difference, fakes, tmp_path, capsys):
    write_run(tmp_path, 1, **changes)
    for flags in ("", " --resume"):
        assert execute(tmp_path, SKIPPING + flags) == 2
        error = capsys.readouterr().err
        assert "g_s1 holds another run, which is neither skipped nor run again: " in error
        assert difference in error
    assert fakes == []
    assert os.listdir(tmp_path / "g") == ["g_s1"]
    if "gamma" in changes:
        assert execute(tmp_path, f"{SKIPPING} --overwrite") == 0
        assert seeds_of(fakes) == [0, 1]


def test_a_run_of_more_epochs_and_other_saves_is_finished(fakes, tmp_path):
    changes = dict(rows=5, epochs=5, save_freq=3, preset="x", env_retries="left out")
    write_run(tmp_path, 1, **changes)
    assert execute(tmp_path, f"{SKIPPING} --resume") == 0
    assert seeds_of(fakes) == [0]


def test_a_run_whose_agent_could_not_be_saved_is_not_finished(fakes, tmp_path, capsys):
    (write_run(tmp_path, 0) / "tf2_save").rmdir()
    assert execute(tmp_path, SKIPPING) == 2
    message = "g_s0 holds a run without a trained agent (tf2_save): perhaps the disk was full; pass"
    assert message in capsys.readouterr().err
    assert execute(tmp_path, f"{SKIPPING} --overwrite") == 0
    assert seeds_of(fakes) == [0, 1]


def test_a_checkpoint_knows_more(fakes, tmp_path, capsys, monkeypatch):
    write_run(tmp_path, 0)
    for description, message in (
        (dict(epochs_done=1), "not finished (1 of 2 epochs)"),  # a crash between row and checkpoint
        (dict(algorithm="vpg"), "its algorithm was 'vpg' and would now be 'ppo'"),
        (dict(num_envs=4), "its num_envs was 4 and would now be 1"),
    ):
        describing(monkeypatch, **description)
        assert execute(tmp_path, SKIPPING) == 2
        assert message in capsys.readouterr().err
    assert fakes == []
    # Four environments of one process, or two in each of two, are the same run.
    assert execute(tmp_path, f"{SKIPPING} --num_envs 2 --cpu 2") == 0
    assert seeds_of(fakes) == [1]


def test_ended_by_a_callback(fakes, tmp_path, capsys, monkeypatch):
    write_run(tmp_path, 0, rows=1, stop_at_return=20)
    describing(monkeypatch, epochs_done=1, stopped="the return was 20.5")
    assert execute(tmp_path, f"{SKIPPING} --stop_at_return 400") == 2  # which it has not reached
    assert "not finished (1 of 2 epochs)" in capsys.readouterr().err
    assert execute(tmp_path, f"{SKIPPING} --stop_at_return 20") == 0
    assert seeds_of(fakes) == [1]


@pytest.mark.parametrize(
    ("text", "rows", "message"),
    [
        ("{", 2, "its arguments are not known"),
        (None, 2, "its arguments are not known"),
        ("[]", 2, "g_s0 holds another run, which is neither skipped"),
        (None, 0, "not finished (0 of 2 epochs)"),  # killed before it began
    ],
)
def test_a_directory_that_tells_nothing(text, rows, message, fakes, tmp_path, capsys):
    config = write_run(tmp_path, 0, rows) / "config.json"
    config.unlink() if text is None else config.write_text(text)
    assert execute(tmp_path, SKIPPING) == 2
    assert message in capsys.readouterr().err
    assert execute(tmp_path, f"{SKIPPING} --resume") == (2 if rows else 0)
    assert seeds_of(fakes) == ([] if rows else [0, 1])


def test_the_rest_of_a_grid_that_overwrites(monkeypatch, tmp_path, capsys):
    """Nothing that it was to replace is taken for finished, nor is it gone on with."""
    for seed, rows in ((0, 2), (1, 2), (2, 2), (3, 1)):
        write_run(tmp_path, seed, rows)
    statuses, started = [0, 143, 0, 0, 0], []

    def run_one(processes, arguments):
        experiment = run_entrypoint.read_experiment(arguments[1])
        seed, status = experiment.kwargs["seed"], statuses.pop(0)
        started.append((seed, holds_run(experiment.output_dir)))
        if status == 0:  # otherwise it was stopped before it began to write
            write_run(tmp_path, seed)
        return status

    monkeypatch.setattr(Processes, "run", run_one)
    monkeypatch.setenv("SPINUP_TF2_DATA_DIR", str(tmp_path))
    assert execute(tmp_path, "--seed 0 1 2 3 --overwrite") == 143
    out = capsys.readouterr().out
    assert "4 experiments: 1 finished, 1 stopped, 2 not begun" in out
    rest = re.search(r"^python -m spinup_tf2\.run (ppo .*)$", out, re.MULTILINE)[1]
    run.main(shlex.split(rest))
    assert "4 experiments: 3 finished, 1 skipped" in capsys.readouterr().out
    assert started == [(seed, False) for seed in (0, 1, 1, 2, 3)]


def test_overwrite_keeps_what_is_skipped(fakes, tmp_path):
    config = write_run(tmp_path, 0) / "config.json"
    replaced = write_run(tmp_path, 1, rows=1) / "config.json"
    before = config.stat()
    assert execute(tmp_path, "--seed 0 1 2 --workers 2 --skip_finished --overwrite") == 0
    assert seeds_of(fakes) == [1, 2]
    now = config.stat()  # reading it may have changed st_atime
    assert (now.st_ino, now.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert not replaced.exists()  # those of `fakes` write none


def test_python_skips_as_the_command_line_does(tmp_path, capsys):
    write_run(tmp_path, 0)
    grid = ExperimentGrid("g", base=dict(env_name="CartPole-v1", epochs=2))
    grid.run(ppo, data_dir=tmp_path, skip_finished=True)
    assert "1 of 1 experiments are finished already, and skipped.\n" in capsys.readouterr().out
    with pytest.raises(UserError, match="skip_finished compares the arguments"):
        ExperimentGrid("g").run(lambda **_: None, data_dir=tmp_path, skip_finished=True)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (None, (0, [])),
        ("Epoch\tAverageEpRet\n", (0, [])),
        ("Epoch\tAverageEpRet\n0\t1.5\n1\t2", (1, [1.5])),  # the last row is on its way
        ("Epoch\tAverageEpRet\n0\t1.5\n1\t\n2\tnan\n", (3, [1.5])),
        ("Epoch\tAverageEpRet\n0\n", (1, [])),
    ],
)
def test_progress(rows, expected, tmp_path):
    if rows is not None:
        (tmp_path / "progress.txt").write_text(rows)
    assert progress_of(tmp_path) == expected
