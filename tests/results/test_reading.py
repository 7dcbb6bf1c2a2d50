"""What config.json says, of every form in which it has been written."""

import json

import pytest

from spinup_tf2.algos import ALGORITHMS
from spinup_tf2.experiments.checks import signature_of
from spinup_tf2.results.datasets import TELLTALES, algorithm, env_name, settings, without_env
from tests.results.runs import LAMBDA


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"env_name": "Hopper-v2"}, "Hopper-v2"),
        ({"env_fn": "EnvFn(env_name='CartPole-v1', env_kwargs=None)"}, "CartPole-v1"),
        ({"env_fn": "EnvFn(env_name='my_envs:Maze', env_kwargs={'a': 'b-v1'})"}, "my_envs:Maze"),
        ({"env_fn": "CartPole-v1"}, "CartPole-v1"),
        ({"env_fn": "make_plain"}, ""),
        ({"env_fn": "functools.partial(<function make at 0x7f>, 'ALE/Pong-v5')"}, "ALE/Pong-v5"),
        ({"env_fn": LAMBDA, "exp_name": "ppo_envhalfcheetah-v2_cli0-1"}, "halfcheetah-v2"),
        ({"env_fn": LAMBDA, "exp_name": "bench_walker2d-v2"}, "walker2d-v2"),
        ({"env_fn": LAMBDA, "exp_name": "ppo-try-v2x"}, ""),
        ({"env_fn": LAMBDA}, ""),
        ({"env_fn": "<function <lambda> at 0x7f8e2c0b1d08>", "env_name": None}, ""),
        ({}, ""),
        ({"env_name": "a\x1b[2J" + "b" * 1000}, "a\\x1b[2J" + "b" * 250),
    ],
)
def test_env_name(tmp_path, config, name):
    assert env_name(config, tmp_path) == name


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ({"spec": {"env_name": "Maze-v0"}}, "Maze-v0"),
        ({"spec": None, "reason": "because"}, "Teacher-v3"),
        ([], "Teacher-v3"),
    ],
)
def test_env_spec_knows_better_than_the_text_of_a_function(tmp_path, spec, name):
    (tmp_path / "env_spec.json").write_text(json.dumps(spec))
    config = dict(env_fn="functools.partial(<function wrapped>, 'Teacher-v3')")
    assert env_name(config, tmp_path) == name


@pytest.mark.parametrize("name", ALGORITHMS)
def test_arguments_tell_the_algorithm(name):
    assert algorithm(dict.fromkeys(signature_of(name).defaults)) == name
    assert {*TELLTALES.values()} == {*ALGORITHMS}


@pytest.mark.parametrize(
    ("config", "recorded", "name"),
    [
        ({"alpha": 0.2}, "sac2", "sac2"),
        ({"a": 1}, "", ""),
        ({"algo": "npg", "damping_coeff": 0.1}, "trpo", "npg"),
    ],
)
def test_an_algorithm_knows_its_own_name(config, recorded, name):
    assert algorithm(config, recorded) == name


@pytest.mark.parametrize(
    ("name", "env", "shorter"),
    [
        ("ppo_envcartpole-v1", "CartPole-v1", "ppo"),
        ("ppo_env-cartpole-v1_s", "CartPole-v1", "ppo_s"),
        ("ppo_cartpole-v1_h64", "CartPole-v1", "ppo_h64"),
        ("ppo_envale-pong-v5", "ALE/Pong-v5", "ppo"),
        ("ppo_envcartpole-v10", "CartPole-v1", "ppo_envcartpole-v10"),
        ("cartpole-v1", "CartPole-v1", "cartpole-v1"),
        ("ppo", "", "ppo"),
    ],
)
def test_names_of_grids_lose_their_environment(name, env, shorter):
    assert without_env(name, env) == shorter


def test_arguments_of_the_environment_are_settings():
    text = "EnvFn(env_name='A-v0', env_kwargs={'x': 1}, wrappers=('W()',))"
    assert settings({"env_fn": text}) == {"env_kwargs": "{'x': 1}, wrappers=('W()',))"}
    assert settings({"env_fn": "<function make>"}) == {}
