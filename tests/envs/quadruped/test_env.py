"""The quadruped in PyBullet: what it does, what it pays, and that it does the same every time."""

import math
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

pybullet = pytest.importorskip("pybullet", reason='needs pip install ".[quadruped]"')

from spinup_tf2.core.workers.vector import ThreadsVectorEnv  # noqa: E402
from spinup_tf2.envs import register_envs  # noqa: E402
from spinup_tf2.envs.quadruped.env import QuadrupedEnv  # noqa: E402
from spinup_tf2.envs.quadruped.gait import STANCE, trot  # noqa: E402
from spinup_tf2.errors import UserError  # noqa: E402
from tests.envs.quadruped.conftest import STAND, play, rest_of  # noqa: E402

register_envs()

# ------------------------------------------------------------------------------- gymnasium


@pytest.mark.parametrize("task", ["Walk", "Command", "Recover"])
def test_registered_and_conforming(task):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with closing(gym.make(f"Quadruped{task}-v0", render_mode="DIRECT")) as env:
            assert env.unwrapped.render_mode is None
            check_env(env.unwrapped, skip_render_check=True)
            play(env, 3, seed=0)


@pytest.mark.parametrize(
    ("kwargs", "steps"),
    [
        (dict(task="recover"), 100),
        (dict(task="recover", sim_hz=400, action_repeat=20, time_limit=0.5), 10),
    ],
)
def test_time_limit(make, kwargs, steps):
    env = make(reset_noise=False, **kwargs)
    env.reset(seed=0)
    env.step(STAND)
    env.backup()
    for options in ({}, {"from_backup": True}):  # the limit holds from each reset
        env.reset(seed=0, options=options)
        truncated = [env.step(STAND)[3] for _ in range(steps)]
        assert truncated == [False] * (steps - 1) + [True]


@pytest.mark.parametrize(
    ("kwargs", "size"),
    [
        ({}, 95),
        (dict(history=False), 47),
        (dict(phase_hz=0), 93),
        (dict(straight=True), 97),
        (dict(task="recover", history=False, phase_hz=0), 45),
        (dict(base_velocity=False), 92),
        (dict(task="command"), 98),
    ],
)
def test_size_of_observations(make, kwargs, size):
    env = make(**kwargs)
    obs, _ = env.reset(seed=0)
    space = env.observation_space
    assert obs.shape == space.shape == (size,)
    assert obs.dtype == space.dtype == np.float32
    assert np.isfinite([space.low, space.high]).all()


@pytest.mark.parametrize("action", [np.full(12, np.nan), np.zeros(11), 0.0])
def test_actions_that_cannot_be_done(make, action):
    env = make(reset_noise=False)
    before = play(env, 2, seed=1)
    with pytest.raises(UserError, match="12 finite numbers"):
        env.step(action)
    assert play(env, 2, seed=1) == before


def random(**given):
    return dict(domain_randomization=given)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        (dict(task=["walk"]), r"task is \['walk'\]; it must be 'walk', 'recover' or 'command'"),
        (dict(render_mode="ansi"), "render_mode is 'ansi'"),
        (dict(reward_weights={"speed": 1}), "reward_weights is .*; the terms are forward"),
        (dict(task="recover", reward_weights={"gait": 1.0}), "terms are upright, stance"),
        (dict(reward_weights={"gait": 1}, phase_hz=0), "gait needs a clock"),
        (dict(absolute_actions=True, residual_gait=True), "exclude each other"),
        (dict(terminate_on_success=True), "for the task 'recover' only"),
        (dict(task="recover", straight=True), "for the task 'walk' only"),
        (dict(command_ranges={"forward": 1}), "for the task 'command' only"),
        (dict(task="command", command_ranges={"standing": 2}), "standing of command_ranges is 2"),
        (random(push=(10, 5)), r"is \(10, 5\)"),
        (random(latency=20), "latency of domain_randomization is 20; .* from 0 to 0.5"),
        (random(mass=(0.5, np.nan)), "mass of domain_randomization is"),
    ],
)
def test_arguments_that_are_refused(kwargs, message):
    with pytest.raises(UserError, match=message):
        QuadrupedEnv(**kwargs)


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("command", {"command": (0.5, 0)}, r"The command is \(0.5, 0\); it must be three numbers"),
        ("command", {"command": (0, -3.1, 0)}, r"from \[-3.0, -3.0, -5.0\] to"),
        ("command", {"commands": 1}, "from_backup, take_over, command, and from_backup excludes"),
        ("command", {"command": (0, 0, 0), "from_backup": True}, "excludes the others"),
        ("walk", {"command": (0, 0, 0)}, "they may be from_backup, take_over, and"),
    ],
)
def test_options_that_are_refused(make, task, options, message):
    with pytest.raises(UserError, match=message):
        make(task).reset(seed=0, options=options)


