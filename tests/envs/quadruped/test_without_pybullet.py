"""What must work, or say what is missing, where PyBullet is not installed."""

import subprocess
import sys
from importlib.util import find_spec

import gymnasium as gym
import numpy as np
import pytest

from spinup_tf2.envs import register_envs
from spinup_tf2.envs.quadruped import gait
from spinup_tf2.envs.quadruped.bullet import load_pybullet
from spinup_tf2.errors import UserError

register_envs()


def test_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pybullet_data", None)
    load_pybullet.cache_clear()
    with pytest.raises(UserError, match=r'pip install "spinup_tf2\[quadruped\]"') as error:
        gym.make("QuadrupedWalk-v0")
    assert "\n" not in str(error.value)
    load_pybullet.cache_clear()


@pytest.mark.slow
def test_imports_are_silent_and_late():
    program = (
        "import sys, gymnasium, spinup_tf2.envs\n"
        "spinup_tf2.envs.register_envs()\n"
        "import spinup_tf2.envs.quadruped.env\n"
        "assert 'pybullet' not in sys.modules\n"
        "if sys.argv[1:]:\n"
        "    gymnasium.make('QuadrupedWalk-v0').reset(seed=0)\n"
    )
    arguments = ["make"] if find_spec("pybullet") else []
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# ------------------------------------------------------------------------------- movements


def test_getting_up_goes_by_its_keyframes_and_ends_standing():
    keyframes = np.arange(24.0).reshape(2, 12)
    np.testing.assert_array_equal(gait.get_up(0, keyframes), keyframes[0])
    np.testing.assert_allclose(gait.get_up(0.25, keyframes), keyframes.mean(axis=0))
    np.testing.assert_allclose(gait.get_up(0.5, keyframes), keyframes[1])
    np.testing.assert_allclose(gait.get_up(1.0, keyframes), gait.CROUCH)
    for t in (2.0, 9.0):
        np.testing.assert_allclose(gait.get_up(t, keyframes), gait.STANCE)
        np.testing.assert_allclose(gait.get_up(t, []), gait.STANCE)
    mirrored = gait.get_up(0.3, keyframes, mirrored=True)
    np.testing.assert_array_equal(mirrored, gait.mirror(gait.get_up(0.3, keyframes)))
