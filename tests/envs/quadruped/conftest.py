"""What the tests of the quadruped share."""

import numpy as np
import pytest

STAND = np.zeros(12, np.float32)


@pytest.fixture
def make():
    """QuadrupedEnv, closed after the test."""
    pytest.importorskip("pybullet", reason='needs pip install ".[quadruped]"')
    from spinup_tf2.envs.quadruped.env import QuadrupedEnv

    made = []

    def make_env(*args, **kwargs):
        made.append(QuadrupedEnv(*args, **kwargs))
        return made[-1]

    yield make_env
    for env in made:
        env.close()


def rest_of(env, steps, seed=9):
    """All that is seen and paid in so many steps with random actions, as bytes."""
    rng, seen = np.random.default_rng(seed), []
    for _ in range(steps):
        obs, rew, terminated, _, info = env.step(0.3 * rng.normal(size=12))
        base = env.unwrapped.robot.base()
        seen += [obs.tobytes(), rew, terminated, info, base.position.tobytes()]
    return seen


def play(env, steps, seed):
    """The same in a new episode."""
    obs, _ = env.reset(seed=seed)
    return [obs.tobytes(), *rest_of(env, steps, seed)]