# ------------------------------------------------------------------------------- movements


def test_the_trot_walks(make):
    env = make()
    env.reset(seed=0)
    for _ in range(80):
        _, _, terminated, _, info = env.step(env.target_policy(env.t))
        assert not terminated
    assert env.t == pytest.approx(4)
    assert info["x_position"] / env.t > 0.3
    assert info["is_success"]
    assert abs(env.robot.base().position[1]) < 0.5 * info["x_position"]


@pytest.mark.slow
def test_the_demonstration_gets_up(make):
    env = make("recover")
    standing = []
    for seed in range(10):
        env.reset(seed=seed)
        for _ in range(100):
            *_, info = env.step(env.target_policy(env.t))
        standing.append(info["is_success"])
    assert np.mean(standing) >= 0.8


@pytest.mark.parametrize("ends", [False, True])
def test_success_may_end_a_recovery(make, ends):
    env = make("recover", terminate_on_success=ends)
    env.reset(seed=0)
    env.robot.place((0, 0, 0.3), (0, 0, 0), STANCE.tolist())
    _, _, terminated, _, info = env.step(STAND)
    assert info["is_success"]
    assert terminated == ends


# ------------------------------------------------------------------- the same every time


@pytest.mark.parametrize("task", ["walk", "recover"])
def test_trajectories_depend_on_the_seed_alone(make, task):
    fresh = play(make(task), 12, seed=5)
    env = make(task)
    assert play(env, 12, seed=5) == fresh
    play(env, 7, seed=1)
    assert play(env, 12, seed=5) == fresh
    env.robot.place((0, 0, 0.1), (2.0, 0, 0), STANCE.tolist())
    env.step(STAND)
    assert play(env, 12, seed=5) == fresh
    assert play(env, 12, seed=6) != fresh


@pytest.mark.parametrize(
    ("kwargs", "steps", "expected"),
    [
        ({}, 30, (423.32930088043213, 21.468178650799427, 0.5585616174604889)),
        (dict(straight=True), 30, (461.87318563461304, 20.417391558104757, 0.5585616174604889)),
        (
            dict(domain_randomization=True, action_repeat=50),
            110,  # 11 s, two pushes
            (1418.8749763965607, 54.53504981267725, 2.467805802272256),
        ),
        (dict(task="recover"), 30, (800.6188688278198, 11.61816811258388, -0.750913160829698)),
    ],
    ids=["walk", "straight", "randomized", "recover"],
)
def test_numbers_of_the_first_version(make, kwargs, steps, expected):
    """What is not asked for changes nothing, on which agents that are kept depend."""
    env = make(**kwargs)
    rng = np.random.default_rng(0)
    obs, _ = env.reset(seed=0)
    total, ret = float(abs(obs).sum()), 0.0
    for _ in range(steps):
        action = env.target_policy(env.t) + 0.1 * rng.normal(size=12)
        obs, rew, _, _, info = env.step(action)
        total, ret = total + float(abs(obs).sum()), ret + rew
    assert (total, ret, info["x_position"]) == pytest.approx(expected, rel=1e-5)


def test_several_in_threads_do_what_each_does_alone():
    actions = np.random.default_rng(0).uniform(-1, 1, (8, 3, 12))

    def seen(envs, seeds):
        with closing(envs):
            parts = [envs.reset(seed=[*seeds])[0].copy()]
            for act in actions:
                parts += [part.copy() for part in envs.step(act[seeds])[:4]]
        return parts

    together = seen(ThreadsVectorEnv([QuadrupedEnv] * 3, ThreadPoolExecutor(2)), [0, 1, 2])
    same_step = dict(autoreset_mode=AutoresetMode.SAME_STEP)
    alone = [seen(SyncVectorEnv([QuadrupedEnv], **same_step), [i]) for i in range(3)]
    for part, parts in zip(together, zip(*alone, strict=True), strict=True):
        np.testing.assert_array_equal(part, np.concatenate(parts))


