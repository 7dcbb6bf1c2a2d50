"""What the tests of the quadruped share."""

import pytest


@pytest.fixture
def make():
    """QuadrupedEnv, closed after the test."""
    from spinup_tf2.envs.quadruped.env import QuadrupedEnv

    made = []

    def make_env(*args, **kwargs):
        made.append(QuadrupedEnv(*args, **kwargs))
        return made[-1]

    yield make_env
    for env in made:
        env.close()
