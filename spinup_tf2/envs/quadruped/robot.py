"""The Unitree A1 in a PyBullet simulation of its own, its joints driven by explicit PD control."""

import atexit
import functools
import math
import os
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from spinup_tf2.envs.quadruped.bullet import open_simulation, silenced
from spinup_tf2.envs.quadruped.conditions import CELL, GRAVITY, POINTS, Conditions, Terrain
from spinup_tf2.envs.quadruped.gait import JOINTS

URDF = "a1/a1.urdf"  # of pybullet_data
LIFT = 5.0  # m, far above anything that could be touched
PUSH_SECONDS = 0.2  # s, for which a pushing force acts
_PICTURE = (480, 360)  # width, height
_CAMERA = (1.1, 50, -20)  # distance in m, yaw and pitch in degrees


class Sample(NamedTuple):
    """The joints' state after one substep, and the target and torque during it.

    Each is a list of 12 numbers, in the order of JOINTS.
    """

    position: list[float]  # rad
    velocity: list[float]  # rad/s
    target: list[float]  # rad; the one that was sent, even if it takes effect later
    torque: list[float]  # Nm


@dataclass(frozen=True)
class Base:
    """State of the trunk."""

    position: np.ndarray  # [3], m
    rotation: np.ndarray  # [3, 3], from the trunk's frame to the world's
    velocity: np.ndarray  # [3], m/s, in the world's frame
    angular_velocity: np.ndarray  # [3], rad/s, in the world's frame

    @functools.cached_property
    def yaw(self) -> float:
        """The direction in which the robot faces, in rad; 0 along the x axis, more to the left."""
        return np.arctan2(self.rotation[1, 0], self.rotation[0, 0])

    @functools.cached_property  # that of an episode's beginning is used in every step
    def heading(self) -> np.ndarray:
        """Rotation `[3, 3]` about the vertical that turns the trunk's heading to the x axis."""
        cos, sin = np.cos(self.yaw), np.sin(self.yaw)
        return np.array([[cos, sin, 0.0], [-sin, cos, 0.0], [0.0, 0.0, 1.0]])


def speed_limited(
    torques: list[float], speeds: list[float], torque_limit: float, velocity_limit: float
) -> list[float]:
    """Limit torques `[12]`, in Nm, to what DC motors can do at their speeds `[12]`, in rad/s.

    In the direction of motion, the largest torque falls linearly from `torque_limit` at rest to 0
    at `velocity_limit`. For braking, all of `torque_limit` is available.
    """
    limited = []
    for torque, speed in zip(torques, speeds, strict=True):
        along = torque_limit * max(1.0 - abs(speed) / velocity_limit, 0.0)
        highest, lowest = (along, -torque_limit) if speed > 0 else (torque_limit, -along)
        limited.append(min(max(torque, lowest), highest))
    return limited


@dataclass(frozen=True)
class Model:
    """An A1 and its simulation. Robots with equal models can be exchanged."""

    sim_hz: int  # substeps per second
    kp: float  # gains of the PD control, Nm/rad
    kd: float  # and Nms/rad
    torque_limit: float  # Nm
    velocity_limit: float | None  # rad/s, at which a joint has no torque left
    roughness: float  # m, height of the roughest ground that it will stand on
    window: int  # number of samples that are kept
    self_collision: bool = field(compare=False)  # whether legs and trunk collide with each other
    gui: bool = field(compare=False)  # whether it is shown in PyBullet's window
    visible: bool = field(compare=False)  # whether shapes that rendering needs are loaded


