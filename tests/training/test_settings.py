"""The settings of a run, and what makes a function an algorithm."""

import inspect
import sys

import numpy as np
import pytest
from typing_extensions import Unpack

from spinup_tf2 import ppo, vpg
from spinup_tf2.algos import ALGORITHMS, load, module_of
from spinup_tf2.arguments.signatures import NOT_DESCRIBED
from spinup_tf2.arguments.table import OPTIONS, OnPolicyOptions
from spinup_tf2.cli.resume import parse_resume
from spinup_tf2.envs.making import EnvFn
from spinup_tf2.errors import UserError
from spinup_tf2.experiments.presets import presets_for
from spinup_tf2.training.settings import Settings, algorithm
from tests.fake_mpi import run_ranks


@algorithm(num_envs=3)
def told(env_fn, seed: int = 0, *, gamma: float = 0.9, **options: Unpack[OnPolicyOptions]):
    """Returns what it was told."""
    return dict(env_fn=env_fn, seed=seed, gamma=gamma) | options


def test_arguments_that_are_not_given_have_their_defaults():
    expected = dict(seed=0, gamma=0.9) | {name: row.default for name, row in OPTIONS.items()}
    assert told(print) == expected | dict(env_fn=print, num_envs=3)
    given = dict(env_fn=print, seed=5, gamma=0.5, num_envs=1, resume=True, test_freq=7)
    assert told(print, 5, gamma=0.5, num_envs=1, resume=True, test_freq=7) == expected | given


def test_numbers_of_numpy_become_those_of_python():
    heard = told(print, np.int64(5), gamma=np.float32(0.5), stop_after=np.str_("8h"))
    heard |= dict(nested=vpg_kwargs(dict(hidden_sizes=[np.int32(8), (np.int64(9),)])))
    assert repr([heard[name] for name in ("seed", "gamma", "stop_after", "nested")]) == (
        "[5, 0.5, '8h', {'hidden_sizes': [8, (9,)]}]"
    )


def vpg_kwargs(ac_kwargs):
    """What an algorithm gets as ac_kwargs."""

    @algorithm()
    def kwargs_told(env_fn, ac_kwargs=None, seed: int = 0, **options: Unpack[OnPolicyOptions]):
        return ac_kwargs

    return kwargs_told(print, ac_kwargs)


def test_the_id_of_an_environment_becomes_what_makes_it():
    env_fn = told("CartPole-v1")["env_fn"]
    assert isinstance(env_fn, EnvFn)
    assert env_fn.env_name == "CartPole-v1"


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        (dict(gamma=1.5), "gamma is 1.5; it must be a number between 0 and 1"),
        (dict(gamma=10**400), "gamma is 10+; it must be a number between 0 and 1"),
        (dict(track=[["tensorboard"]]), "track is .* it must be a list of some of"),
        (dict(num_envs=0), "num_envs is 0; it must be a whole number of at least 1"),
        (dict(deterministic_resume=True, checkpoint_freq=0), "checkpoint_freq is 0"),
    ],
)
def test_arguments_are_checked_options_too(kwargs, message):
    with pytest.raises(UserError, match=message):
        told(print, **kwargs)


@pytest.mark.parametrize(
    ("logger_kwargs", "message"),
    [
        ("data/run", "logger_kwargs is 'data/run'; it must be a dict"),
        (dict(outputdir="x"), "logger_kwargs are those of EpochLogger: .* 'outputdir'"),
        (dict(output_dir="x", overwrite=True), "resume continues a run, and overwrite removes"),
    ],
)
def test_logger_kwargs_are_arguments(logger_kwargs, message):
    with pytest.raises(UserError, match=message):
        vpg("CartPole-v1", logger_kwargs=logger_kwargs, resume=True)


def test_a_default_that_breaks_a_rule_is_of_an_argument_with_another_meaning():
    """And checks of several arguments are left out where some of them are not there."""

    @algorithm()
    def own(
        env_fn,
        beta: float = 0.0,
        coeff: float = 0.1,
        objective: str = "penalty",
        train_aux_iters: int = 2,
        target_entropy: float = 0.1,
        n_steps: int = 3,
        replay_size: int = 1000,
        steps_per_epoch: int = 4000,
        weights: object = None,
        **options: Unpack[OnPolicyOptions],
    ):
        return beta, target_entropy

    assert own(print, -1.0, target_entropy=0.3, weights=np.ones(3)) == (-1.0, 0.3)
    with pytest.raises(UserError, match="n_steps is 0"):
        own(print, n_steps=0)
    with pytest.raises(UserError, match="beta is 0"):  # with a default that its rule allows
        ppo("CartPole-v1", objective="penalty", beta=0)


def test_defaults_are_of_options():
    def own(env_fn, **options: Unpack[OnPolicyOptions]):
        """Does nothing."""

    with pytest.raises(TypeError, match="num_env, which is no shared option"):
        algorithm(num_env=4)(own)