@pytest.mark.parametrize("randomized", [False, True])
def test_backup_and_restore(make, randomized):
    env = make(domain_randomization=randomized, action_filter=3.0)
    play(env, 6, seed=3)
    env.backup()
    expected, then = rest_of(env, 5), env.reset()[0]
    env.restore()
    assert rest_of(env, 5) == expected
    np.testing.assert_array_equal(env.reset()[0], then)  # random numbers go on alike, too
    play(env, 4, seed=8)  # has another friction and another mass, if they are drawn
    env.reset(options={"from_backup": True})
    assert env.t == pytest.approx(6 * 0.05)
    assert rest_of(env, 5) == expected
    env.backup()  # in the place of the first
    later = rest_of(env, 3)
    env.reset(seed=4, options={"from_backup": True})
    assert rest_of(env, 3) == later != expected[:15]
    assert (env.reset()[0] != then).any()


def test_a_simulation_that_fails_ends_the_episode_and_is_replaced(make):
    env = make()
    expected = play(env, 3, seed=0)
    env.robot._measure = lambda: setattr(env.robot, "velocity", [math.nan] * 12)
    obs, rew, terminated, _, info = env.step(STAND)
    assert (rew, terminated, info["is_success"]) == (0.0, True, False)
    assert env.observation_space.contains(obs)
    assert play(env, 3, seed=0) == expected


# ------------------------------------------------------------- what is simulated and observed


def test_each_action_moves_its_joint(make):
    env = make(reset_noise=False)
    for joint in range(12):
        env.reset()
        env.robot.place((0, 0, 2), (0, 0, 0), STANCE.tolist())  # in the air: nothing resists
        before = np.array(env.robot.position)
        env.step(0.8 * np.eye(12)[joint])
        moved = np.array(env.robot.position) - before
        assert np.argmax(np.abs(moved)) == joint
        assert moved[joint] > 0.05


def watched(env, monkeypatch):
    """A log of what is asked of PyBullet, with the joints' state after each substep."""
    log = SimpleNamespace(torque=[], position=[], velocity=[])
    robot, p = env.robot, env.robot.p
    step, apply = p.stepSimulation, p.setJointMotorControlArray

    def logged_step():
        step()
        states = pybullet.getJointStates(robot.body, robot.joints, physicsClientId=p._client)
        log.position.append([state[0] for state in states])
        log.velocity.append([state[1] for state in states])

    def logged_apply(body, joints, mode, forces):
        assert (body, joints, mode) == (robot.body, robot.joints, pybullet.TORQUE_CONTROL)
        log.torque.append(forces)
        apply(body, joints, mode, forces=forces)

    monkeypatch.setattr(p, "stepSimulation", logged_step, raising=False)
    monkeypatch.setattr(p, "setJointMotorControlArray", logged_apply, raising=False)
    return log


def test_a_step_is_25_substeps_of_pd_control(make, monkeypatch):
    env = make()
    env.reset(seed=0)
    assert env.robot.p.getPhysicsEngineParameters()["fixedTimeStep"] == 1 / 500
    for action in (STAND, np.linspace(-1, 1, 12), np.linspace(1, -1, 12)):
        position, velocity = map(np.array, (env.robot.position, env.robot.velocity))
        log = watched(env, monkeypatch)
        env.step(action)
        assert len(log.torque) == len(log.position) == 25
        target = STANCE + np.tile((0.2, 0.4, 0.4), 4) * action
        positions = [position, *log.position[:-1]]
        velocities = [velocity, *log.velocity[:-1]]
        torque = 60 * (target - positions) - 2 * np.array(velocities)
        np.testing.assert_allclose(log.torque, np.clip(torque, -33.5, 33.5))
    assert np.abs(log.torque).max() == 33.5  # the limit has mattered
    assert env.t == pytest.approx(0.15)


def state_of(env):
    """Position, rotation matrix, velocity and angular velocity of the trunk, by PyBullet."""
    body, client = env.robot.body, env.robot.p._client
    position, quaternion = pybullet.getBasePositionAndOrientation(body, physicsClientId=client)
    rotation = np.reshape(pybullet.getMatrixFromQuaternion(quaternion), (3, 3))
    return np.array(position), rotation, *map(np.array, pybullet.getBaseVelocity(body, client))


