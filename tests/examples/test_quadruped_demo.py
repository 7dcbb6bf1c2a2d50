"""The quadruped that is shown how to walk: what it is shown, that it imitates it, and goes on."""

import shutil

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pybullet", reason='needs pip install ".[quadruped]"')

from spinup_tf2.envs.quadruped.gait import trot
from spinup_tf2.errors import UserError
from spinup_tf2.examples import quadruped_demo
from spinup_tf2.experiments.presets import load
from spinup_tf2.training.saved_policy import load_policy
from spinup_tf2.utils.run_utils import EnvFn

WALK = EnvFn("QuadrupedWalk-v0", {})


@pytest.fixture
def env():
    env = WALK()
    yield env
    env.close()


def test_every_observation_is_shown_the_trot_of_its_time(env):
    obs, act = quadruped_demo.demonstrate(env, 450, noise=0.2, seed=3)
    assert obs.shape == (450, 95)
    assert act.shape == (450, 12)
    sine, cosine = obs[:, 93], obs[:, 94]
    t = np.arctan2(sine, cosine) / (2 * np.pi * 2.5)  # the clock's time, of a period of 0.4 s
    for t_i, act_i in zip(t, act, strict=True):
        np.testing.assert_allclose(act_i, env.unwrapped.action_of(trot(t_i)), atol=1e-4)
    # The robot has not done as it was shown: its last action is beside that, by the noise.
    away = obs[1:400, 33:45] - act[:399]
    np.testing.assert_allclose(away[:300].std(), 0.2, atol=0.03)


def test_the_clone_does_what_it_was_shown(env, tmp_path):
    logger_kwargs = dict(output_dir=str(tmp_path), exp_name="clone", quiet=True)
    quadruped_demo.clone(WALK, 0, logger_kwargs, steps=1000, passes=20)
    losses = pd.read_table(tmp_path / "progress.txt")["LossPi"].to_numpy()
    assert len(losses) == 20
    assert losses[-1] < losses[0] / 10
    act = load_policy(tmp_path / "tf2_save", deterministic=True)
    obs, shown = quadruped_demo.demonstrate(env, 100, noise=0.2, seed=7)  # of another seed
    errors = np.array([act(each) for each in obs]) - shown
    assert np.mean(errors**2) < np.mean((shown - shown.mean(0)) ** 2) / 10
    sampled = load_policy(tmp_path / "tf2_save", seed=0)
    noise = [sampled(obs[0]) - act(obs[0]) for _ in range(200)]
    np.testing.assert_allclose(np.log(np.std(noise)), -1.5, atol=0.05)


def test_an_imitation_that_is_complete_stays_and_a_part_of_one_does_not(tmp_path):
    preset = load("ppo", "quadruped-walk")
    env_fn = EnvFn(preset.env, preset.env_kwargs)
    logger_kwargs = dict(output_dir=str(tmp_path), exp_name="clone", quiet=True)
    assert quadruped_demo.clone(env_fn, 0, logger_kwargs, steps=100, passes=2)
    before = (tmp_path / "progress.txt").read_text()
    assert not quadruped_demo.clone(env_fn, 0, logger_kwargs, steps=100, passes=2, resume=True)
    with pytest.raises(UserError, match="its steps was 100 and is now 200"):
        quadruped_demo.clone(env_fn, 0, logger_kwargs, steps=200, passes=2, resume=True)
    shutil.rmtree(tmp_path / "tf2_save")
    (tmp_path / "progress.txt").write_text(before[: before.rindex("\n", 0, -1) + 5])
    assert quadruped_demo.clone(env_fn, 0, logger_kwargs, steps=100, passes=2, resume=True)
    assert (tmp_path / "progress.txt").read_text() == before
    assert (tmp_path / "tf2_save").exists()
