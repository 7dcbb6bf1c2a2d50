"""Experiments in processes of their own."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from tempfile import gettempdir

import cloudpickle
import gymnasium as gym
import pytest

from spinup_tf2.envs.making import EnvFn
from spinup_tf2.errors import UserError
from spinup_tf2.experiments import calling
from spinup_tf2.experiments.calling import (
    Processes,
    call_experiment,
    resolve_num_cpu,
    resolve_processes,
)
from spinup_tf2.experiments.experiment import NamedAlgorithm
from spinup_tf2.parallel import launched, mpi
from tests.fake_mpi import run_ranks

# Functions of this file are sent to other processes, where it cannot be imported.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def tell(path, seed, logger_kwargs, env_fn=None, **kwargs):
    """An experiment that writes down what it sees."""
    print("hello from the experiment")
    seen = dict(
        process=os.getpid(),
        seed=seed,
        logger_kwargs=logger_kwargs,
        env=env_fn and env_fn().spec.id,
        gravity=env_fn and env_fn().unwrapped.g,
        kwargs=kwargs,
        sys_path=sys.path,
        fast_convolutions=os.environ.get("TF_ENABLE_ONEDNN_OPTS"),
        tensorflow="tensorflow" in sys.modules,
        argv=sys.argv,
        mode=stat.S_IMODE(os.stat(sys.argv[-1]).st_mode),
    )
    with open(path, "w") as file:
        json.dump(seen, file)


def test_an_experiment_has_its_own_process(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "modules")])
    path = tmp_path / "seen.json"
    options = dict(data_dir=str(tmp_path / "my data"), path=str(path), x=(1, 2))
    env = dict(env_name="Pendulum-v1", env_kwargs={"g": 5.0})
    call_experiment("name", tell, seed=4, **options, **env)
    seen = json.loads(path.read_text())
    assert seen["process"] != os.getpid()
    assert seen["seed"] == 4
    assert seen["logger_kwargs"] == {
        "output_dir": str(tmp_path / "my data" / "name" / "name_s4"),
        "exp_name": "name",
    }
    assert (seen["env"], seen["gravity"], seen["kwargs"]) == ("Pendulum-v1", 5.0, {"x": [1, 2]})
    assert seen["sys_path"] == sys.path
    assert not seen["tensorflow"]
    assert seen["fast_convolutions"] == os.environ.get("TF_ENABLE_ONEDNN_OPTS")
    # handed over in a private folder, of which nothing is left
    assert seen["mode"] == 0o700
    assert not os.path.exists(seen["argv"][-1])

    out = capfd.readouterr().out
    before, after = out.split("hello from the experiment\n")
    assert before.startswith("Running experiment:\n\nname\n\nwith kwargs:\n\n")
    assert '"g":\t5.0\n' in before
    assert "End of experiment." in after
    for command in ("plot", "test_policy"):
        assert f"run {command} '{tmp_path}/my data/name/name_s4'" in after


@pytest.mark.parametrize("chosen", [None, "0"])
def test_a_quiet_experiment_with_logger_kwargs_and_convolutions(
    tmp_path, monkeypatch, capfd, chosen
):
    """Unless the user has said something else, TensorFlow is told before it is loaded."""
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    if chosen is not None:
        monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", chosen)
    games = {"CartPole-v1": False, "SuperMarioBros-1-1-v0": True}
    assert {name: EnvFn(name).shows_pictures for name in games} == games
    monkeypatch.setattr(EnvFn, "shows_pictures", property(lambda env_fn: True))
    path, given = tmp_path / "seen.json", {"output_dir": str(tmp_path / "mine")}
    kwargs = dict(path=str(path), env_name="Pendulum-v1", logger_kwargs=given)
    call_experiment("name", tell, quiet=True, **kwargs)
    seen = json.loads(path.read_text())
    assert seen["fast_convolutions"] == (chosen or "1")
    assert seen["logger_kwargs"] == {"quiet": True, **given}
    assert capfd.readouterr().out == "hello from the experiment\n"


def fail(error, **_):
    raise error


def test_a_failed_experiment(tmp_path, capfd):
    with pytest.raises(subprocess.CalledProcessError) as raised:
        call_experiment("name", fail, error=RuntimeError("my mistake"), data_dir=str(tmp_path))
    assert raised.value.returncode == 1
    printed = capfd.readouterr()
    assert "RuntimeError: my mistake" in printed.err
    assert "There appears to have been an error in your experiment." in printed.out
    assert "End of experiment" not in printed.out


def test_the_experiments_user_error_is_raised_here(tmp_path, capfd):
    with pytest.raises(UserError, match="gamma is 3") as raised:
        call_experiment("name", fail, error=UserError("gamma is 3"), data_dir=str(tmp_path))
    assert "in fail" in str(raised.value.__cause__)  # where it was raised
    printed = capfd.readouterr()
    assert "There appears to have been an error" not in printed.out
    assert printed.err == ""


# ---------------------------------------------------------------- without a process


@pytest.fixture
def started(monkeypatch):
    """The experiments that would have been given processes."""
    started = []
    monkeypatch.setattr(calling, "_run_in_fresh_process", lambda run, _: started.append(run))
    return started


@pytest.mark.parametrize("option", ["data_dir", "datestamp", "overwrite", "preset"])
def test_what_logger_kwargs_would_hide_is_refused(tmp_path, started, option):
    given = dict(logger_kwargs={"output_dir": str(tmp_path / "mine")})
    with pytest.raises(UserError, match="would not reach the logger"):
        call_experiment("name", tell, path="x", **given, **{option: "x"})
    assert not started


def test_what_is_said_of_an_experiment(tmp_path, capsys, monkeypatch, started):
    (tmp_path / "own_pendulums.py").write_text(
        "import gymnasium as gym\n"
        "gym.register('OwnPendulum-v0', 'gymnasium.envs.classic_control:PendulumEnv')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    options = dict(data_dir=str(tmp_path), env_name="own_pendulums:OwnPendulum-v0")
    call_experiment("name", tell, path="seen.json", **options)
    out = capsys.readouterr().out
    assert f"test_policy {tmp_path}/name/name_s0 --import own_pendulums\n" in out
    assert "TensorFlow" not in out
    call_experiment("a", NamedAlgorithm("ppo"), env_name="CartPole-v1", data_dir=str(tmp_path))
    assert '"seed":\t0\n}\n\nLoading TensorFlow ...\n' in capsys.readouterr().out


def test_an_environment_that_only_the_script_knows(tmp_path, capfd):
    gym.register("Mine-v0", "gymnasium.envs.classic_control:PendulumEnv")
    EnvFn("Mine-v0")().close()
    with pytest.raises(UserError, match=r"is not registered with gymnasium.*module:EnvId"):
        call_experiment("name", tell, env_name="Mine-v0", path="x", data_dir=str(tmp_path))
    del gym.registry["Mine-v0"]
    assert capfd.readouterr().err == ""
    assert not os.listdir(tmp_path)


def test_other_machines_find_the_experiment_beside_the_run(monkeypatch, tmp_path):
    """Whatever starts the processes gets a path that all machines see, and only this user."""
    started = []

    def run(processes, arguments):
        folder = Path(arguments[1])
        started.append((folder.parent, oct(folder.stat().st_mode & 0o777)))
        return 0

    monkeypatch.setattr(Processes, "run", run)
    kwargs = dict(num_cpu=2, data_dir=str(tmp_path / "data"), quiet=True, path="seen.json")
    call_experiment("name", tell, launcher="env", **kwargs)
    call_experiment("name", tell, **kwargs)
    assert started == [(tmp_path / "data" / "name", "0o700"), (Path(gettempdir()), "0o700")]
    assert not os.listdir(tmp_path / "data" / "name")


def test_in_a_launched_world_the_ranks_are_the_experiment(monkeypatch, tmp_path, started):
    monkeypatch.setattr(launched, "by_mpi", lambda: True)
    ran = []

    def experiment(seed, logger_kwargs):
        ran.append((mpi.proc_id(), os.getpid(), seed))

    run_ranks(3, lambda: call_experiment("name", experiment, data_dir=str(tmp_path), quiet=True))
    assert sorted(ran) == [(rank, os.getpid(), 0) for rank in range(3)]
    assert not started


# ---------------------------------------------------------------- how many processes


def test_num_cpu_and_launcher(monkeypatch):
    monkeypatch.setattr(calling, "available_cores", lambda: 6)
    assert [resolve_num_cpu(n) for n in (3, "auto")] == [3, 6]
    for wrong in (0, -1, 1.5, "4", None, True):
        with pytest.raises(UserError, match="num_cpu is"):
            resolve_num_cpu(wrong)
    assert resolve_processes(2, "env -i") == Processes(2, "env -i")
    with pytest.raises(UserError, match="no processes for it to start"):
        resolve_processes(1, "env -i")

    monkeypatch.setattr(launched, "by_mpi", lambda: True)
    monkeypatch.setattr(mpi, "num_procs", lambda: 4)
    assert [resolve_num_cpu(n) for n in (1, 4, "auto")] == [4, 4, 4]
    with pytest.raises(UserError, match="num_cpu is 3, but the MPI launcher started 4 processes"):
        resolve_num_cpu(3)
    with pytest.raises(UserError, match="no processes for it to start"):
        resolve_processes(4, "env -i")