def test_observations_entry_by_entry(make, monkeypatch):
    env = make()
    rng = np.random.default_rng(1)
    env.reset(seed=1)
    for _ in range(3):
        log = watched(env, monkeypatch)
        action = 0.5 * rng.normal(size=12)
        obs, *_ = env.step(action)
        action = action.clip(-1, 1)
        _, rotation, velocity, angular = state_of(env)
        target = STANCE + np.tile((0.2, 0.4, 0.4), 4) * action
        expected = [
            rotation.T @ [0, 0, -1],
            rotation.T @ velocity,
            0.25 * rotation.T @ angular,
            log.position[-1] - STANCE,
            0.05 * np.array(log.velocity[-1]),
            action,
            log.position[-6] - target,  # 10 ms, 5 substeps ago
            log.position[-11] - target,
            0.05 * np.array(log.velocity[-6]),
            0.05 * np.array(log.velocity[-11]),
            [np.sin(2 * np.pi * 2.5 * env.t), np.cos(2 * np.pi * 2.5 * env.t)],
        ]
        np.testing.assert_allclose(obs, np.concatenate(expected), atol=1e-6)
        buffer = env.history_buffer
        np.testing.assert_array_equal(buffer["last_action"], action)
        kept = buffer["joint_state"]
        np.testing.assert_allclose(kept["time"], env.t - 0.03 + np.linspace(0, 0.03, 16))
        np.testing.assert_allclose(kept["position"], log.position[-16:])
        np.testing.assert_allclose(kept["velocity"], log.velocity[-16:])
        np.testing.assert_allclose(kept["position_error"], log.position[-16:] - target, atol=1e-12)


def test_how_far_it_has_turned(make):
    """Since the beginning of the episode, whatever direction that was."""
    env = make(straight=True, phase_hz=0)
    env.reset(seed=0)
    began = 2.5
    env.robot.place((0, 0, 0.3), (0, 0, began), STANCE.tolist())
    env._episode.began = env.robot.base()
    for turned in (0.0, 0.4, -0.4, 3.0):  # 2.5 + 3 is beyond the half turn at which yaw jumps
        env.robot.place((0, 0, 0.3), (0.1, 0.2, began + turned), STANCE.tolist())
        obs, *_ = env.step(STAND)
        _, rotation, _, _ = state_of(env)
        angle = math.atan2(rotation[1, 0], rotation[0, 0]) - began
        assert math.remainder(angle - turned, 2 * math.pi) == pytest.approx(0, abs=0.05)
        np.testing.assert_allclose(obs[-2:], [np.sin(angle), np.cos(angle)], atol=1e-6)


# --------------------------------------------------------------------------------- rewards


def mean_power(log):
    pairs = [*zip(np.ravel(log.torque), np.ravel(log.velocity), strict=True)]
    return sum(abs(torque * velocity) for torque, velocity in pairs) / len(log.torque)


def speeds(before, after):
    """Mean speed over a step, forward and to the left of where it faced before."""
    yaw = math.atan2(before[1][1, 0], before[1][0, 0])
    dx, dy = (after[0] - before[0])[:2] / 0.05
    return math.cos(yaw) * dx + math.sin(yaw) * dy, math.cos(yaw) * dy - math.sin(yaw) * dx


def walk_terms(before, after, log, action, last_action):
    """By the definitions, from logged states."""
    forward, sideways = speeds(before, after)
    w_x, w_y, w_z = after[1].T @ after[3]
    return {
        "forward": np.clip(forward / 0.5, -1, 1),
        "alive": 0.2,
        "lateral": -0.2 * abs(sideways),
        "yaw": -0.1 * abs(w_z),
        "tilt_rate": -0.02 * (w_x**2 + w_y**2),
        "energy": -3e-4 * mean_power(log),
        "action_rate": -0.01 * np.sum((action - last_action) ** 2),
    }


def park_terms(before, after, log, action, last_action):
    forward, _ = speeds(before, after)
    return {
        "forward": 10 * np.interp(forward, [-0.5, 0.5, 1.0, 2.0], [0, 1, 1, 0]),
        "yaw": -abs((after[1].T @ after[3])[2]),
    }


