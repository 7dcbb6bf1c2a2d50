"""What is looked at before anything starts."""

import functools
import os

import gymnasium as gym
import pytest
import spinup_tf2.training.settings

import spinup_tf2
from spinup_tf2.envs.making import EnvFn
from spinup_tf2.errors import UserError
from spinup_tf2.experiments import calling
from spinup_tf2.experiments import experiment as experiments
from spinup_tf2.experiments.calling import call_experiment
from spinup_tf2.experiments.experiment import Experiment, check_launch, set_replaced_aside
from spinup_tf2.experiments.grid import ExperimentGrid
from spinup_tf2.parallel import mpi
from tests.fake_mpi import run_ranks


def tanh(*args, **kwargs):
    pass


@pytest.mark.parametrize("run", ["call_experiment", "grid"])
def test_each_environment_is_checked_once(monkeypatch, tmp_path, run):
    checked = []
    monkeypatch.setattr(experiments, "check_environment", lambda env_fn, _: checked.append(env_fn))
    monkeypatch.setattr(calling, "_run_in_fresh_process", lambda *_: None)
    if run == "grid":
        grid = ExperimentGrid("g")
        grid.add("env_name", ["CartPole-v1", "Pendulum-v1"])
        grid.add("seed", [0, 1])
        grid.run(tanh, data_dir=str(tmp_path), quiet=True)
        assert checked == [EnvFn("CartPole-v1"), EnvFn("Pendulum-v1")]
    else:
        call_experiment("name", tanh, env_name="CartPole-v1", data_dir=str(tmp_path), quiet=True)
        assert checked == [EnvFn("CartPole-v1")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(epoch=3), r"epoch is not an argument of ppo; did you mean epochs\?"),
        (dict(env_name=None), "You did not give a value for env_name!"),
        (dict(gamma=2), "gamma is 2; it must be a number between 0 and 1"),
        (dict(epochs=1.5), "epochs is 1.5; it must be a whole number"),
        (dict(steps_per_epoch=3), "steps_per_epoch is 3, which 2 environments"),
        (dict(ac_kwargs=3), "ac_kwargs is 3; it must be a dict"),
        (dict(ac_kwargs=dict(hidden=[3])), "'hidden' in ac_kwargs is not an argument of"),
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


def test_own_networks_have_arguments_of_their_own(monkeypatch, tmp_path):
    started = []
    monkeypatch.setattr(calling, "_run_in_fresh_process", lambda run, _: started.append(run))
    kwargs = dict(actor_critic=tanh, ac_kwargs=dict(anything=1), epochs=1e1, quiet=True)
    call_experiment("a", spinup_tf2.ppo, env_name="CartPole-v1", data_dir=str(tmp_path), **kwargs)
    [experiment] = started
    assert type(experiment.kwargs["epochs"]) is int


def needs_env(env_fn, seed, logger_kwargs, size=1):
    pass


@functools.wraps(needs_env)
def with_more(width, **kwargs):
    needs_env(size=2 * width, **kwargs)


@spinup_tf2.training.settings.algorithm()
def own_algorithm(env_fn, seed, logger_kwargs, size=1, **options):
    pass


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (needs_env, dict(nonsense=3), r"needs_env .*unexpected keyword argument 'nonsense'"),
        (needs_env, dict(env_name=None), r"needs_env .*missing a required argument: 'env_fn'"),
        (lambda: None, {}, r"<lambda> .*It takes nothing, and would be given seed, "),
        (functools.partial(spinup_tf2.ppo, gamma=0.9), dict(gama=1), "argument 'gama'"),
        (functools.partial(needs_env, size=3), {}, None),
        (own_algorithm, dict(size=2, num_envs=2), None),
        (own_algorithm, dict(nonsense=2), "'nonsense'"),
        (with_more, dict(width=2), None),
        (tanh, dict(anything=1), None),
        (dict, dict(anything=1), None),  # it tells nothing
    ],
)
def test_what_a_function_does_not_take_is_refused_before_anything_starts(
    monkeypatch, tmp_path, function, arguments, message
):
    started = []
    monkeypatch.setattr(calling, "_run_in_fresh_process", lambda run, _: started.append(run))
    kwargs = dict(env_name="CartPole-v1", data_dir=str(tmp_path), quiet=True) | arguments
    kwargs = {name: value for name, value in kwargs.items() if value is not None}
    if message is None:
        call_experiment("ce", function, **kwargs)
        assert len(started) == 1
        return
    with pytest.raises(UserError, match=f"(?s){message}"):
        call_experiment("ce", function, **kwargs)
    assert not started
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(("resume", "stays"), [(False, False), (True, True)])
def test_what_is_resumed_is_not_removed(tmp_path, resume, stays):
    """The logger is also told to overwrite, which an algorithm that resumes does not heed."""
    (tmp_path / "progress.txt").touch()
    logger_kwargs = dict(output_dir=str(tmp_path), overwrite=True)
    experiment = Experiment("name", tanh, dict(resume=resume), logger_kwargs)
    run_ranks(3, lambda: set_replaced_aside([experiment]))
    assert (tmp_path / "progress.txt").exists() == stays


def test_what_rank_0_finds_is_raised_on_all_ranks(tmp_path):
    (tmp_path / "progress.txt").touch()

    def check():
        logger_kwargs = {"output_dir": str(tmp_path)}
        experiment = Experiment("name", tanh, {}, logger_kwargs)
        with pytest.raises(UserError, match="already holds a run"):
            check_launch([experiment])
        return mpi.proc_id()

    assert run_ranks(3, check) == [0, 1, 2]
