"""The task "command", how well commands are followed, and rewards for a gait."""

import math

import numpy as np
import pytest

pytest.importorskip("pybullet", reason='needs pip install ".[quadruped]"')

from spinup_tf2.envs.quadruped import commands
from spinup_tf2.envs.quadruped.gait import LAG, trot_agreement
from spinup_tf2.errors import UserError

STAND = np.zeros(12, np.float32)


def test_a_command_for_the_episode(make):
    env = make("command")
    obs, info = env.reset(seed=0, options={"command": (0.5, -0.1, 0.2)})
    for _ in range(100):  # 5 s, in which another one would have come
        np.testing.assert_allclose(obs[-3:], (0.5, -0.1, 0.2), rtol=1e-6)
        assert env.observation_space.contains(obs)
        obs, *_ = env.step(STAND)
    obs, _ = env.reset()  # the next one has those of chance
    assert not np.allclose(obs[-3:], (0.5, -0.1, 0.2))


def test_the_robot_sees_the_command_that_it_is_paid_for(make):
    env = make("command")
    for command in ((3.0, -3.0, 5.0), (-3.0, 3.0, -5.0)):  # the largest
        given = np.array(command)
        obs, info = env.reset(seed=0, options={"command": given})
        given[:] = 0.0  # which is the caller's own
        assert tuple(obs[-3:]) == command
        assert info["velocity_error"] == pytest.approx(math.hypot(3, 3))
        *_, info = env.step(STAND)
        assert info["velocity_error"] == pytest.approx(math.hypot(3, 3), abs=0.3)


def test_commands_change(make):
    env = make("command", command_ranges={"forward": (0.1, 0.2), "turning": 0.0})
    seen = []
    for seed in range(6):
        obs, _ = env.reset(seed=seed)
        seen.append([obs[-3:].tolist()])
        for _ in range(170):
            obs, _, terminated, _, _ = env.step(STAND)
            assert not terminated
            seen[-1].append(obs[-3:].tolist())
    seen = np.array(seen)  # [episode, step, 3]
    changes = (seen[:, 1:] != seen[:, :-1]).any(axis=2)
    assert {*np.nonzero(changes)[1] + 1} == {80, 160}  # 4 and 8 s
    drawn = seen[:, ::80].reshape(-1, 3)
    standing = (drawn == 0).all(axis=1)
    forward, sideways, turning = drawn[~standing].T
    assert ((forward >= 0.1) & (forward <= 0.2)).all()
    assert (abs(sideways) <= 0.3).all()
    assert (turning == 0).all()


def test_how_often_commands_are_to_stand():
    ranges = commands.command_ranges({"standing": 0.25})
    rng = np.random.default_rng(0)
    drawn = np.array([commands.draw(ranges, rng) for _ in range(1000)])
    assert (drawn == 0).all(axis=1).mean() == pytest.approx(0.25, abs=0.04)
    moving = drawn[(drawn != 0).any(axis=1)]
    np.testing.assert_allclose(moving.min(axis=0), (-0.3, -0.3, -0.8), atol=0.02)
    np.testing.assert_allclose(moving.max(axis=0), (0.8, 0.3, 0.8), atol=0.02)


@pytest.mark.parametrize(
    ("kwargs", "options", "message"),
    [
        ({}, {"command": (0.5, 0)}, r"The command is \(0.5, 0\); it must be three numbers"),
        ({}, {"command": "go"}, "'go'"),
        ({}, {"command": (0, 0, math.inf)}, "three numbers"),
        ({}, {"command": (20, 0, 0)}, r"is \(20, 0, 0\); .* m/s forward, from -3 to 3, "),
        ({}, {"command": (0, -3.1, 0)}, "m/s to the left, from -3 to 3, "),
        ({}, {"command": (0, 0, 5.1)}, "rad/s to the left, from -5 to 5"),
        ({}, {"command": (0, 0, 10**400)}, "three numbers"),
        ({}, {"commands": 1}, "from_backup, take_over, command, not"),
        ({}, {"command": (0, 0, 0), "from_backup": True}, "no other option"),
        (dict(task="walk"), {"command": (0, 0, 0)}, r"from_backup, take_over, not \['command'\]"),
        (dict(command_ranges={"up": 1}), {}, "has 'up'; its keys are forward, sideways, turning"),
        (dict(command_ranges={"standing": 2}), {}, "standing of command_ranges is 2"),
        (dict(command_ranges="slow"), {}, "command_ranges is 'slow'; it must be a dict"),
        (dict(command_ranges=0), {}, "command_ranges is 0; it must be a dict"),
        (dict(straight=True), {}, "for the task 'walk' only"),
    ],
)
def test_what_is_refused(make, kwargs, options, message):
    with pytest.raises(UserError, match=message):
        make(**{"task": "command", **kwargs}).reset(seed=0, options=options)