def command_terms(before, after, log, action, last_action):
    """Of the command (0.5, 0.1, -0.3)."""
    forward, sideways = speeds(before, after)
    yaws = [math.atan2(state[1][1, 0], state[1][0, 0]) for state in (before, after)]
    error = (forward - 0.5) ** 2 + (sideways - 0.1) ** 2
    turning = (yaws[1] - yaws[0]) / 0.05 - log.obs[-1]  # which leads to the heading, too
    as_in_a_walk = walk_terms(before, after, log, action, last_action)
    return {
        "velocity": math.exp(-error / 0.25**2),
        "turning": 0.5 * math.exp(-((turning / 0.5) ** 2)),
        **{name: as_in_a_walk[name] for name in ("alive", "tilt_rate", "energy", "action_rate")},
    }


def recover_terms(before, after, log, action, last_action):
    up, height = after[1][2, 2], after[0][2]
    error = np.mean((np.array(log.position[-1]) - STANCE) ** 2)
    factor = 0.3 ** (0.995**200)
    return {
        "upright": 0.25 * (1 + up),
        "stance": 0.5 * math.exp(-2 * error) * max(up, 0) * np.clip(height / 0.27, 0, 1),
        "rates": -factor * 2e-3 * np.sum(after[3] ** 2),
        "energy": -factor * 1e-4 * mean_power(log),
    }


@pytest.mark.parametrize(
    ("kwargs", "options", "terms_of"),
    [
        (dict(reward_weights={"action_rate": 0.01}), {}, walk_terms),
        (dict(reward="walk_in_the_park"), {}, park_terms),
        (
            dict(task="command", reward_weights={"action_rate": 0.01}),
            dict(command=(0.5, 0.1, -0.3)),
            command_terms,
        ),
        (dict(task="recover", prev_epochs=200), {}, recover_terms),
    ],
    ids=["linear", "walk_in_the_park", "tracking", "bounded"],
)
def test_rewards_term_by_term(make, monkeypatch, kwargs, options, terms_of):
    env = make(**kwargs)
    rng = np.random.default_rng(2)
    env.reset(seed=3, options=options)
    if env.task.self_collision:  # upright, so that every term is there
        env.robot.place((0, 0, 0.3), (0.2, 0, 1.0), STANCE.tolist())
    last_action = np.zeros(12)
    obs, *_ = env.step(last_action)
    for _ in range(6):
        before, log = state_of(env), watched(env, monkeypatch)
        log.obs = obs
        action = rng.uniform(-0.7, 0.7, 12)
        obs, rew, _, _, info = env.step(action)
        terms = terms_of(before, state_of(env), log, action, last_action)
        last_action = action
        seen = {k.removeprefix("reward_"): x for k, x in info.items() if k.startswith("reward_")}
        assert [*seen] == [*terms]
        assert seen == pytest.approx(terms, rel=1e-6, abs=1e-9)
        assert rew == pytest.approx(sum(terms.values()))


@pytest.mark.parametrize(
    ("attitude", "height", "fallen"),
    [(0.0, 0.3, False), (33.0, 0.35, False), (39.0, 0.35, True), (0.0, 0.12, True)],
)
def test_falling_ends_a_walk(make, attitude, height, fallen):
    """Limits are 35 degrees and 15 cm; on soft legs a robot sinks about a centimetre in a step."""
    env = make(kp=1.0)
    env.reset(seed=0)
    crouch = np.array((0, 1.5, -2.69) * 4) if height < 0.2 else STANCE
    env.robot.place((0, 0, height), (math.radians(attitude), 0, 0), crouch.tolist())
    _, _, terminated, _, info = env.step(STAND)
    assert terminated == fallen
    assert not info["is_success"]


@pytest.mark.parametrize("straight", [False, True])
def test_speed_is_that_of_the_direction_in_which_it_looks(make, straight):
    """A robot that is turned to the left and trots goes along y, which once was sideways."""
    env = make(straight=straight)
    env.reset(seed=0)
    env.robot.place((0, 0, 0.28), (0, 0, math.pi / 2), STANCE.tolist())
    env._episode.base = env.robot.base()
    seen, penalties = [], []
    for _ in range(40):
        *_, info = env.step(env.target_policy(env.t))
        seen.append(info["x_velocity"])
        penalties.append(info["reward_lateral"])
    x, y, _ = env.robot.base().position
    assert y > 0.5
    if straight:
        assert np.sum(seen) * 0.05 == pytest.approx(x, abs=0.02)
        assert np.sum(penalties) * 0.05 < -0.2 * 0.9 * y
    else:
        assert np.sum(seen) * 0.05 == pytest.approx(y, rel=0.2)
    assert info["x_position"] == x


