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
LIFT = 5.0  # m, far above anything that could be touched
_CAMERA = (1.1, 50, -20)  # distance in m, yaw and pitch in degrees


class Sample(NamedTuple):
    """The joints' state after one substep, and the target and torque during it.

    Each is a list of 12 numbers, in the order of JOINTS, in rad, rad/s, rad, Nm. The target is the
    one that was sent, even if it takes effect later.
    """

    position: list[float]
    velocity: list[float]
    target: list[float]
    torque: list[float]


@dataclass(frozen=True)
class Base:
    """State of the trunk.

    Attributes:
        position: `[3]`, in m.
        rotation: `[3, 3]`, from the trunk's frame to the world's.
        velocity: `[3]`, in m/s, in the world's frame.
        angular_velocity: `[3]`, in rad/s, in the world's frame.
    """

    position: np.ndarray
    rotation: np.ndarray
    velocity: np.ndarray
    angular_velocity: np.ndarray

    @functools.cached_property  # that of an episode's beginning is used in every step
    def heading(self) -> np.ndarray:
        """Rotation `[3, 3]` about the vertical that turns the trunk's heading to the x axis."""
        yaw = np.arctan2(self.rotation[1, 0], self.rotation[0, 0])
        cos, sin = np.cos(yaw), np.sin(yaw)
        return np.array([[cos, sin, 0.0], [-sin, cos, 0.0], [0.0, 0.0, 1.0]])


