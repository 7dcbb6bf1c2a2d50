"""`ls`: the states of runs, what is known of them, and the table."""

import json
import os
import subprocess
import sys
import time

import pytest

from spinup_tf2.files.run_directory import is_locked, run_lock
from spinup_tf2.results import ls
from spinup_tf2.results.ls import find_runs
from tests.checkpoints import signed, write_checkpoint
from tests.results.runs import add_run, spinning_up_run
from tests.runs.test_lock import hold


def only_run(path):
    (run,) = find_runs(path)
    return run


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Runs of all states in ./data, the newest first in the order of their names."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "data"
    add_run(
        path / "ppo" / "ppo_s0",
        [1.0, 30.5, 20.25],
        exp_name="ppo",
        env_fn="EnvFn(env_name='CartPole-v1', env_kwargs=None)",
        clip_ratio=0.2,
        epochs=3,
        seed=0,
    )
    (path / "ppo" / "ppo_s0" / "tf2_save" / "variables").mkdir(parents=True)
    add_run(path / "sac" / "sac_s7", [-5, None], env_name="Ant-v5", alpha=0.2, epochs=50, seed=7)
    write_checkpoint(path / "sac" / "sac_s7", algorithm="sac")
    spinning_up_run(path / "td3", [1.0], exp_name="old", epochs=3)
    add_run(path / "zero", [], epochs=3)
    (path / "zero" / "config.json").write_text("{")
    for age, run in enumerate(("ppo/ppo_s0", "sac/sac_s7", "td3", "zero")):
        then = time.time() - 100 * 60**age
        os.utime(path / run / "progress.txt", (then, then))
    return path


# ---------------------------------------------------------------- states


def test_finished_and_stopped(data):
    finished, stopped, old, damaged = find_runs(data)
    assert (finished.state, finished.epochs_done, finished.epochs) == ("finished", 3, 3)
    assert (finished.last, finished.best) == (20.25, 30.5)
    assert (finished.env, finished.algorithm, finished.seed) == ("CartPole-v1", "ppo", 0)
    assert (stopped.state, stopped.epochs_done, stopped.epochs) == ("stopped", 2, 50)
    assert (stopped.last, stopped.best) == (-5, -5)
    assert (stopped.env, stopped.algorithm, stopped.seed) == ("Ant-v5", "sac", 7)
    assert (old.state, old.exp_name, old.env, old.algorithm) == ("stopped", "old", "", "ppo")
    assert (damaged.state, damaged.last, damaged.best) == ("damaged", None, None)


def test_what_a_full_disk_has_left_is_not_finished(data):
    run_dir = data / "ppo" / "ppo_s0"
    path = write_checkpoint(run_dir) / "manifest.json"
    assert only_run(run_dir).state == "stopped"  # the last checkpoint is of epoch 1 of 3
    manifest = json.loads(path.read_text())
    manifest["counters"]["epoch"] = 3
    path.write_text(json.dumps(signed(manifest)))
    assert only_run(run_dir).state == "finished"
    (run_dir / "tf2_save" / "variables").rmdir()
    (run_dir / "tf2_save").rename(run_dir / "tf2_save.tmp")  # which is not complete
    run = only_run(run_dir)
    assert (run.state, run.problem) == ("damaged", "no trained agent (tf2_save)")
    (run_dir / "tf2_save.tmp").rename(run_dir / "tf2_save.old")  # which is used if it is alone
    assert only_run(run_dir).state == "finished"
    assert "watch" in only_run(run_dir).commands


@pytest.mark.parametrize(
    ("counters", "state"),
    [({"stopped": "the return has reached 500"}, "finished"), ({"stopped": ""}, "stopped")],
)
def test_a_run_that_has_ended_by_its_own_rule_is_finished(data, counters, state):
    path = write_checkpoint(data / "sac" / "sac_s7") / "manifest.json"  # a second one
    manifest = json.loads(path.read_text())
    manifest["counters"] |= counters
    path.write_text(json.dumps(signed(manifest)))
    assert only_run(data / "sac").state == state


@pytest.mark.parametrize("manifest", ["[1]", "{", '{"counters": {"stopped": "x"}}'])
def test_a_checkpoint_that_tells_nothing(data, manifest):
    [path] = (data / "sac" / "sac_s7" / "checkpoint").glob("0*/manifest.json")
    path.write_text(manifest)
    run = only_run(data / "sac")
    assert (run.state, "resume" in run.commands) == ("stopped", False)


def test_a_run_is_running_while_its_lock_is_held(data):
    run_dir = data / "sac" / "sac_s7"
    with hold(run_dir) as holder:
        run = only_run(run_dir)
        assert (run.state, "resume" in run.commands) == ("running", False)
        assert run.commands["plot"].endswith("data/sac/sac_s7/")
        holder.kill()
    assert (run_dir / ".lock").exists()  # as a crash leaves it
    assert only_run(run_dir).state == "stopped"


def test_a_run_that_has_no_rows_yet_is_no_damage_while_it_is_running(tmp_path):
    run = add_run(tmp_path / "run", [], epochs=3)
    (run / "progress.txt").unlink()
    assert only_run(run).state == "damaged"
    with run_lock(run):
        assert (only_run(run).state, only_run(run).problem) == ("running", "")