# --------------------------------------------------------------- what the original offers


def test_which_feet_are_on_the_ground(make):
    env = make(reset_noise=False)
    env.reset()
    for _ in range(5):
        env.step(STAND)
    assert env.feet_on_ground == [True] * 4
    for leg in range(4):
        env.reset()
        joints = STANCE.copy()
        joints[3 * leg + 2] -= 0.8  # the lower leg is drawn up
        env.robot.place((0, 0, 0.30), (0, 0, 0), joints.tolist())
        env.robot.hold(joints.tolist(), 60)
        assert env.feet_on_ground == [each != leg for each in range(4)]
    env.robot.place((0, 0, 0.50), (0, 0, 0), STANCE.tolist())
    env.robot.hold(STANCE.tolist(), 1)
    assert env.feet_on_ground == [False] * 4


def test_time_and_curriculum(make):
    env = make("recover", prev_epochs=98)
    assert env.t == 0
    env.reset(seed=0)
    assert env.t == 0
    buffer = env.history_buffer
    assert (buffer["last_action"] == 0).all()
    with pytest.raises(TypeError, match="does not support item assignment"):
        buffer["last_action"] = np.ones(12)
    with pytest.raises(ValueError, match="read-only"):
        buffer["last_action"][:] = 1
    with pytest.raises(ValueError, match="read-only"):
        buffer["joint_state"]["position"][-1] = 1
    env.add_epoch()
    env.addEpoch()
    assert env.curriculum_factor == pytest.approx(0.48, abs=0.005)
    factors = []
    for epoch in (0, 300, 500, 1000):
        env.set_epoch(epoch)
        factors.append(env.curriculum_factor)
    assert factors == pytest.approx([0.30, 0.77, 0.91, 0.99], abs=0.006)


@pytest.mark.parametrize("kind", ["absolute_actions", "residual_gait"])
def test_other_actions_for_the_same_trot(make, kind):
    """Joint angles; or an action of 0 trots, and the demonstration has nothing to add."""
    env, other = make(**{kind: True}), make()
    env.reset(seed=0)
    other.reset(seed=0)
    for _ in range(10):
        shown = trot(env.t) if kind == "absolute_actions" else STAND
        np.testing.assert_allclose(env.target_policy(env.t), shown, atol=1e-6)
        obs, *_ = env.step(shown)
        np.testing.assert_allclose(obs[33:45], shown, atol=1e-6)
        other.step(other.target_policy(other.t))
        np.testing.assert_allclose(env.robot.position, other.robot.position, atol=1e-5)
    if kind == "absolute_actions":
        np.testing.assert_allclose(env.action_space.low, env.robot.lower, rtol=1e-6)
        np.testing.assert_allclose(env.action_space.high, env.robot.upper, rtol=1e-6)


def test_action_filter(make):
    """A low-pass filter of the first order: 1 - exp(-2 pi f dt) of the way in each step."""
    env = make(action_filter=2.0, reset_noise=False)
    env.reset()
    share = 1 - math.exp(-2 * math.pi * 2.0 * 0.05)
    action = np.full(12, 0.5)
    for steps in (1, 2, 3):
        env.step(action)
        left = np.array(env.robot.samples[-1].target) - STANCE - np.tile((0.1, 0.2, 0.2), 4)
        assert left == pytest.approx(-((1 - share) ** steps) * np.tile((0.1, 0.2, 0.2), 4))


# -------------------------------------------------------------------------------- pictures


def test_pictures(make):
    env = make(render_mode="rgb_array")
    env.reset(seed=0)
    picture = env.render()
    assert (picture.shape, picture.dtype) == ((360, 480, 3), np.uint8)
    red, _, blue = np.moveaxis(picture.astype(int), -1, 0)
    assert (red > blue + 20).sum() > 5000  # the robot; the floor is blue and white


@pytest.mark.parametrize("display", [None, ":87"])
@pytest.mark.parametrize("name", ["human", "GUI"])
def test_a_window_needs_a_display(monkeypatch, display, name):
    """PyBullet would end the process."""
    monkeypatch.delenv("DISPLAY", raising=False)
    if display:
        monkeypatch.setenv("DISPLAY", display)
    with pytest.raises(UserError, match="There is no display to show the quadruped on"):
        QuadrupedEnv(render_mode=name)
