"""What is looked at before anything starts: arguments, environments, needs, directories."""

import functools
import os
import re
import time

import gymnasium as gym
import pytest

import spinup_tf2
import spinup_tf2.training.settings
from spinup_tf2 import user_config
from spinup_tf2.envs.making import EnvFn
from spinup_tf2.errors import UserError
from spinup_tf2.experiments import calling
from spinup_tf2.experiments import experiment as experiments
from spinup_tf2.experiments.calling import call_experiment
from spinup_tf2.experiments.experiment import (
    Experiment,
    check_exp_name,
    check_launch,
    set_replaced_aside,
    setup_logger_kwargs,
)
from spinup_tf2.experiments.grid import ExperimentGrid
from spinup_tf2.files.run_directory import run_lock
from spinup_tf2.parallel import mpi
from tests.fake_mpi import run_ranks


def tanh(*args, **kwargs):
    pass


# ---------------------------------------------------------------- arguments and environments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(env_name=None), "You did not give a value for env_name!"),
        (dict(gamma=2), "gamma is 2; it must be a number between 0 and 1"),
        (dict(steps_per_epoch=3), "steps_per_epoch is 3, which 2 environments"),
        (dict(ac_kwargs=3), "ac_kwargs is 3; it must be a dict"),
        (dict(gama=0.9), r"'gama' is not known here \(arguments of ppo\); did you mean gamma\?"),
        (dict(env_fn=print), "env_fn and env_name were given; env_fn makes the whole environment"),
        (dict(env_fn=gym.Env(), env_name=None), r"env_fn is <.*>; it must be a function that"),
    ],
)
@pytest.mark.parametrize("how", ["call", "grid"])
def test_an_algorithms_arguments_are_checked_before_anything_starts(
    tmp_path, capfd, arguments, message, how
):
    kwargs = dict(env_name="CartPole-v1", num_envs=2) | arguments
    kwargs = {name: value for name, value in kwargs.items() if value is not None}
    run = functools.partial(call_experiment, "name", **kwargs)
    if how == "grid":
        run = ExperimentGrid("name", base=kwargs).run
    with pytest.raises(UserError, match=message):
        run(spinup_tf2.ppo, data_dir=str(tmp_path))
    assert not os.listdir(tmp_path)
    assert capfd.readouterr().out == ""


def test_each_environment_is_checked_once(monkeypatch, tmp_path):
    checked = []
    monkeypatch.setattr(experiments, "check_environment", lambda *known: checked.append(known[0]))
    monkeypatch.setattr(calling, "_run_in_fresh_process", lambda *_: None)
    grid = ExperimentGrid("g")
    grid.add("env_name", ["CartPole-v1", "Pendulum-v1"])
    grid.add("seed", [0, 1])
    grid.run(tanh, data_dir=str(tmp_path), quiet=True)
    assert checked == [EnvFn("CartPole-v1"), EnvFn("Pendulum-v1")]


def test_what_rank_0_finds_is_raised_on_all_ranks(tmp_path):
    (tmp_path / "progress.txt").touch()

    def check():
        experiment = Experiment("name", tanh, {}, {"output_dir": str(tmp_path)})
        with pytest.raises(UserError, match="already holds a run"):
            check_launch([experiment])
        return mpi.proc_id()

    assert run_ranks(3, check) == [0, 1, 2]


# ---------------------------------------------------------------- names and directories


@pytest.mark.parametrize(
    ("seed", "datestamp", "expected"),
    [
        (None, False, "D/name"),
        (3, False, "D/name/name_s3"),
        (0, False, "D/name/name_s0"),
        (None, True, "D/2026-01-02_name"),
        (3, True, "D/2026-01-02_name/2026-01-02_03-04-05-name_s3"),
    ],
)
def test_setup_logger_kwargs(monkeypatch, seed, datestamp, expected):
    now = time.struct_time((2026, 1, 2, 3, 4, 5, 4, 2, 0))
    strftime = time.strftime
    monkeypatch.setattr(experiments.time, "strftime", lambda form: strftime(form, now))
    kwargs = setup_logger_kwargs("name", seed, "D", datestamp)
    assert kwargs == {"output_dir": expected, "exp_name": "name"}


def test_user_config_has_the_defaults(monkeypatch):
    monkeypatch.setattr(user_config, "DEFAULT_DATA_DIR", "/D")
    assert setup_logger_kwargs("name")["output_dir"] == "/D/name"
    monkeypatch.setattr(user_config, "FORCE_DATESTAMP", True)
    assert re.fullmatch(r"/D/\d{4}-\d\d-\d\d_name", setup_logger_kwargs("name")["output_dir"])


@pytest.mark.parametrize(
    "exp_name",
    [
        *("", ".", "..", "a/b", "/a", "../a", "~", "~root", "-rf", "a\0b", "a\nb", "\x1b[2J"),
        *("\udcff", 3, None, b"a"),
    ],
)
def test_an_experiment_needs_a_plain_name(exp_name, tmp_path):
    with pytest.raises(UserError, match="exp_name"):
        check_exp_name(exp_name)
    with pytest.raises(UserError, match="exp_name"):
        setup_logger_kwargs(exp_name, 0, tmp_path)


def test_a_seed_is_no_path(tmp_path):
    with pytest.raises(UserError, match=r"seed '/\.\./\.\./x'; it must be a plain name"):
        setup_logger_kwargs("name", "/../../x", tmp_path)


# ---------------------------------------------------------------- runs that are replaced


def replacing(run_dir, rows="progress.txt", **kwargs):
    logger_kwargs = dict(output_dir=str(run_dir), output_fname=rows, overwrite=True)
    return Experiment("name", tanh, kwargs, logger_kwargs)


def test_runs_are_set_aside_all_or_none(tmp_path):
    rows = dict(a="progress.txt", b="rows.txt")
    for folder, name in rows.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).touch()
    every = [replacing(tmp_path / folder, name) for folder, name in rows.items()]
    every.append(replacing(tmp_path / "none"))

    def left():
        return [name for folder, name in rows.items() if (tmp_path / folder / name).exists()]

    with run_lock(tmp_path / "b"), pytest.raises(UserError, match="b is being written to"):
        set_replaced_aside(every)
    assert left() == [*rows.values()]
    run_ranks(3, lambda: set_replaced_aside(every))
    assert left() == []
    assert {path.name for path in tmp_path.rglob("*.txt")} == {*rows.values()}  # none is lost


@pytest.mark.parametrize("resume", [False, True])
def test_what_is_resumed_is_not_moved(tmp_path, resume):
    """The logger is also told to overwrite, which an algorithm that resumes does not heed."""
    (tmp_path / "progress.txt").touch()
    set_replaced_aside([replacing(tmp_path, resume=resume)])
    assert (tmp_path / "progress.txt").exists() == resume
