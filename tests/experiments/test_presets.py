"""The presets that come with the package: each fits the environments it names, and trains there."""

from fnmatch import fnmatchcase
from importlib.util import find_spec

import gymnasium as gym
import pytest

from spinup_tf2 import algos
from spinup_tf2.arguments.checks import PYTHON_ONLY
from spinup_tf2.arguments.signatures import read_signature
from spinup_tf2.envs.making import EnvFn
from spinup_tf2.experiments.checks import check_experiment
from spinup_tf2.experiments.presets import as_flags, load, presets_for, tables

EVERY = [(algorithm, name) for algorithm in algos.ALGORITHMS for name in tables(algorithm)]
NEEDS = {
    **{"mujoco": "mujoco", "atari": "ale_py", "mario": "nes_py", "quadruped": "pybullet"},
    **{"procgen": "envpool", "box2d": "Box2D", "minatar": "minatar"},
}
every_preset = pytest.mark.parametrize(("algorithm", "name"), EVERY)


def ids_of(patterns):
    """The registered environments that some patterns stand for."""
    if find_spec("ale_py"):
        gym.register_envs(__import__("ale_py"))
    return [env for env in gym.registry if any(fnmatchcase(env, each) for each in patterns)]


@every_preset
def test_every_preset_fits_every_environment_that_it_names(algorithm, name):
    table, known = tables(algorithm)[name], read_signature(algos.module_of(algorithm), algorithm)
    assert table.doc.endswith(".")
    assert "\n" not in table.doc
    for part in table.parts:
        assert part.origin
        for pattern in part.fits or ():
            assert any(fnmatchcase(pattern.replace("*", "v0"), each) for each in table.fits)
    for env in {table.env, *ids_of(table.fits)}:
        preset = load(algorithm, name, env)
        assert preset == presets_for(algorithm, env)[name]
        assert {*preset.settings} <= {*known.defaults} - {*PYTHON_ONLY}
        check_experiment(algorithm, preset.arguments, num_procs=1)
        set_by_it = as_flags(preset.settings | dict(env_kwargs=preset.env_kwargs))
        assert {*preset.origins} == {*set_by_it}


def test_every_algorithm_has_a_preset_for_classic_control():
    for algorithm, actions in algos.ALGORITHMS.items():
        continuous, discrete = (
            actions != f"{kind}_action_spec" for kind in ("discrete", "bounded")
        )
        envs = ["Pendulum-v1", "MountainCarContinuous-v0"] * continuous
        envs += ["CartPole-v1", "Acrobot-v1", "MountainCar-v0"] * discrete
        for env in envs:
            assert "classic" in presets_for(algorithm, env), (algorithm, env)


def test_a_preset_is_changed_by_nobody():
    first = load("ppo", "mario")
    first.settings["ac_kwargs"]["conv"][0][0] = first.env_kwargs["actions"] = None
    assert load("ppo", "mario").settings["ac_kwargs"]["conv"][0][0] == 16
    assert load("ppo", "mario").env_kwargs["actions"] == "run"


# ------------------------------------------------------------------------------------ training

FAST = [("vpg", "classic")]
# The first of each algorithm and of each preset; the others combine what these have.
SOME = [
    pair for i, pair in enumerate(EVERY) if not {*pair} <= {x for each in EVERY[:i] for x in each}
]


def shrunken(preset):
    """Its settings, with as little work as they allow."""
    s = preset.settings
    small = dict(num_envs=2, steps_per_epoch=2 * s.get("n_steps", 4), epochs=1, minibatch_size=4)
    small |= dict(train_pi_iters=1, train_v_iters=1, num_test_episodes=0, checkpoint_freq=0)
    small |= dict(n_pi=2, aux_minibatch_size=4)
    small |= dict(start_steps=4, update_after=2, update_every=2, batch_size=4, replay_size=50)
    defaults = read_signature(algos.module_of(preset.algorithm), preset.algorithm).defaults
    known = {name: value for name, value in small.items() if name in defaults}
    if s.get("minibatch_size") is None:
        known.pop("minibatch_size", None)
    return s | known


@pytest.mark.parametrize(
    ("algorithm", "name"),
    [each if each in FAST else pytest.param(*each, marks=pytest.mark.slow) for each in SOME],
)
def test_presets_train(tmp_path, algorithm, name):
    for kind, module in NEEDS.items():
        if name.startswith(kind) and find_spec(module) is None:
            pytest.skip(f"needs {module}")
    preset = load(algorithm, name)
    algos.load(algorithm)(
        EnvFn(preset.env, preset.env_kwargs),
        **shrunken(preset),
        logger_kwargs=dict(output_dir=str(tmp_path), preset=name, quiet=True),
    )
    assert len((tmp_path / "progress.txt").read_text().splitlines()) == 2