def test_rewards_for_following(make):
    """By the definitions, from where the trunk has been."""
    env = make("command")
    command = np.array((0.5, 0.1, -0.3))
    env.reset(seed=1, options={"command": command})
    for _ in range(10):
        before = env.robot.base()
        _, rew, _, _, info = env.step(env.target_policy(env.t))
        after = env.robot.base()
        yaw, later = (math.atan2(b.rotation[1, 0], b.rotation[0, 0]) for b in (before, after))
        dx, dy = (after.position - before.position)[:2] / 0.05
        forward = math.cos(yaw) * dx + math.sin(yaw) * dy
        sideways = math.cos(yaw) * dy - math.sin(yaw) * dx
        turning = (later - yaw) / 0.05
        error = (forward - 0.5) ** 2 + (sideways - 0.1) ** 2
        assert info["reward_velocity"] == pytest.approx(math.exp(-error / 0.25**2))
        expected = 0.5 * math.exp(-(((turning + 0.3) / 0.5) ** 2))
        assert info["reward_turning"] == pytest.approx(expected)
        names = ("velocity", "turning", "alive", "tilt_rate", "energy", "action_rate")
        assert [name for name in info if name.startswith("reward_")] == [
            f"reward_{name}" for name in names
        ]
        assert rew == pytest.approx(sum(info[f"reward_{name}"] for name in names))


def test_errors_are_means_where_a_command_has_had_its_second():
    tracking = commands.at_rest(np.array((0.3, 0.4, -0.2)), fixed=False)
    assert tracking.errors == (0.5, 0.2)  # of a robot that stands
    for step in range(5):  # of 0.25 s: the fifth ends after 1.25 s
        tracking = tracking.after((10.0 + step, 1.0), dt=0.25)
        assert tracking.errors == (10.0 + step, 1.0)
    tracking = tracking.after((20.0, 3.0), dt=0.25)
    assert tracking.errors == (17.0, 2.0)  # means of 14 and 20, of 1 and 3
    tracking = tracking.given(np.zeros(3))
    for _ in range(4):
        tracking = tracking.after((100.0, 100.0), dt=0.25)
        assert tracking.errors == (17.0, 2.0)
    tracking = tracking.after((5.0, 5.0), dt=0.25)
    assert tracking.errors == (13.0, 3.0)


def test_success_is_to_follow(make):
    """Who is to stand and stands does; who is to walk and stands does not, and is 0.5 m/s away."""
    env = make("command")
    for command, success in (((0, 0, 0), True), ((0.5, 0, 0), False)):
        _, info = env.reset(seed=0, options={"command": command})
        assert info["is_success"] == success
        for _ in range(30):
            *_, info = env.step(STAND)
        assert info["is_success"] == success
        assert info["velocity_error"] == pytest.approx(command[0], abs=0.02)
        assert info["turning_error"] == pytest.approx(0, abs=0.05)
    env.robot.place((0, 0, 0.35), (1.0, 0, 0), np.array((0.0, 0.8, -1.6) * 4).tolist())
    _, _, terminated, _, info = env.step(STAND)
    assert terminated
    assert not info["is_success"]


def test_a_backup_keeps_the_command(make):
    env = make("command")
    env.reset(seed=4)
    for _ in range(70):
        env.step(STAND)
    env.backup()

    def rest():
        return [(obs.tobytes(), info) for obs, *_, info in (env.step(STAND) for _ in range(20))]

    expected = rest()
    env.restore()
    assert rest() == expected
    env.reset(seed=5)
    obs, info = env.reset(options={"from_backup": True})
    assert rest() == expected
    env.restore()
    obs_again, *_ = env.reset(options={"from_backup": True})
    np.testing.assert_array_equal(obs, obs_again)


# -------------------------------------------------------------------------------- robustness


@pytest.mark.parametrize("task", ["walk", "command", "recover"])
def test_every_condition_can_be_made(make, task):
    conditions = make(task).robustness
    assert len(conditions) == (23 if task == "command" else 16)
    assert conditions["undisturbed"] == {"domain_randomization": {}}
    held = []
    for name, changed in conditions.items():
        if "rough" in name and task != "walk":
            continue  # which takes a while
        env = make(task, **changed)
        obs, _ = env.reset(seed=0)
        if name.startswith("command"):
            assert obs[-3:].tolist() == pytest.approx([float(x) for x in name.split()[1:]])
        held.append((env.robot.conditions, env.robot.velocity_limit))
        env.close()
    several = {*map(str, held)}
    assert len(several) == len(held) - (7 if task == "command" else 0)


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
    asked = []
    feet = env.robot.feet_on_ground
    monkeypatch.setattr(env.robot, "feet_on_ground", lambda: asked.append(0) or feet())
    env.reset(seed=0)
    *_, info = env.step(STAND)
    assert not asked
    assert not {"reward_gait", "reward_flight"} & {*info}
    env = make(**kwargs, reward_weights={"gait": 0.5, "flight": 2.0})
    env.reset(seed=0)
    rewards = []
    for _ in range(48):  # six rounds
        _, rew, _, _, info = env.step(env.target_policy(env.t))
        terms = [x for name, x in info.items() if name.startswith("reward_")]
        assert rew == pytest.approx(sum(terms))
        rewards.append((info["reward_gait"], info["reward_flight"]))
    gait, flight = np.mean(rewards[8:], axis=0)
    assert 0.5 * 0.7 < gait <= 0.5  # the trot is one
    assert flight > -0.3
    env.robot.place((0, 0, 0.8), (0, 0, 0), np.array((0.0, 0.8, -1.6) * 4).tolist())
    *_, info = env.step(STAND)
    assert (info["reward_gait"], info["reward_flight"]) == (0, -2)


def test_getting_up_has_no_gait(make):
    with pytest.raises(UserError, match="'gait'; the terms of this reward are upright"):
        make("recover", reward_weights={"gait": 1.0})
