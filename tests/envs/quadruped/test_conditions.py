"""What may differ between episodes: each condition by its physics, and that it is kept."""

import math

import numpy as np
import pytest

pybullet = pytest.importorskip("pybullet", reason='needs pip install ".[quadruped]"')

from spinup_tf2.envs.quadruped.conditions import LIMITS, Conditions, draw_conditions, randomization  # noqa: E402
from spinup_tf2.envs.quadruped.gait import STANCE  # noqa: E402
from spinup_tf2.envs.quadruped.robot import speed_limited  # noqa: E402
from tests.envs.quadruped.conftest import STAND, rest_of  # noqa: E402

EVERYTHING = {
    "friction": (0.5, 1.0),
    "mass": (0.9, 1.1),
    "gains": (0.9, 1.1),
    "torque_limit": (25.0, 33.5),
    "latency": (0.0, 0.02),
    "sensor_noise": (0.5, 1.0),
    "push": (10.0, 20.0),
    "push_speed": 0.2,
    "slope": (0.0, 5.0),
    "roughness": (0.0, 0.03),
}


def in_the_air(env, **conditions):
    """Its robot, held in its stance without weight."""
    env.robot.set_conditions(Conditions(**conditions))
    env.robot.p.setGravity(0, 0, 0)
    env.robot.place((0, 0, 3), (0, 0, 0), STANCE.tolist())
    return env.robot


# ------------------------------------------------------------------------------- arguments


def test_numbers_hold_always_and_pairs_are_drawn():
    rng = np.random.default_rng(0)
    given = {"friction": 0.4, "mass": [0.5, 2], "gains": (0.8, 1.2), "slope": 3}
    drawn = [draw_conditions(randomization(given), rng) for _ in range(200)]
    assert {each.friction for each in drawn} == {0.4}
    masses = [each.mass for each in drawn]
    assert (min(masses), max(masses)) == pytest.approx((0.5, 2), abs=0.05)
    gains = np.array([each.gains for each in drawn])
    assert abs(np.corrcoef(gains.T)[0, 1]) < 0.2
    assert {each.slope for each in drawn} == {3.0}
    assert len({each.downhill for each in drawn}) == 200
    state = rng.bit_generator.state
    draw_conditions(randomization({"friction": 0.4, "push": 60.0}), rng)
    assert rng.bit_generator.state == state  # so that episodes begin as without it
    assert {*EVERYTHING} == {*LIMITS}
    assert draw_conditions({}, rng) == Conditions()


def test_the_simulation_has_what_was_drawn(make):
    env = make(domain_randomization=True)
    drawn, robot = [], env.robot
    for seed in (0, 1, 0):
        env.reset(seed=seed)
        drawn.append(robot.conditions)
        mass, _, inertia = robot.p.getDynamicsInfo(robot.body, -1)[:3]
        assert mass == pytest.approx(drawn[-1].mass * 4.714, rel=1e-3)
        assert inertia[0] == pytest.approx(drawn[-1].mass * 0.01693, rel=1e-3)
        friction = robot.p.getDynamicsInfo(robot.body, robot.joints[2])[1]
        assert friction == pytest.approx(drawn[-1].friction)
        assert 0.5 <= friction <= 1.25
        assert all(0.9 <= factor <= 1.1 for factor in drawn[-1].gains)
    assert drawn[0] == drawn[2] != drawn[1]
    assert drawn[0].gains[0] != drawn[0].gains[1]
    env = make()
    env.reset(seed=0)
    assert env.robot.conditions == Conditions()


# -------------------------------------------------------------------------------- actuators


def test_torque_falls_with_speed():
    """At 10.5 of 21 rad/s half of the torque is left, at 21 and more nothing; braking has all."""
    speeds = [0.0, 10.5, 10.5, 10.5, 21.0, 30.0, 30.0, -10.5, -10.5, -21.0, -5.25, 10.5]
    wanted = [33.0, 33.0, -33.0, 5.0, 33.0, 33.0, -33.0, -33.0, 33.0, -1.0, -30.0, -2.0]
    expected = [33.0, 16.5, -33.0, 5.0, 0.0, 0.0, -33.0, -16.5, 33.0, 0.0, -24.75, -2.0]
    assert speed_limited(wanted, speeds, 33.0, 21.0) == pytest.approx(expected)