class Robot:
    """An A1 on a plane, or on rough ground.

    Args:
        gui: Whether to show it in PyBullet's window.
        visible: Whether to load the shapes that rendering needs.
        sim_hz: Substeps per second.
        kp, kd, torque_limit: Gains and torque limit of the PD control, in Nm/rad, Nms/rad and Nm.
        velocity_limit: Speed at which a joint has no torque left, in rad/s; None for a constant
            torque limit.
        self_collision: Whether legs and trunk collide with each other.
        roughness: Height of the roughest ground that it will stand on, in m.
        window: Number of samples that are kept.

    Attributes:
        position, velocity: Current angles and speeds of the joints, lists of 12 numbers.
        samples: The last samples, the newest last.
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
        self._sent = deque()  # targets that were sent; the first one is in effect
        self._force, self._pushed = None, 0  # pushing force in N, and substeps that remain of it
        with silenced(1):
            self.client = p.connect(p.GUI if gui else p.DIRECT)
        if self.client < 0:
            self.client = None
            raise UserError("PyBullet cannot open a window; a process can have one at a time.")
        if gui:
            atexit.register(self.close)  # before PyBullet closes the window itself, with a message
        try:
            self._load(data, gui or visible, self_collision, roughness)
        except BaseException:
            self.close()
            raise

    def _load(self, data, visible, self_collision, roughness):
        p, client = self._p, self.client
        for name in FUNCTIONS:  # without an explicit client, calls go to the first simulation
            function = functools.partial(getattr(p, name), physicsClientId=client)
            setattr(self, f"_{name}", function)
        # Without the inertia from the file, merged links get that of their shapes, and the PD
        # control of a moving A1 begins to chatter (that of a standing one does not).
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
        # A joint and the link below it share one index.
        self.joints = [by_name[name][0] for name in JOINTS]
        self.lower = np.array([by_name[name][8] for name in JOINTS])
        self.upper = np.array([by_name[name][9] for name in JOINTS])
        self._setJointMotorControlArray(  # switches off the joints' default motors
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
        """Apply these conditions until further notice. The robot must be placed afterwards."""
        self.conditions, mass = conditions, conditions.mass
        self._setGravity(*(GRAVITY * conditions.down).tolist())
        for link in self.joints:  # merging links has made each foot a part of its lower leg
            self._changeDynamics(self.body, link, lateralFriction=conditions.friction)
        inertia = [mass * each for each in self._inertia]  # by default it is that of the shape
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
        """Place the robot at rest.

        Args:
            position: Position of the trunk, `[3]`, in m. On rough ground, the height is above the
                highest point nearby.
            euler: Roll, pitch and yaw of the trunk, in rad.
            joints: Angles of the joints, `[12]`, in rad.
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
        """Lift the robot off the ground, so that PyBullet forgets old contacts.

        Otherwise it would keep those that are close to the next ones.
        """
        self._resetBasePositionAndOrientation(self.body, [0, 0, LIFT], [0, 0, 0, 1])
        self._performCollisionDetection()

    def forget(self) -> None:
        """Fill `samples` with the current state, as if the joints had always been held there."""
        now = Sample(self.position, self.velocity, self.position, [0.0] * len(JOINTS))
        self.samples.extend([now] * self.samples.maxlen)
        self._sent.extend([self.position] * self._sent.maxlen)

    def fall(self, substeps: int) -> None:
        """Let the robot fall for that many substeps, without torque."""
        self._apply([0.0] * len(JOINTS))
        for _ in range(substeps):
            self._stepSimulation()
        self._measure()
        self.forget()

    def hold(self, target: list[float], substeps: int) -> float:
        """Drive the joints towards `target` `[12]`, in rad, for that many substeps.

        Returns:
            The mean power over the substeps in W: sum of `|torque x velocity|` over the joints.
        """
        kp, kd = np.multiply((self.kp, self.kd), self.conditions.gains).tolist()
        high = self.conditions.torque_limit or self.torque_limit
        low, fastest = -high, self.velocity_limit
        step, measure, apply = self._stepSimulation, self._measure, self._apply
        torques, velocities = [], []
        for _ in range(substeps):  # lists are faster than arrays, comparisons than min and max
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
        """Push the robot horizontally, as hard as the conditions say, in a direction in rad."""
        towards = np.array((math.cos(direction), math.sin(direction), 0.0))
        if self.conditions.push_speed:
            self.kick((self.conditions.push_speed * towards).tolist())
        if self.conditions.push:
            self.push((self.conditions.push * towards).tolist(), PUSH_SECONDS)

    def push(self, force: Sequence[float], seconds: float) -> None:
        """Apply a force `[3]`, in N, to the center of the trunk for some time from now on."""
        self._force, self._pushed = list(force), round(seconds * self.sim_hz)

    def _keep_pushing(self):
        self._pushed -= 1
        at, _ = self._getBasePositionAndOrientation(self.body)
        self._applyExternalForce(self.body, -1, self._force, at, self._p.WORLD_FRAME)

    def kick(self, velocity: Sequence[float]) -> None:
        """Change the trunk's velocity by `velocity` `[3]`, in m/s."""
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

    # --------------------------------------------------------------------------------- observing

    def base(self) -> Base:
        position, quaternion = self._getBasePositionAndOrientation(self.body)
        rotation = np.reshape(self._p.getMatrixFromQuaternion(quaternion), (3, 3))
        velocity, angular_velocity = self._getBaseVelocity(self.body)
        return Base(np.array(position), rotation, np.array(velocity), np.array(angular_velocity))

    def feet_on_ground(self) -> list[bool]:
        """Return whether each foot touches the ground, in the order of LEGS."""
        touching = {
            contact[3]
            for ground in self._ground
            for contact in self._getContactPoints(self.body, ground)
        }
        return [link in touching for link in self.joints[2::3]]  # a foot is part of its lower leg

    def ground_height(self, x: float, y: float) -> float:
        """Return the height of the ground at (x, y), in m."""
        return 0.0 if self._terrain is None else self._terrain.at(x, y)

    def look(self) -> None:
        """Point the window's camera at the robot."""
        self._resetDebugVisualizerCamera(
            *_CAMERA, self._getBasePositionAndOrientation(self.body)[0]
        )

    def picture(self) -> np.ndarray:
        """Render a frame, uint8 `[height, width, 3]`, centered on the robot, without a GPU."""
        p, (width, height) = self._p, PICTURE
        distance, yaw, pitch = _CAMERA
        x, y, _ = self._getBasePositionAndOrientation(self.body)[0]
        view = p.computeViewMatrixFromYawPitchRoll([x, y, 0.2], distance, yaw, pitch, 0, 2)
        projection = p.computeProjectionMatrixFOV(50, width / height, 0.1, 20)
        rgba = self._getCameraImage(width, height, view, projection, renderer=p.ER_TINY_RENDERER)[2]
        # An array, or a tuple if PyBullet was built without NumPy.
        return np.asarray(rgba, np.uint8).reshape(height, width, 4)[..., :3].copy()

    # ------------------------------------------------------------------------ saving and restoring

    def save(self) -> SimpleNamespace:
        """Save the complete state for `restore`; `forget_saved` frees it."""
        saved = SimpleNamespace(
            number=self._saveState(),
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
        self._restoreState(saved.number)
        self._measure()
        self.samples.extend(saved.samples)
        self._sent.extend(saved.sent)
        self._force, self._pushed = saved.pushing

    def forget_saved(self, saved: SimpleNamespace) -> None:
        self._removeState(saved.number)

    def close(self) -> None:
        """End the simulation. A second call does nothing."""
        atexit.unregister(self.close)
        client, self.client = self.client, None
        if client is not None:
            # PyBullet prints messages about its window, which the user may have closed already.
            with silenced(1), suppress(self._p.error):
                self._p.disconnect(client)