def test_to_look_never_keeps_a_run_from_its_directory(tmp_path):
    """While another process looks, again and again, a run takes the lock of a crash's directory."""
    (tmp_path / ".lock").touch()
    code = (
        "import sys, time; from spinup_tf2.files.run_directory import is_locked\n"
        "print('looking', flush=True)\n"
        "while True: is_locked(sys.argv[1]); time.sleep(0.001)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as looking:
        assert looking.stdout.readline() == b"looking\n"
        for _ in range(100):
            with run_lock(tmp_path):
                assert is_locked(tmp_path)
            (tmp_path / ".lock").touch()
        looking.kill()


@pytest.mark.parametrize(
    ("name", "contents", "problem"),
    [
        ("config.json", None, "no config.json"),
        ("config.json", b"{", "not readable as JSON"),
        ("config.json", b"[1]", "not a JSON object"),
        ("config.json", "pipe", "is not a file"),
        ("progress.txt", None, "no progress.txt"),
        ("progress.txt", "pipe", "is not a file"),
        ("progress.txt", b"Epoch\tAverageEpRet\n0\t1\n1\n", "Skipped 1 row of progress.txt"),
    ],
)
def test_damaged_runs(tmp_path, name, contents, problem):
    run = add_run(tmp_path / "run", epochs=3)
    (run / name).unlink()
    if contents == "pipe":
        os.mkfifo(run / name)
    elif contents is not None:
        (run / name).write_bytes(contents)
    info = only_run(tmp_path)
    assert info.state == "damaged"
    assert problem in info.problem


@pytest.mark.parametrize("entry", [None, "3", [1], True, 1e400])
def test_strange_configurations(tmp_path, entry):
    config = dict.fromkeys(["epochs", "seed", "exp_name", "env_name", "env_fn", "algo"], entry)
    run = only_run(add_run(tmp_path / "run", **config))
    assert (run.state, run.epochs, run.seed) == ("stopped", None, None)


def test_what_belongs_to_a_run_is_not_searched(data):
    add_run(data / "ppo" / "ppo_s0" / "tf2_save" / "inside")
    add_run(data / "ppo" / "ppo_s0" / "deeper", epochs=9)
    paths = [os.path.relpath(run.path, data) for run in find_runs(data)]
    assert paths == ["ppo/ppo_s0", "ppo/ppo_s0/deeper", "sac/sac_s7", "td3", "zero"]


# ---------------------------------------------------------------- the command


def test_table(data, capsys):
    ls.main(["data"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:4]] == [
        ["Run", "State", "Epochs", "Last", "Best", "Age", "Env", "Algo", "Seed"],
        ["ppo/ppo_s0", "finished", "3/3", "20.25", "30.5", "1", "min", "CartPole-v1", "ppo", "0"],
        ["sac/sac_s7", "stopped", "2/50", "-5", "-5", "1", "h", "Ant-v5", "sac", "7"],
        ["td3", "stopped", "1/3", "1", "1", "4", "d", "ppo", "0"],
    ]
    assert lines[4].split() == ["zero", "damaged", "0/?", "250", "d"]
    assert lines[5].startswith("data/zero: data/zero/config.json is not readable as JSON")


@pytest.mark.parametrize(
    ("arguments", "order"),
    [
        (["--sort", "age", "-r"], ["zero", "td3", "sac/sac_s7", "ppo/ppo_s0"]),
        (["--sort", "state"], ["zero", "ppo/ppo_s0", "sac/sac_s7", "td3"]),
        (["--sort", "last"], ["ppo/ppo_s0", "td3", "sac/sac_s7", "zero"]),
        (["--sort", "last", "-r"], ["sac/sac_s7", "td3", "ppo/ppo_s0", "zero"]),
        (["--sort", "env"], ["sac/sac_s7", "ppo/ppo_s0", "td3", "zero"]),
    ],
)
def test_sorting(data, capsys, arguments, order):
    ls.main(["data", *arguments])
    lines = capsys.readouterr().out.splitlines()[1:5]
    assert [line.split()[0] for line in lines] == order


def test_commands(data, capsys):
    ls.main(["data", "--commands"])
    out = capsys.readouterr().out
    expected = ("plot data/ppo/ppo_s0/", "test_policy data/ppo/ppo_s0", "resume data/sac/sac_s7")
    for command in expected:
        assert f" python -m spinup_tf2.run {command}\n" in out
    assert "resume data/ppo" not in out
    assert "test_policy data/sac" not in out


def test_commands_quote_names_and_import_the_modules_of_the_user(tmp_path):
    path = add_run(tmp_path / "a b;c", epochs=9, env_name="own_arms:Arm-v0")
    callbacks = ["own_calls:Call", "x y:z", 1, "z"]
    wrapper = ["own_wraps:Scale(by='a:b')", "TimeAwareObservation"]
    command = dict(env_name="own_arms:Arm-v0", callbacks=callbacks, wrapper=wrapper)
    write_checkpoint(path, command=command)
    (path / "tf2_save").mkdir()
    run, imports = f"'{path}'", "--import own_calls --import 'x y' --import own_arms"
    assert only_run(path).commands == {
        "resume": f"python -m spinup_tf2.run resume {run} --import own_wraps {imports}",
        "plot": f"python -m spinup_tf2.run plot {run}/",
        "watch": f"python -m spinup_tf2.run test_policy {run} --import own_wraps --import own_arms",
    }


def test_json(data, capsys):
    ls.main(["data", "--json", "--sort", "name"])
    runs = json.loads(capsys.readouterr().out)
    assert [run["state"] for run in runs] == ["finished", "stopped", "stopped", "damaged"]
    assert runs[1]["path"] == "data/sac/sac_s7"
    assert runs[1]["commands"]["resume"] == "python -m spinup_tf2.run resume data/sac/sac_s7"
    assert runs[3]["epochs"] is None


def test_names_that_would_do_something_to_a_terminal(tmp_path, capsys):
    add_run(tmp_path / "a\x1b[2J\nb", epochs=3, env_name="\x1b[2J\n")
    (tmp_path / "a\x1b[2J\nb" / "config.json").write_text("{")
    ls.main([str(tmp_path), "--commands"])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "a\\x1b[2J\\nb" in out
