"""The Unitree A1 in a PyBullet simulation of its own, its joints driven by explicit PD control."""

import atexit
import functools
import math
import os
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from spinup_tf2.envs.quadruped.actuators import speed_limited
from spinup_tf2.envs.quadruped.bullet import FUNCTIONS, has_display, load_pybullet, silenced
from spinup_tf2.envs.quadruped.conditions import GRAVITY, PUSH_SECONDS, Conditions
from spinup_tf2.envs.quadruped.gait import JOINTS
from spinup_tf2.envs.quadruped.terrain import CELL, POINTS, Terrain
from spinup_tf2.errors import UserError

URDF = "a1/a1.urdf"  # of pybullet_data
PICTURE = (480, 360)  # width, height
LIFT = 5.0  # metres, far from everything that could be touched
_CAMERA = (1.1, 50, -20)  # distance in m, yaw and pitch in degrees


class Sample(NamedTuple):
    """What was measured after one substep: the joints' state, and how they were driven before it.

    Each is a list of 12 numbers, in the order of JOINTS: rad, rad/s, rad, Nm. The target is the one
    that was sent, also if it takes effect later.
    """

    position: list[float]
    velocity: list[float]
    target: list[float]
    torque: list[float]


@dataclass(frozen=True)
class Base:
    """Where the trunk is and how it moves: position [3] in m, rotation [3, 3] from its own frame to
    the world's, velocities [3] in m/s and rad/s, in the world's frame.
    """

    position: np.ndarray
    rotation: np.ndarray
    velocity: np.ndarray
    angular_velocity: np.ndarray

    @functools.cached_property  # the first of an episode is asked for in every step
    def heading(self) -> np.ndarray:
        """The rotation [3, 3] about the vertical that turns where it looks to the x axis."""
        yaw = np.arctan2(self.rotation[1, 0], self.rotation[0, 0])
        cos, sin = np.cos(yaw), np.sin(yaw)
        return np.array([[cos, sin, 0.0], [-sin, cos, 0.0], [0.0, 0.0, 1.0]])


