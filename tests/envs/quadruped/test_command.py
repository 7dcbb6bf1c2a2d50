"""The task "command", how well commands are followed, and rewards for a gait."""

import math
from dataclasses import replace

import numpy as np
import pytest

from spinup_tf2.envs.quadruped import episode
from spinup_tf2.envs.quadruped.gait import LAG, STANCE, trot_agreement
from tests.envs.quadruped.conftest import STAND


def test_the_robot_sees_the_command_that_it_is_paid_for(make):
    env = make("command")
    for command in ((3.0, -3.0, 5.0), (-3.0, 3.0, -5.0)):  # the largest
        given = np.array(command)
        obs, info = env.reset(seed=0, options={"command": given})
        given[:] = 0.0  # which is the caller's own
        assert tuple(obs[-3:]) == command
        assert env.observation_space.contains(obs)
        assert info["velocity_error"] == pytest.approx(math.hypot(3, 3))
        *_, info = env.step(STAND)
        assert info["velocity_error"] == pytest.approx(math.hypot(3, 3), abs=0.3)


@pytest.mark.parametrize("given", [None, (0.5, -0.1, 0.2)])
def test_commands_change_unless_one_is_given(make, monkeypatch, given):
    env = make("command", command_ranges={"forward": (0.1, 0.2), "turning": 0.0})
    monkeypatch.setattr(env.robot, "hold", lambda *_: 0.0)  # without simulation
    seen = []
    for seed in range(6):
        obs, _ = env.reset(seed=seed, options=None if given is None else {"command": given})
        seen.append([obs[-3:].tolist()])
        for _ in range(170):
            seen[-1].append(env.step(STAND)[0][-3:].tolist())
    seen = np.array(seen)  # [episode, step, 3]
    if given is not None:
        assert (seen[..., :2] == seen[:, :1, :2]).all()
        waits = np.array(given)[2] * (1 + 0.1 * np.arange(171))  # the heading goes ahead of it
        np.testing.assert_allclose(seen[..., 2], [np.minimum(waits, 1.2)] * 6, rtol=1e-5)
        np.testing.assert_allclose(seen[:, 0], [given] * 6, rtol=1e-6)
        return
    changes = (seen[:, 1:] != seen[:, :-1]).any(axis=2)
    assert {*np.nonzero(changes)[1] + 1} == {80, 160}  # 4 and 8 s
    drawn = seen[:, ::80].reshape(-1, 3)
    forward, sideways, turning = drawn[(drawn != 0).any(axis=1)].T
    assert ((forward >= 0.1) & (forward <= 0.2)).all()
    assert (abs(sideways) <= 0.3).all()
    assert (turning == 0).all()


def test_errors_are_means_where_a_command_has_had_its_second():
    tracking = episode.at_rest(np.array((0.3, 0.4, -0.2)), 1.5, fixed=False)
    assert tracking.errors == (0.5, 0.2, 0.0)  # of a robot that stands
    for step in range(5):  # of 0.25 s: the fifth ends after 1.25 s
        tracking = tracking.after((10.0 + step, 1.0, 0.1), dt=0.25)
        assert tracking.errors == (10.0 + step, 1.0, 0.1)
    tracking = tracking.after((20.0, 3.0, 0.3), dt=0.25)
    assert tracking.errors == (17.0, 2.0, 0.2)  # means of 14 and 20, 1 and 3, 0.1 and 0.3
    tracking = replace(tracking, command=np.zeros(3), steps=0)  # another command
    for _ in range(4):
        tracking = tracking.after((100.0, 100.0, 3.0), dt=0.25)
        assert tracking.errors == (17.0, 2.0, 0.2)
    tracking = tracking.after((5.0, 5.0, 0.5), dt=0.25)
    assert tracking.errors == pytest.approx((13.0, 3.0, 0.3))


def test_commands_turn_a_heading_that_is_held(make):
    """The turning that is seen is the commanded one and 2 rad/s for each rad to the heading.

    It is at most 1.2 rad/s, or as commanded. The heading is where turning as commanded would have
    led, also after another command.
    """
    env = make("command", command_ranges={"standing": 0.0, "forward": 0.0, "sideways": 0.0})
    obs, info = env.reset(seed=4)
    turning, heading = obs[-1], env.robot.base().yaw
    assert info["heading_error"] == 0
    off = []
    for t in range(1, 101):
        env.robot.place((0, 0, 0.30), (0, 0, 3.0), STANCE.tolist())  # across the jump at pi
        obs, *_, info = env.step(STAND)
        if t == 20:
            assert info["heading_error"] == pytest.approx(off[-1])  # of the last step
        heading += 0.05 * turning
        left = np.mod(heading - env.robot.base().yaw + np.pi, 2 * np.pi) - np.pi
        if t == 80:
            turning = env._episode.tracking.command[2]  # of another command
            assert -0.8 <= turning <= 0.8
        assert obs[-1] == pytest.approx(np.clip(turning + 2 * left, -1.2, 1.2), abs=1e-5)
        off.append(abs(left))
    assert info["heading_error"] == pytest.approx(np.mean(off[19:79]))  # before each step


