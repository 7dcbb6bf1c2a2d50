"""Runs that begin with the networks of another one, and Gaussians with a width of their choice."""

import json
import shutil

import gymnasium as gym
import numpy as np
import pytest

from spinup_tf2 import ppo, sac, td3, trpo
from spinup_tf2.core.nets.actor_critic import CNNActorCritic, MLPActorCritic
from spinup_tf2.core.workers.randomness import environment_seed
from spinup_tf2.errors import UserError
from spinup_tf2.files.saves import WEIGHTS
from spinup_tf2.training.saved_policy import load_policy
from tests import off_policy_runs
from tests import on_policy_runs as runs
from tests.images import Lamp
from tests.on_policy_runs import make

SMALL = dict(ac_kwargs=dict(hidden_sizes=(8,)), steps_per_epoch=64, epochs=1, max_ep_len=20)


def train(algorithm, path, **kwargs):
    family = off_policy_runs if algorithm in (sac, td3) else runs
    return family.train(algorithm, path, make("Pendulum-v1"), **SMALL | kwargs)[0]


def assert_same_weights(ours, theirs):
    for one, other in zip(ours.variables, theirs.variables, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """The directory of a run."""
    path = tmp_path_factory.mktemp("first")
    train(ppo, path)
    return path


@pytest.mark.parametrize(
    ("algorithm", "kwargs"),
    [(ppo, dict(pi_lr=0.0, vf_lr=0.0, init="orthogonal")), (sac, dict(lr=0.0))],
    ids=lambda x: x.__name__ if callable(x) else "",
)
def test_networks_are_those_of_the_other_run(algorithm, kwargs, tmp_path):
    first = train(algorithm, tmp_path / "first")
    # Nothing is learned, so that what the second run returns is what it began with.
    second = train(algorithm, tmp_path / "second", seed=7, init_from=tmp_path / "first", **kwargs)
    assert_same_weights(second, first)


def test_networks_that_are_trained_act_from_the_first_step_on(tmp_path):
    """start_steps is for fresh ones; config.json keeps what was given."""
    first = train(td3, tmp_path / "first")
    actions = []

    class Watching(gym.Wrapper):
        def step(self, action):
            actions.append(action)
            return self.env.step(action)

    off_policy_runs.train(
        td3,
        tmp_path / "second",
        lambda: Watching(gym.make("Pendulum-v1")),
        **SMALL | dict(init_from=tmp_path / "first", start_steps=1000, num_test_episodes=0),
        act_noise=0.0,
        pi_lr=0.0,
    )
    obs, _ = gym.make("Pendulum-v1").reset(seed=environment_seed(0, 0))
    np.testing.assert_allclose(actions[0], 2 * first.pi(obs[None])[0], rtol=1e-4)
    assert json.loads((tmp_path / "second" / "config.json").read_text())["start_steps"] == 1000


def test_an_algorithm_takes_the_networks_of_a_relative_of_it(tmp_path):
    first = train(ppo, tmp_path / "first")
    second = train(trpo, tmp_path / "second", init_from=str(tmp_path / "first"), vf_lr=0.0)
    for one, other in zip(second.v.variables, first.v.variables, strict=True):
        np.testing.assert_array_equal(one, other)


def test_statistics_of_observations_are_taken_over(tmp_path):
    kwargs = dict(normalize_obs=True, pi_lr=0.0, vf_lr=0.0)
    train(ppo, tmp_path / "first", **kwargs)
    train(ppo, tmp_path / "second", init_from=tmp_path / "first", epochs=1, **kwargs)
    obs = np.array([0.5, -0.5, 3.0], np.float32)
    counts = []
    for name in ("first", "second"):
        with np.load(tmp_path / name / "tf2_save" / WEIGHTS) as arrays:
            counts.append(max(float(x) for x in arrays.values() if x.shape == ()))
        load_policy(tmp_path / name / "tf2_save")(obs)
    assert counts[1] == 2 * counts[0]


def test_a_resumed_run_does_not_ask_for_it_again(first, tmp_path):
    again = dict(init_from=shutil.copytree(first, tmp_path / "first"), deterministic_resume=True)
    whole = train(ppo, tmp_path / "whole", epochs=2, **again)
    train(ppo, tmp_path / "second", epochs=1, **again)
    (tmp_path / "first").rename(tmp_path / "elsewhere")
    assert_same_weights(train(ppo, tmp_path / "second", epochs=2, resume=True, **again), whole)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        (
            dict(ac_kwargs=dict(hidden_sizes=(9,))),
            r"2 is float32 \(3, 8\), and here it is float32 \(3, 9",
        ),
        (dict(ac_kwargs=dict(hidden_sizes=(8, 8))), "variable 4 is"),
        (
            dict(ac_kwargs=dict(hidden_sizes=(8,), activation="relu")),
            "activation is 'tanh', and here it is 'relu'",
        ),
        (dict(normalize_obs=True), "normalize_obs is False, and here it is True"),
        (dict(init_from="nowhere"), "There is no directory nowhere"),
        (dict(init_from=3), "init_from is 3; it must be the directory of a run"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(kwargs, message, first, tmp_path):
    with pytest.raises(UserError, match=message):
        train(ppo, tmp_path / "second", **dict(init_from=first) | kwargs)
    assert not (tmp_path / "second" / "config.json").exists()


def test_another_background_is_refused(tmp_path):
    """It is in no shape."""

    def small(name, **more):
        layers = dict(conv=((2, 8, 8),), hidden_sizes=(4,), **more)
        return dict(env_fn=Lamp, ac_kwargs=layers, logger_kwargs=dict(output_dir=tmp_path / name))

    ppo(**small("first"), epochs=1, steps_per_epoch=8)
    again = dict(init_from=tmp_path / "first", epochs=1, steps_per_epoch=8)
    ppo(**small("second"), **again)
    with pytest.raises(UserError, match=r"background is 0\.0, and here it is 0.34"):
        ppo(**small("third", background=0.34), **again)


def test_weights_that_are_no_numbers_of_the_networks_type_are_refused(first, tmp_path):
    shutil.copytree(first, tmp_path / "first")
    path = tmp_path / "first" / "tf2_save" / WEIGHTS
    with np.load(path) as arrays:
        arrays = {**arrays}
    refused = {np.float32: "NaN or infinity", complex: "complex128", str: "<U"}
    refused |= {bool: r"variable 1 is bool .*here it is float32", float: "variable 1 is float64"}
    for kind, message in refused.items():
        np.savez(path, **arrays | {"0": (arrays["0"] * np.nan).astype(kind)})
        with pytest.raises(UserError, match=message):
            train(ppo, tmp_path / "second", init_from=tmp_path / "first")


# ----------------------------------------------------------------------- log_std_init


@pytest.mark.parametrize("conv", [False, True])
def test_the_first_width_of_a_gaussian(conv):
    box = gym.spaces.Box(-1, 1, (2,), np.float32)
    images = gym.spaces.Box(0, 255, (8, 8, 3), np.uint8)
    make_ac = CNNActorCritic if conv else MLPActorCritic
    space = images if conv else gym.spaces.Box(-1, 1, (3,), np.float32)
    kwargs = dict(hidden_sizes=(4,)) | (dict(conv=((2, 3, 2),)) if conv else {})
    for given, expected in (({}, -0.5), (dict(log_std_init=-1.5), -1.5)):
        ac = make_ac(space, box, **kwargs, **given)
        np.testing.assert_allclose(ac.pi.log_std, expected)
    with pytest.raises(UserError, match="log_std_init is 'wide'; it must be a number"):
        make_ac(space, box, **kwargs, log_std_init="wide")