def test_targets_take_effect_later(make):
    """Without weight no joint moves for as long as that, and from then on as without latency."""
    env, target = make(), (STANCE + 0.2).tolist()
    robot = in_the_air(env)
    robot.hold(target, 15)
    prompt = [sample.position for sample in robot.samples]
    robot = in_the_air(env, latency=0.02)
    robot.hold(target, 10)  # 20 ms
    np.testing.assert_array_equal(robot.position, STANCE)
    assert robot.samples[-1].target == target  # what has been sent
    robot.hold(STANCE.tolist(), 15)  # of which nothing has arrived before 10 of them
    late = [sample.position for sample in robot.samples]
    np.testing.assert_allclose(late[-15:-5], prompt[-15:-5], atol=1e-9)
    assert np.abs(np.subtract(late[-1], prompt[-1])).max() > 1e-3


# ------------------------------------------------------------------------------------- pushes


def test_a_push_is_a_momentum(make):
    """F t / m: 60 N for 0.2 s are 12 Ns, which 12.46 kg in the air share."""
    env = make()
    robot = in_the_air(env)
    robot.push((60.0, 0.0, 0.0))
    robot.hold(STANCE.tolist(), 250)  # half a second: it ends by itself
    momentum, mass = np.zeros(3), 0.0
    for link in range(-1, robot.p.getNumJoints(robot.body)):
        m = robot.p.getDynamicsInfo(robot.body, link)[0]
        if link < 0:
            velocity = robot.base().velocity
        else:
            state = robot.p.getLinkState(robot.body, link, 1)
            velocity = np.array(state[6])
        momentum, mass = momentum + m * velocity, mass + m
    assert mass == pytest.approx(12.46, abs=0.01)
    np.testing.assert_allclose(momentum, (12.0, 0, 0), atol=0.15)


def test_pushes_come_every_five_seconds(make, monkeypatch):
    env = make(domain_randomization={"push": 60.0, "push_speed": 0.5}, action_repeat=250)
    env.reset(seed=0)
    forces, kicks = [], []
    push = lambda body, link, force, *_: forces.append(force)  # noqa: E731
    monkeypatch.setattr(env.robot.p, "applyExternalForce", push, raising=False)
    monkeypatch.setattr(env.robot, "kick", lambda velocity: kicks.append((env.t, velocity)))
    for step in range(25):
        env.step(STAND)
        assert len(forces) == (0 if step < 10 else 100 if step < 20 else 200)  # substeps
    first, second = (np.array(forces[i]) for i in (0, 150))
    assert np.hypot(*first[:2]) == pytest.approx(60)
    assert first[2] == 0
    assert not np.allclose(first, second)
    assert [t for t, _ in kicks] == [5, 10]
    assert [math.hypot(*velocity) for _, velocity in kicks] == pytest.approx([0.5, 0.5])
    monkeypatch.undo()
    before = env.robot.base().velocity
    env.robot.kick((0.3, -0.4, 0.0))
    np.testing.assert_allclose(env.robot.base().velocity - before, (0.3, -0.4, 0), atol=1e-9)


# ------------------------------------------------------------------------------------ sensors


def test_noise_is_in_observations_only(make):
    quiet, noisy = make(), make(domain_randomization={"sensor_noise": 2.0})
    rng, differences = np.random.default_rng(0), []
    for seed in range(2):
        for env in (quiet, noisy):
            env.reset(seed=seed)
        for _ in range(40):
            action = 0.1 * rng.normal(size=12)
            one, other = (env.step(action) for env in (quiet, noisy))
            assert one[1:] == other[1:]
            differences.append(other[0] - one[0])
    std = np.std(differences, axis=0)
    expected = np.concatenate(
        [
            *([0.05] * 3, [0.1] * 3, [0.25 * 0.2] * 3, [0.01] * 12, [0.05 * 1.5] * 12, [0.0] * 12),
            *([0.01] * 24, [0.05 * 1.5] * 24, [0.0] * 2),
        ]
    )
    within = np.full(95, 0.4)
    within[2] = 1.0  # the direction of gravity is clipped to -1
    np.testing.assert_array_less(abs(std - 2 * expected), 1e-6 + within * 2 * expected)