class Begun(Exception):
    """Nothing was wrong with the arguments. Its argument are the settings."""


@pytest.fixture
def begun(monkeypatch):
    """Algorithms raise Begun where they would make environments."""

    def environments(settings, *args):
        raise Begun(settings)

    for name in ALGORITHMS:
        load(name)
        monkeypatch.setattr(sys.modules[module_of(name)], "environments", environments)


@pytest.mark.parametrize(
    ("name", "useless", "others", "why", "useful"),
    [
        ("ppo", dict(beta=2.0), {}, "objective is 'clip'", dict(objective="penalty")),
        ("ppo", dict(clip_ratio=0.1), dict(objective="penalty"), "objective is 'penalty'", {}),
        (
            *("ppo", dict(recompute_adv=True), dict(train_pi_iters=1, train_v_iters=1)),
            *("there is one pass over an epoch's experience", dict(train_v_iters=2)),
        ),
        ("ppg", dict(vf_coef=1.0), dict(arch="detach"), "arch is 'detach'", dict(arch="shared")),
        ("sac", dict(target_entropy=-2.0), {}, "alpha is a number", dict(alpha="auto")),
        ("ppo", dict(test_freq=5), {}, "num_test_episodes is 0", dict(num_test_episodes=1)),
        (
            "sac",
            dict(start_steps=9),
            dict(init_from="x"),
            "a policy from init_from acts at once",
            {},
        ),
        ("vpg", dict(keep_checkpoints=9), dict(checkpoint_freq=0), "checkpoint_freq is 0", {}),
    ],
)
def test_arguments_without_effect_are_said(name, useless, others, why, useful, begun, capsys):
    """And those that have one, since others are as they are by default or as `useful`, are not."""
    with pytest.raises(Begun):
        load(name)("CartPole-v1", **useless, **others)
    expected = {
        f"Warning: {x} is {value!r}, which has no effect: {why}." for x, value in useless.items()
    }
    assert {*capsys.readouterr().out.splitlines()} == expected
    for more in (dict(resume=True), dict(logger_kwargs=dict(preset="classic"))):
        with pytest.raises(Begun):  # it was said before; a preset is for many cases
            load(name)("CartPole-v1", **useless, **others, **more)
    with pytest.raises(Begun):
        load(name)("CartPole-v1", **useless, **useful)
    assert capsys.readouterr().out == ""


def test_presets_have_no_argument_without_effect(begun, capsys):
    presets = [preset for name in ALGORITHMS for preset in presets_for(name).values()]
    for preset in presets:
        with pytest.raises(Begun):
            load(preset.algorithm)("CartPole-v1", **preset.settings)
    assert len(presets) > 10
    assert capsys.readouterr().out == ""


def settings(**kwargs):
    return Settings.of(dict(steps_per_epoch=240, epochs=1, logger_kwargs=None, options=kwargs))


@pytest.mark.parametrize(("num_envs", "num_procs", "steps"), [(1, 1, 240), (3, 1, 80), (3, 2, 40)])
def test_steps_of_each_environment(num_envs, num_procs, steps):
    given = settings(num_envs=num_envs)
    assert run_ranks(num_procs, lambda: given.local_steps) == [steps] * num_procs


@pytest.mark.parametrize("name", ALGORITHMS)
def test_all_arguments_are_recorded_and_nothing_else(name, begun):
    function = load(name)
    with pytest.raises(Begun) as found:
        function(print, seed=3, resume=True, save_freq=2)
    parameters = inspect.signature(function).parameters
    expected = {name: parameter.default for name, parameter in parameters.items()}
    [settings] = found.value.args
    assert settings.arguments == expected | dict(env_fn=print, seed=3, resume=True, save_freq=2)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_algorithms_describe_all_their_arguments(name):
    assert NOT_DESCRIBED not in inspect.getdoc(load(name))


def copy_of_vpg(env_fn, **kwargs):
    """A copy of an algorithm in another module, which still calls itself vpg."""
    source = inspect.getsource(sys.modules[vpg.__module__])
    copy = dict(__name__="my_vpg")
    exec(source, copy)
    return copy["vpg"](env_fn, **kwargs)


@pytest.mark.parametrize("function", [vpg, copy_of_vpg])
def test_resume_does_not_go_on_with_a_changed_copy_by_the_original(tmp_path, function):
    sizes = dict(epochs=1, steps_per_epoch=20, ac_kwargs=dict(hidden_sizes=(4,)))
    function("CartPole-v1", **sizes, logger_kwargs=dict(output_dir=str(tmp_path), quiet=True))
    if function is vpg:
        assert parse_resume([str(tmp_path)])[1] == "vpg"
    else:
        with pytest.raises(UserError, match=r"with an algorithm, .* that only this knows"):
            parse_resume([str(tmp_path)])