def test_success_needs_the_heading(make):
    """A robot that stands as commanded, but was turned by 20 degrees, does not follow."""
    for degrees, success in ((10, True), (20, False)):
        env = make("command")
        env.reset(seed=0, options={"command": (0, 0, 0)})
        env.robot.place((0, 0, 0.28), (0, 0, math.radians(degrees)), STANCE.tolist())
        env._episode.base = env.robot.base()
        for _ in range(40):
            *_, info = env.step(STAND)
        assert info["velocity_error"] < 0.1
        assert math.degrees(info["heading_error"]) == pytest.approx(degrees, abs=2)
        assert info["is_success"] == success


@pytest.mark.parametrize(("command", "success"), [((0, 0, 0), True), ((0.5, 0, 0), False)])
def test_success_is_to_follow(make, command, success):
    """Who is to stand and stands does; who is to walk and stands does not, and is 0.5 m/s away."""
    env = make("command")
    _, info = env.reset(seed=0, options={"command": command})
    assert info["is_success"] == success
    for _ in range(30):
        *_, info = env.step(STAND)
    assert info["is_success"] == success
    assert info["velocity_error"] == pytest.approx(command[0], abs=0.02)
    assert info["turning_error"] == pytest.approx(2 * info["heading_error"], abs=0.05)
    env.robot.place((0, 0, 0.35), (1.0, 0, 0), STANCE.tolist())
    _, _, terminated, _, info = env.step(STAND)
    assert terminated
    assert not info["is_success"]


@pytest.mark.parametrize(("task", "number"), [("command", 23), ("recover", 16)])
def test_every_condition_of_robustness_can_be_made(make, task, number):
    conditions = make(task).robustness
    assert len(conditions) == number
    assert conditions["undisturbed"] == {"domain_randomization": {}}
    held = []
    for name, changed in conditions.items():
        env = make(task, **changed)
        obs, _ = env.reset(seed=0)
        if name.startswith("command"):
            assert obs[-3:].tolist() == pytest.approx([float(x) for x in name.split()[1:]])
        held.append((env.robot.conditions, env.robot.model.velocity_limit))
        env.close()
    assert len({*map(str, held)}) == 16  # commands differ in nothing else


# --------------------------------------------------------------------------- against hopping


def test_agreement_with_the_trot():
    """Half a round after the lag FR and RL, which begin at 0.375 rounds, are on the ground."""
    down = [True, False, False, True]  # FR, FL, RR, RL
    up = [not each for each in down]
    for clock in (LAG + 0.2, LAG + 0.6 - 1):  # phases 0.575 and 0.975
        assert trot_agreement(clock, down) == 1
        assert trot_agreement(clock, up) == -1
        assert trot_agreement(clock + 0.5, up) == 1
    for every in ([True] * 4, [False] * 4):
        assert trot_agreement(0.3, every) == 0
    assert trot_agreement(LAG + 0.2, [True, True, False, True]) == 0.5


@pytest.mark.parametrize("kwargs", [dict(), dict(reward="walk_in_the_park"), dict(task="command")])
def test_footfall_is_paid_only_if_it_is_asked_for(make, monkeypatch, kwargs):
    env = make(**kwargs)
    monkeypatch.setattr(env.robot, "feet_on_ground", None)  # takes time
    env.reset(seed=0)
    *_, info = env.step(STAND)
    assert not {"reward_gait", "reward_flight"} & {*info}
    env = make(**kwargs, reward_weights={"gait": 0.5, "flight": 2.0})
    env.reset(seed=0)
    rewards = []
    for _ in range(32):  # four rounds
        _, rew, _, _, info = env.step(env.target_policy(env.t))
        terms = [x for name, x in info.items() if name.startswith("reward_")]
        assert rew == pytest.approx(sum(terms))
        rewards.append((info["reward_gait"], info["reward_flight"]))
    gait, flight = np.mean(rewards[8:], axis=0)
    assert 0.5 * 0.7 < gait <= 0.5  # the trot is one
    assert flight > -0.3
    env.robot.place((0, 0, 0.8), (0, 0, 0), STANCE.tolist())
    *_, info = env.step(STAND)
    assert (info["reward_gait"], info["reward_flight"]) == (0, -2)