# ------------------------------------------------------------------------------------- ground


def test_a_slope_is_a_tilted_gravity(make):
    env = make(domain_randomization={"slope": 10.0}, reset_noise=False)
    env.reset(seed=1)
    downhill = env.robot.conditions.downhill
    for _ in range(20):
        obs, *_ = env.step(STAND)
    base = env.robot.base()
    assert base.rotation[2, 2] > 0.99  # parallel to the ground
    down = base.rotation @ obs[:3]
    angle = math.radians(10)
    along = math.sin(angle) * np.array((math.cos(downhill), math.sin(downhill)))
    np.testing.assert_allclose(down, (*along, -math.cos(angle)), atol=1e-6)
    # Without friction whatever falls goes downhill with g sin(10 degrees).
    robot = env.robot
    robot.place((0, 0, 3), (0, 0, 0), STANCE.tolist())
    robot.hold(STANCE.tolist(), 50)
    np.testing.assert_allclose(robot.base().velocity[:2], 9.81 * 0.1 * along, rtol=0.02)


def test_bumps_are_where_they_are_said_to_be(make):
    env = make(domain_randomization={"roughness": (0.02, 0.05)})
    rng = np.random.default_rng(0)
    for seed in (0, 1):
        env.reset(seed=seed)
        conditions, p = env.robot.conditions, env.robot.p
        p.resetBasePositionAndOrientation(env.robot.body, [0, 0, 9], [0, 0, 0, 1])
        heights = []
        for x, y in rng.uniform(-10, 10, (100, 2)):
            [hit] = p.rayTest([x, y, 1], [x, y, -1])
            heights.append(env.robot.ground_height(x, y))
            assert hit[3][2] == pytest.approx(heights[-1], abs=2e-5)
        assert 0.6 * conditions.roughness < max(heights) <= conditions.roughness
        assert 0.02 <= conditions.roughness <= 0.05


def test_heights_are_above_the_ground(make):
    """A robot that lies on the top of a high bump has fallen, though its trunk is far up."""
    env = make(domain_randomization={"roughness": 0.2})
    env.reset(seed=0)
    places = [(x, y) for x in np.arange(-3, 3, 0.1) for y in np.arange(-3, 3, 0.1)]
    x, y = max(places, key=lambda place: env.robot.ground_height(*place))
    ground = env.robot.ground_height(x, y)
    assert ground > 0.15
    for height, fallen in ((0.3, False), (0.12, True)):
        at = [x, y, ground + height]
        env.robot.p.resetBasePositionAndOrientation(env.robot.body, at, [0, 0, 0, 1])
        env._episode.before = env._episode.base = env.robot.base()
        motion = env._motion()
        assert motion.height == pytest.approx(height)
        assert env.task.terminated(motion) == fallen


# ------------------------------------------------------------------------------------ keeping


@pytest.mark.parametrize("without", ["roughness", "slope"])
def test_everything_is_kept(make, without):
    """Also within a push and with targets on their way."""
    given = {name: value for name, value in EVERYTHING.items() if name != without}
    env = make(
        domain_randomization=given, velocity_limit=21.0, action_repeat=50, kp=50.0, phase_hz=2.5
    )
    env.reset(seed=2)
    for _ in range(51):  # of 0.1 s: a push has just begun
        env.step(STAND)
    assert env.robot._pushed
    env.backup()
    held = env.robot.conditions
    expected = rest_of(env, 4)
    env.restore()
    assert rest_of(env, 4) == expected
    env.reset(seed=5)
    assert env.robot.conditions != held
    rest_of(env, 3)
    obs, _ = env.reset(options={"from_backup": True})
    assert env.robot.conditions == held
    np.testing.assert_array_equal(obs, env._episode.obs)
    assert rest_of(env, 4) == expected
