"""Gait diagrams: which feet are on the ground, and what that says of a gait."""

import numpy as np
import pytest

pytest.importorskip("pybullet", reason='needs pip install ".[quadruped]"')

from spinup_tf2.examples import quadruped_gait
from spinup_tf2.utils.run_utils import EnvFn

T, F = True, False
TROT = np.array([[T, F, F, T], [F, T, T, F]] * 3)  # front right with rear left
WALK = "data/quadruped-walk-demo/quadruped-walk-demo_s0"


def test_measures_of_simple_gaits():
    assert quadruped_gait.measures(TROT) == dict(stance=0.5, flight=0.0, diagonal=1.0)
    hops = np.array([[T, T, T, T], [F, F, F, F], [F, F, F, F]])
    assert quadruped_gait.measures(hops) == dict(stance=1 / 3, flight=2 / 3, diagonal=1.0)
    bounds = np.array([[T, T, F, F], [F, F, T, T]])
    assert quadruped_gait.measures(bounds) == dict(stance=0.5, flight=0.0, diagonal=0.0)


def test_the_demonstration_is_seen_to_be_a_trot():
    env = EnvFn("QuadrupedWalk-v0", {"action_repeat": 1, "max_episode_steps": 3000})()
    shown = (env.unwrapped.target_policy(0.05 * i) for i in range(60))
    feet = quadruped_gait.footfalls(env, lambda obs: next(shown), 25, 1500, seed=0)
    env.close()
    assert feet.shape == (1500, 4)
    assert next(shown, None) is None  # an action for 25 steps
    measured = quadruped_gait.measures(feet[500:])
    assert measured["diagonal"] > 0.8
    assert measured["flight"] == 0


def test_it_ends_with_the_episode_and_passes_the_command_on():
    env = EnvFn("QuadrupedCommand-v0", {"max_episode_steps": 7})()
    told = []

    def stand(obs):
        told.append(obs[95:98])
        return np.zeros(12)

    feet = quadruped_gait.footfalls(env, stand, 1, 400, seed=0, command=(0.5, 0.0, -0.25))
    env.close()
    assert feet.shape == (7, 4)
    assert feet.all()
    np.testing.assert_allclose(told[0], (0.5, 0.0, -0.25))  # later turned towards the heading
    np.testing.assert_allclose(np.array(told)[:, :2], [(0.5, 0.0)] * 7)


def test_kept_agents_are_drawn(tmp_path, capsys):
    quadruped_gait.main([WALK, "--seconds", "1", "--savefig", str(tmp_path / "gait.png")])
    assert f"{WALK}: stance 0." in capsys.readouterr().out
    assert (tmp_path / "gait.png").read_bytes().startswith(b"\x89PNG")
