"""One robot for two environments: an episode that goes on where another one has left it."""

import numpy as np
import pytest

pytest.importorskip("pybullet", reason='needs pip install ".[quadruped]"')

from spinup_tf2.envs.quadruped.env import QuadrupedEnv
from spinup_tf2.errors import UserError
from tests.envs.quadruped.conftest import play


@pytest.fixture
def two():
    """An environment for walking, in which the robot has walked a bit, and one for getting up."""
    walk, recover = QuadrupedEnv("walk"), QuadrupedEnv("recover")
    walk.reset(seed=0)
    for _ in range(20):
        walk.step(walk.target_policy(walk.t))
    yield walk, recover
    walk.close()
    recover.close()


def test_an_episode_begins_where_the_robot_is(two):
    walk, recover = two
    before, position = walk.robot.base(), [*walk.robot.position]
    obs, info = recover.reset(options={"take_over": walk})
    assert recover.robot is walk.robot
    after = recover.robot.base()
    np.testing.assert_array_equal(after.position, before.position)
    np.testing.assert_array_equal(after.velocity, before.velocity)
    assert recover.robot.position == position
    assert info["x_position"] == before.position[0] > 0.1
    assert recover.t == 0
    # The clock of getting up, 0.2 rounds a second, begins anew; the joints' past does not.
    assert obs[-2:].tolist() == [0, 1]
    past = walk.history_buffer["joint_state"]["position"]
    np.testing.assert_array_equal(recover.history_buffer["joint_state"]["position"], past)


def test_what_follows_is_what_would_have_followed():
    """Without a clock, a walking episode that is taken over goes on as if it had not been."""
    first, second, alone = (QuadrupedEnv("walk", phase_hz=0.0) for _ in range(3))
    actions = np.random.default_rng(0).uniform(-0.3, 0.3, (20, 12))
    for env in (first, alone):
        env.reset(seed=0)
        for action in actions[:10]:
            env.step(action)
    second.reset(options={"take_over": first})
    for i, action in enumerate(actions[10:]):
        expected, reward, *_ = alone.step(action)
        obs, rew, *_ = second.step(action)
        np.testing.assert_array_equal(obs, expected)
        assert rew == reward or i == 0  # the last action before the first one is not known
    for env in (first, second, alone):
        env.close()


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (False, {"friction": 0.1, "mass": 2.0, "gains": 0.8, "latency": 0.02, "slope": 5.0}),
        (False, {"sensor_noise": 1.0, "torque_limit": 10.0}),
        ({"roughness": 0.03}, {"roughness": (0.01, 0.03), "mass": 2.0}),
    ],
)
def test_conditions_end_with_the_episode_that_was_taken_over(make, mine, theirs):
    env, other = make(domain_randomization=mine), make(domain_randomization=theirs)
    expected = play(env, 3, seed=0)
    other.reset(seed=1)
    env.reset(options={"take_over": other})
    assert env.robot.conditions.mass == other.robot.conditions.mass  # the robot as it is now
    env.step(np.zeros(12))
    assert play(env, 3, seed=0) == expected
    other_episode = play(other, 3, seed=0)
    assert other_episode != expected
    assert play(make(domain_randomization=theirs), 3, seed=0) == other_episode


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (dict(domain_randomization={"roughness": 0.1}), {}),
        ({}, dict(domain_randomization={"roughness": (0.0, 0.05)})),
        (dict(kp=40.0), dict(task="recover")),
    ],
)
def test_robots_must_be_alike(make, mine, theirs):
    env, other = make(**mine), make(**theirs)
    other.reset(seed=0)
    with pytest.raises(UserError, match=r"robots are alike.*Make them with the same"):
        env.reset(options={"take_over": other})
    env.reset(seed=0)  # it still has a robot of its own
    assert env.robot is not other.robot