class Robot:
    """An A1 on a plane, or on rough ground.

    gui: show it in PyBullet's window. visible: load what is needed to draw pictures of it.
    sim_hz: substeps per second. kp, kd, torque_limit: of the PD control, in Nm/rad, Nms/rad, Nm.
    velocity_limit: at which a joint has no torque left, in rad/s; None: it always has all.
    self_collision: whether legs and trunk collide with each other.
    roughness: of the roughest ground that it will stand on, in m.
    window: how many samples are kept.

    `position` and `velocity` are those of the joints at present, `samples` the last ones.
    """

    def __init__(
        self,
        *,
        gui: bool = False,
        visible: bool = False,
        sim_hz: int = 500,
        kp: float = 60.0,
        kd: float = 2.0,
        torque_limit: float = 33.5,
        velocity_limit: float | None = None,
        self_collision: bool = False,
        roughness: float = 0.0,
        window: int = 25,
    ):
        self._p, data = load_pybullet()
        p = self._p
        if gui and not has_display():
            raise UserError(
                "There is no display to show the quadruped on; make it with "
                "render_mode='rgb_array', or None, or set DISPLAY."
            )
        self.kp, self.kd, self.torque_limit = kp, kd, torque_limit
        self.velocity_limit, self.sim_hz = velocity_limit, sim_hz
        self.samples = deque(maxlen=window)
        self._sent = deque()  # targets, of which the first one is in effect
        self._force, self._pushed = None, 0  # in N, and for how many substeps more
        with silenced(1):
            self.client = p.connect(p.GUI if gui else p.DIRECT)
        if self.client < 0:
            self.client = None
            raise UserError("PyBullet cannot open a window; a process can have one at a time.")
        if gui:
            atexit.register(self.close)  # before PyBullet itself closes the window, and says so
        try:
            self._load(data, gui or visible, self_collision, roughness)
        except BaseException:
            self.close()
            raise

    def _load(self, data, visible, self_collision, roughness):
        p, client = self._p, self.client
        for name in FUNCTIONS:  # a call that does not say which simulation goes to the first one
            function = functools.partial(getattr(p, name), physicsClientId=client)
            setattr(self, f"_{name}", function)
        # Without the inertia of the file merged links get that of their shapes, and PD control of
        # an A1 that moves begins to chatter; one that stands does not show it.
        flags = p.URDF_MERGE_FIXED_LINKS | p.URDF_USE_INERTIA_FROM_FILE
        if self_collision:
            flags |= p.URDF_USE_SELF_COLLISION | p.URDF_USE_SELF_COLLISION_EXCLUDE_ALL_PARENTS
        if not visible:
            flags |= p.URDF_IGNORE_VISUAL_SHAPES
        with silenced(1):
            self._ground = [self._loadURDF(os.path.join(data, "plane.urdf"))]
            self.body = self._loadURDF(os.path.join(data, URDF), [0, 0, LIFT], flags=flags)
        self._terrain = Terrain(roughness) if roughness else None
        if self._terrain is not None:
            self._ground.append(self._build(self._terrain))
        self._setPhysicsEngineParameter(
            fixedTimeStep=1 / self.sim_hz, deterministicOverlappingPairs=1
        )

        infos = [self._getJointInfo(self.body, i) for i in range(self._getNumJoints(self.body))]
        by_name = {info[1].decode(): info for info in infos}
        missing = [name for name in JOINTS if name not in by_name]
        if missing:
            raise UserError(f"{URDF} has no joints {', '.join(missing)}; it has {[*by_name]}.")
        # A moving joint and the link below it have one number.
        self.joints = [by_name[name][0] for name in JOINTS]
        self.lower = np.array([by_name[name][8] for name in JOINTS])
        self.upper = np.array([by_name[name][9] for name in JOINTS])
        self._setJointMotorControlArray(  # joints have motors, which are switched off
            self.body, self.joints, p.VELOCITY_CONTROL, forces=[0.0] * len(JOINTS)
        )
        for link in [-1, *self.joints]:
            self._changeDynamics(self.body, link, linearDamping=0.0, angularDamping=0.0)
        for ground in self._ground:
            self._changeDynamics(ground, -1, lateralFriction=1.0)
        self._mass, _, self._inertia = self._getDynamicsInfo(self.body, -1)[:3]
        self.set_conditions(Conditions())

    def _build(self, terrain):
        shape = self._createCollisionShape(
            self._p.GEOM_HEIGHTFIELD,
            meshScale=[CELL, CELL, 1],
            heightfieldData=terrain.heights.ravel().tolist(),
            numHeightfieldRows=POINTS,
            numHeightfieldColumns=POINTS,
        )
        return self._createMultiBody(0, shape, basePosition=terrain.center)

    def set_conditions(self, conditions: Conditions) -> None:
        """Let these conditions hold, until there are others. The robot must then be placed."""
        self.conditions, mass = conditions, conditions.mass
        self._setGravity(*(GRAVITY * conditions.down).tolist())
        for link in self.joints:  # merging has made each foot a part of its lower leg
            self._changeDynamics(self.body, link, lateralFriction=conditions.friction)
        inertia = [mass * each for each in self._inertia]  # else it would be that of the shape
        self._changeDynamics(self.body, -1, mass=mass * self._mass, localInertiaDiagonal=inertia)
        self._sent = deque(maxlen=1 + round(conditions.latency * self.sim_hz))
        if self._terrain is not None:
            self._terrain.place(conditions.roughness, conditions.shift)
            self._resetBasePositionAndOrientation(
                self._ground[1], self._terrain.center, [0, 0, 0, 1]
            )

    # ---------------------------------------------------------------------------------- moving

    def place(
        self, position: Sequence[float], euler: Sequence[float], joints: Sequence[float]
    ) -> None:
        """Put it somewhere, at rest: m, rad (roll, pitch, yaw), rad.

        On rough ground, heights are above the highest point near it.
        """
        self._lift()
        quaternion = self._p.getQuaternionFromEuler(list(euler))
        x, y, z = position
        if self._terrain is not None:
            z += self._terrain.highest(x, y)
        self._resetBasePositionAndOrientation(self.body, [x, y, z], quaternion)
        self._resetBaseVelocity(self.body, [0, 0, 0], [0, 0, 0])
        self._resetJointStatesMultiDof(
            self.body, self.joints, [[angle] for angle in joints], [[0.0]] * len(JOINTS)
        )
        self._measure()
        self._force, self._pushed = None, 0
        self.forget()

    def _lift(self):
        """Away from the ground: what touched it before would be remembered, if it is close to what
        touches it next.
        """
        self._resetBasePositionAndOrientation(self.body, [0, 0, LIFT], [0, 0, 0, 1])
        self._performCollisionDetection()

    def forget(self) -> None:
        """Fill `samples` with the present, as if the joints had always been held there."""
        now = Sample(self.position, self.velocity, self.position, [0.0] * len(JOINTS))
        self.samples.extend([now] * self.samples.maxlen)
        self._sent.extend([self.position] * self._sent.maxlen)

    def fall(self, substeps: int) -> None:
        """Let it fall, without torque."""
        self._apply([0.0] * len(JOINTS))
        for _ in range(substeps):
            self._stepSimulation()
        self._measure()
        self.forget()

    def hold(self, target: list[float], substeps: int) -> float:
        """Drive the joints towards `target` `[12]`, in rad, for that many substeps.

        Returns the mean power of the joints, the sum of |torque x velocity|, in W.
        """
        kp, kd = np.multiply((self.kp, self.kd), self.conditions.gains).tolist()
        high = self.conditions.torque_limit or self.torque_limit
        low, fastest = -high, self.velocity_limit
        step, measure, apply = self._stepSimulation, self._measure, self._apply
        torques, velocities = [], []
        for _ in range(substeps):  # lists of 12 are faster than arrays, and this than min and max
            self._sent.append(target)
            torque = [
                low if (x := kp * (goal - q) - kd * dq) < low else high if x > high else x
                for goal, q, dq in zip(self._sent[0], self.position, self.velocity, strict=True)
            ]
            if fastest is not None:
                torque = speed_limited(torque, self.velocity, high, fastest)
            apply(torque)
            if self._pushed:
                self._keep_pushing()
            step()
            measure()
            self.samples.append(Sample(self.position, self.velocity, target, torque))
            torques.append(torque)
            velocities.append(self.velocity)
        return float(np.abs(np.multiply(torques, velocities)).sum() / substeps)

    def disturb(self, direction: float) -> None:
        """Be pushed horizontally as the conditions say, in this direction in rad."""
        towards = np.array((math.cos(direction), math.sin(direction), 0.0))
        if self.conditions.push_speed:
            self.kick((self.conditions.push_speed * towards).tolist())
        if self.conditions.push:
            self.push((self.conditions.push * towards).tolist(), PUSH_SECONDS)

    def push(self, force: Sequence[float], seconds: float) -> None:
        """Let a force `[3]` act on the middle of the trunk from now on, in N, for that long."""
        self._force, self._pushed = list(force), round(seconds * self.sim_hz)

    def _keep_pushing(self):
        self._pushed -= 1
        at, _ = self._getBasePositionAndOrientation(self.body)
        self._applyExternalForce(self.body, -1, self._force, at, self._p.WORLD_FRAME)

    def kick(self, velocity: Sequence[float]) -> None:
        """Change the trunk's velocity by so much, in m/s."""
        linear, angular = self._getBaseVelocity(self.body)
        self._resetBaseVelocity(self.body, np.add(linear, velocity).tolist(), angular)

    def _apply(self, torque):
        self._setJointMotorControlArray(
            self.body, self.joints, self._p.TORQUE_CONTROL, forces=torque
        )

    def _measure(self):
        states = self._getJointStates(self.body, self.joints)
        self.position = [state[0] for state in states]
        self.velocity = [state[1] for state in states]

    # --------------------------------------------------------------------------------- looking

    def base(self) -> Base:
        position, quaternion = self._getBasePositionAndOrientation(self.body)
        rotation = np.reshape(self._p.getMatrixFromQuaternion(quaternion), (3, 3))
        velocity, angular_velocity = self._getBaseVelocity(self.body)
        return Base(np.array(position), rotation, np.array(velocity), np.array(angular_velocity))

    def feet_on_ground(self) -> list[bool]:
        """Which feet touch the ground now, in the order of LEGS."""
        touching = {
            contact[3]
            for ground in self._ground
            for contact in self._getContactPoints(self.body, ground)
        }
        return [link in touching for link in self.joints[2::3]]  # a foot is part of its lower leg

    def ground_height(self, x: float, y: float) -> float:
        """Height of the ground there, in m."""
        return 0.0 if self._terrain is None else self._terrain.at(x, y)

    def look(self) -> None:
        """Turn the window's camera to the robot."""
        self._resetDebugVisualizerCamera(
            *_CAMERA, self._getBasePositionAndOrientation(self.body)[0]
        )

    def picture(self) -> np.ndarray:
        """uint8 `[height, width, 3]`, drawn without graphics hardware; the robot in the middle."""
        p, (width, height) = self._p, PICTURE
        distance, yaw, pitch = _CAMERA
        x, y, _ = self._getBasePositionAndOrientation(self.body)[0]
        view = p.computeViewMatrixFromYawPitchRoll([x, y, 0.2], distance, yaw, pitch, 0, 2)
        projection = p.computeProjectionMatrixFOV(50, width / height, 0.1, 20)
        rgba = self._getCameraImage(width, height, view, projection, renderer=p.ER_TINY_RENDERER)[2]
        # An array, or a tuple where PyBullet was built without NumPy.
        return np.asarray(rgba, np.uint8).reshape(height, width, 4)[..., :3].copy()

    # --------------------------------------------------------------------------------- keeping

    def save(self) -> SimpleNamespace:
        """All of its state, for `restore`, until `forget_saved`."""
        saved = SimpleNamespace(
            number=self._saveState(),
            conditions=self.conditions,
            samples=[*self.samples],
            sent=[*self._sent],
            pushing=(self._force, self._pushed),
        )
        if self._terrain is not None:  # PyBullet forgets some of what touches bumps, now or later
            self.restore(saved)
        return saved

    def restore(self, saved: SimpleNamespace) -> None:
        self.set_conditions(saved.conditions)
        if self._terrain is not None:
            self._lift()
        self._restoreState(saved.number)
        self._measure()
        self.samples.extend(saved.samples)
        self._sent.extend(saved.sent)
        self._force, self._pushed = saved.pushing

    def forget_saved(self, saved: SimpleNamespace) -> None:
        self._removeState(saved.number)

    def close(self) -> None:
        """End the simulation; a second time, nothing is done."""
        atexit.unregister(self.close)
        client, self.client = self.client, None
        if client is not None:
            # PyBullet reports on the threads of its window, which the user may have closed before.
            with silenced(1), suppress(self._p.error):
                self._p.disconnect(client)