class Robot:
    """An A1 on a plane, or on rough ground.

    Attributes:
        p: PyBullet, for this simulation; None when it is closed.
        position, velocity: Current angles and speeds of the joints, lists of 12 numbers.
        samples: The last samples, the newest last.
    """

    def __init__(self, model: Model):
        self.model = model
        self.samples = deque(maxlen=model.window)
        self._sent = deque()  # targets that were sent; the first one is in effect
        self._force, self._pushed = None, 0  # pushing force in N, and substeps that remain of it
        self._terrain = Terrain(model.roughness) if model.roughness else None
        self.p, data = open_simulation(model.gui)
        if model.gui:
            atexit.register(self.close)  # before PyBullet closes the window itself, with a message
        try:
            self._load(data)
        except BaseException:
            self.close()
            raise

    def _load(self, data):
        p = self.p
        # Without the inertia from the file, merged links get that of their shapes, and the PD
        # control of a moving A1 begins to chatter (that of a standing one does not).
        flags = p.URDF_MERGE_FIXED_LINKS | p.URDF_USE_INERTIA_FROM_FILE
        if self.model.self_collision:
            flags |= p.URDF_USE_SELF_COLLISION | p.URDF_USE_SELF_COLLISION_EXCLUDE_ALL_PARENTS
        if not (self.model.gui or self.model.visible):
            flags |= p.URDF_IGNORE_VISUAL_SHAPES
        with silenced(1):
            self._ground = [p.loadURDF(os.path.join(data, "plane.urdf"))]
            self.body = p.loadURDF(os.path.join(data, URDF), [0, 0, LIFT], flags=flags)
        if self._terrain is not None:
            self._ground.append(self._build(self._terrain))
        p.setPhysicsEngineParameter(
            fixedTimeStep=1 / self.model.sim_hz, deterministicOverlappingPairs=1
        )

        infos = [p.getJointInfo(self.body, i) for i in range(p.getNumJoints(self.body))]
        by_name = {info[1].decode(): info for info in infos}
        # A joint and the link below it share one index.
        self.joints = [by_name[name][0] for name in JOINTS]
        self.lower = np.array([by_name[name][8] for name in JOINTS])
        self.upper = np.array([by_name[name][9] for name in JOINTS])
        self._states = functools.partial(p.getJointStates, self.body, self.joints)
        p.setJointMotorControlArray(  # switches off the joints' default motors
            self.body, self.joints, p.VELOCITY_CONTROL, forces=[0.0] * len(JOINTS)
        )
        for link in [-1, *self.joints]:
            p.changeDynamics(self.body, link, linearDamping=0.0, angularDamping=0.0)
        for ground in self._ground:
            p.changeDynamics(ground, -1, lateralFriction=1.0)
        self._mass, _, self._inertia = p.getDynamicsInfo(self.body, -1)[:3]
        self.set_conditions(Conditions())

    def _build(self, terrain):
        shape = self.p.createCollisionShape(
            self.p.GEOM_HEIGHTFIELD,
            meshScale=[CELL, CELL, 1],
            heightfieldData=terrain.heights.ravel().tolist(),
            numHeightfieldRows=POINTS,
            numHeightfieldColumns=POINTS,
        )
        return self.p.createMultiBody(0, shape, basePosition=terrain.center)

    def set_conditions(self, conditions: Conditions) -> None:
        """Apply these conditions until further notice. The robot must be placed afterwards."""
        p, mass = self.p, conditions.mass
        self.conditions = conditions
        p.setGravity(*(GRAVITY * conditions.down).tolist())
        for link in self.joints:  # merging links has made each foot a part of its lower leg
            p.changeDynamics(self.body, link, lateralFriction=conditions.friction)
        inertia = [mass * each for each in self._inertia]  # by default it is that of the shape
        p.changeDynamics(self.body, -1, mass=mass * self._mass, localInertiaDiagonal=inertia)
        self._sent = deque(maxlen=1 + round(conditions.latency * self.model.sim_hz))
        if self._terrain is not None:
            self._terrain.place(conditions.roughness, conditions.shift)
            p.resetBasePositionAndOrientation(self._ground[1], self._terrain.center, [0, 0, 0, 1])

    # ---------------------------------------------------------------------------------- moving

    def place(
        self, position: Sequence[float], euler: Sequence[float], joints: Sequence[float]
    ) -> None:
        """Place the robot at rest.

        Args:
            position: Position of the trunk, `[3]`, in m. On rough ground, the height is above the
                highest point nearby.
            euler: Roll, pitch and yaw of the trunk, in rad.
            joints: Angles of the joints, `[12]`, in rad.
        """
        self._lift()
        x, y, z = position
        if self._terrain is not None:
            z += self._terrain.highest(x, y)
        p, quaternion = self.p, self.p.getQuaternionFromEuler(list(euler))
        p.resetBasePositionAndOrientation(self.body, [x, y, z], quaternion)
        p.resetBaseVelocity(self.body, [0, 0, 0], [0, 0, 0])
        angles, speeds = [[angle] for angle in joints], [[0.0]] * len(JOINTS)
        p.resetJointStatesMultiDof(self.body, self.joints, angles, speeds)
        self._measure()
        self._force, self._pushed = None, 0
        self._forget()

    def _lift(self):
        """Lift the robot off the ground, so that PyBullet forgets old contacts.

        Otherwise it would keep those that are close to the next ones.
        """
        self.p.resetBasePositionAndOrientation(self.body, [0, 0, LIFT], [0, 0, 0, 1])
        self.p.performCollisionDetection()

    def _forget(self):
        """Fill `samples` with the current state, as if the joints had always been held there."""
        now = Sample(self.position, self.velocity, self.position, [0.0] * len(JOINTS))
        self.samples.extend([now] * self.samples.maxlen)
        self._sent.extend([self.position] * self._sent.maxlen)

    def fall(self, substeps: int) -> None:
        """Let the robot fall for that many substeps, without torque."""
        p = self.p
        p.setJointMotorControlArray(
            self.body, self.joints, p.TORQUE_CONTROL, forces=[0.0] * len(JOINTS)
        )
        for _ in range(substeps):
            p.stepSimulation()
        self._measure()
        self._forget()

    def hold(self, target: list[float], substeps: int) -> float:
        """Drive the joints towards `target` `[12]`, in rad, for that many substeps.

        Returns:
            The mean power over the substeps in W: sum of `|torque x velocity|` over the joints.
        """
        kp, kd = np.multiply((self.model.kp, self.model.kd), self.conditions.gains).tolist()
        high = self.conditions.torque_limit or self.model.torque_limit
        low, fastest = -high, self.model.velocity_limit
        step, apply = self.p.stepSimulation, self.p.setJointMotorControlArray
        mode = self.p.TORQUE_CONTROL
        torques, velocities = [], []
        for _ in range(substeps):  # lists are faster than arrays, comparisons than min and max
            self._sent.append(target)
            torque = [
                low if (x := kp * (goal - q) - kd * dq) < low else high if x > high else x
                for goal, q, dq in zip(self._sent[0], self.position, self.velocity, strict=True)
            ]
            if fastest is not None:
                torque = speed_limited(torque, self.velocity, high, fastest)
            apply(self.body, self.joints, mode, forces=torque)
            if self._pushed:
                self._keep_pushing()
            step()
            self._measure()
            self.samples.append(Sample(self.position, self.velocity, target, torque))
            torques.append(torque)
            velocities.append(self.velocity)
        return float(np.abs(np.multiply(torques, velocities)).sum() / substeps)

    def disturb(self, direction: float) -> None:
        """Push the robot horizontally, as hard as the conditions say, in a direction in rad."""
        towards = np.array((math.cos(direction), math.sin(direction), 0.0))
        if self.conditions.push_speed:
            self.kick((self.conditions.push_speed * towards).tolist())
        if self.conditions.push:
            self.push((self.conditions.push * towards).tolist())

    def push(self, force: Sequence[float]) -> None:
        """Apply a force `[3]`, in N, to the center of the trunk for PUSH_SECONDS from now on."""
        self._force, self._pushed = list(force), round(PUSH_SECONDS * self.model.sim_hz)

    def _keep_pushing(self):
        self._pushed -= 1
        at, _ = self.p.getBasePositionAndOrientation(self.body)
        self.p.applyExternalForce(self.body, -1, self._force, at, self.p.WORLD_FRAME)

    def kick(self, velocity: Sequence[float]) -> None:
        """Change the trunk's velocity by `velocity` `[3]`, in m/s."""
        linear, angular = self.p.getBaseVelocity(self.body)
        self.p.resetBaseVelocity(self.body, np.add(linear, velocity).tolist(), angular)

    def _measure(self):
        states = self._states()
        self.position = [state[0] for state in states]
        self.velocity = [state[1] for state in states]

    # --------------------------------------------------------------------------------- observing

    def base(self) -> Base:
        position, quaternion = self.p.getBasePositionAndOrientation(self.body)
        rotation = np.reshape(self.p.getMatrixFromQuaternion(quaternion), (3, 3))
        velocity, angular_velocity = self.p.getBaseVelocity(self.body)
        return Base(np.array(position), rotation, np.array(velocity), np.array(angular_velocity))

    def feet_on_ground(self) -> list[bool]:
        """Return whether each foot touches the ground, in the order of LEGS."""
        contacts = (self.p.getContactPoints(self.body, ground) for ground in self._ground)
        touching = {contact[3] for each in contacts for contact in each}
        return [link in touching for link in self.joints[2::3]]  # a foot is part of its lower leg

    def ground_height(self, x: float, y: float) -> float:
        """Return the height of the ground at (x, y), in m."""
        return 0.0 if self._terrain is None else self._terrain.at(x, y)

    def look(self) -> None:
        """Point the window's camera at the robot."""
        at, _ = self.p.getBasePositionAndOrientation(self.body)
        self.p.resetDebugVisualizerCamera(*_CAMERA, at)

    def picture(self) -> np.ndarray:
        """Render a frame, uint8 `[height, width, 3]`, centered on the robot, without a GPU."""
        p, (width, height) = self.p, _PICTURE
        distance, yaw, pitch = _CAMERA
        x, y, _ = p.getBasePositionAndOrientation(self.body)[0]
        view = p.computeViewMatrixFromYawPitchRoll([x, y, 0.2], distance, yaw, pitch, 0, 2)
        projection = p.computeProjectionMatrixFOV(50, width / height, 0.1, 20)
        rgba = p.getCameraImage(width, height, view, projection, renderer=p.ER_TINY_RENDERER)[2]
        # An array, or a tuple if PyBullet was built without NumPy.
        return np.asarray(rgba, np.uint8).reshape(height, width, 4)[..., :3].copy()

    # ------------------------------------------------------------------------ saving and restoring

    def save(self) -> SimpleNamespace:
        """Save the complete state for `restore`; `forget_saved` frees it."""
        saved = SimpleNamespace(
            number=self.p.saveState(),
            conditions=self.conditions,
            samples=[*self.samples],
            sent=[*self._sent],
            pushing=(self._force, self._pushed),
        )
        if self._terrain is not None:  # PyBullet loses some contacts with bumps; lose them now
            self.restore(saved)
        return saved

    def restore(self, saved: SimpleNamespace) -> None:
        self.set_conditions(saved.conditions)
        if self._terrain is not None:
            self._lift()
        self.p.restoreState(saved.number)
        self._measure()
        self.samples.extend(saved.samples)
        self._sent.extend(saved.sent)
        self._force, self._pushed = saved.pushing

    def forget_saved(self, saved: SimpleNamespace) -> None:
        self.p.removeState(saved.number)

    def close(self) -> None:
        """End the simulation. A second call does nothing."""
        atexit.unregister(self.close)
        p, self.p = self.p, None
        if p is not None:
            # PyBullet prints messages about its window, which the user may have closed already.
            with silenced(1), suppress(p.error):
                p.disconnect()
