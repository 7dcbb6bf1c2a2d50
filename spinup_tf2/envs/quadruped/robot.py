"""The Unitree A1 in a PyBullet simulation of its own, its joints driven by explicit PD control."""

import atexit
import ctypes
import functools
import os
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from spinup_tf2.envs.quadruped.gait import JOINTS
from spinup_tf2.errors import UserError

INSTALL = 'pip install "spinup_tf2[quadruped]"'

URDF = "a1/a1.urdf"  # of pybullet_data
PICTURE = (480, 360)  # width, height
LIFT = 5.0  # metres, far from everything that could be touched


@functools.cache
def load_pybullet() -> tuple[Any, str]:
    """PyBullet, and the directory of its robots. It is imported where it is first needed."""
    try:
        with _silenced(2):  # it tells the date of its build
            import pybullet
            import pybullet_data
    except ImportError as error:
        raise UserError(
            f"The quadruped needs PyBullet, which cannot be loaded ({error}); install it with: "
            f"{INSTALL}"
        ) from error
    return pybullet, pybullet_data.getDataPath()


class Sample(NamedTuple):
    """What was measured after one substep: the joints' state, and how they were driven before it.

    Each is a list of 12 numbers, in the order of JOINTS: rad, rad/s, rad, Nm.
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
    """An A1 on a plane.

    gui: show it in PyBullet's window. visible: load what is needed to draw pictures of it.
    sim_hz: substeps per second. kp, kd, torque_limit: of the PD control, in Nm/rad, Nms/rad, Nm.
    self_collision: whether legs and trunk collide with each other.
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
        self_collision: bool = False,
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
        self.gains = (1.0, 1.0)  # factors of kp and kd
        self.samples = deque(maxlen=window)
        with _silenced(1):
            self.client = p.connect(p.GUI if gui else p.DIRECT)
        if self.client < 0:
            self.client = None
            raise UserError("PyBullet cannot open a window; a process can have one at a time.")
        if gui:
            atexit.register(self.close)  # before PyBullet itself closes the window, and says so
        try:
            self._load(data, sim_hz, gui or visible, self_collision)
        except BaseException:
            self.close()
            raise

    def _load(self, data, sim_hz, visible, self_collision):
        p, client = self._p, self.client
        for name in _FUNCTIONS:  # a call that does not say which simulation goes to the first one
            function = functools.partial(getattr(p, name), physicsClientId=client)
            setattr(self, f"_{name}", function)
        # Without the inertia of the file merged links get that of their shapes, and PD control of
        # an A1 that moves begins to chatter; one that stands does not show it.
        flags = p.URDF_MERGE_FIXED_LINKS | p.URDF_USE_INERTIA_FROM_FILE
        if self_collision:
            flags |= p.URDF_USE_SELF_COLLISION | p.URDF_USE_SELF_COLLISION_EXCLUDE_ALL_PARENTS
        if not visible:
            flags |= p.URDF_IGNORE_VISUAL_SHAPES
        with _silenced(1):
            self._plane = self._loadURDF(os.path.join(data, "plane.urdf"))
            self.body = self._loadURDF(os.path.join(data, URDF), [0, 0, LIFT], flags=flags)
        self._setGravity(0, 0, -9.81)
        self._setPhysicsEngineParameter(fixedTimeStep=1 / sim_hz, deterministicOverlappingPairs=1)

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
        self._changeDynamics(self._plane, -1, lateralFriction=1.0)
        self._mass, _, self._inertia = self._getDynamicsInfo(self.body, -1)[:3]
        self.set_dynamics()

    def set_dynamics(
        self,
        friction: float = 1.0,
        mass: float = 1.0,
        gains: tuple[float, float] = (1.0, 1.0),
    ) -> None:
        """friction: of the feet. mass: factor of the trunk's. gains: factors of kp and kd."""
        self.dynamics = dict(friction=friction, mass=mass, gains=gains)
        self.gains = gains
        for link in self.joints:  # merging has made each foot a part of its lower leg
            self._changeDynamics(self.body, link, lateralFriction=friction)
        inertia = [mass * each for each in self._inertia]  # else it would be that of the shape
        self._changeDynamics(self.body, -1, mass=mass * self._mass, localInertiaDiagonal=inertia)

    # ---------------------------------------------------------------------------------- moving

    def place(
        self, position: Sequence[float], euler: Sequence[float], joints: Sequence[float]
    ) -> None:
        """Put it somewhere, at rest: m, rad (roll, pitch, yaw), rad."""
        # What has touched before would be remembered, if it is close to what touches now.
        self._resetBasePositionAndOrientation(self.body, [0, 0, LIFT], [0, 0, 0, 1])
        self._performCollisionDetection()
        quaternion = self._p.getQuaternionFromEuler(list(euler))
        self._resetBasePositionAndOrientation(self.body, list(position), quaternion)
        self._resetBaseVelocity(self.body, [0, 0, 0], [0, 0, 0])
        self._resetJointStatesMultiDof(
            self.body, self.joints, [[angle] for angle in joints], [[0.0]] * len(JOINTS)
        )
        self._measure()
        self.forget()

    def forget(self) -> None:
        """Fill `samples` with the present, as if the joints had always been held there."""
        now = Sample(self.position, self.velocity, self.position, [0.0] * len(JOINTS))
        self.samples.extend([now] * self.samples.maxlen)

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
        kp, kd = self.kp * self.gains[0], self.kd * self.gains[1]
        high, low = self.torque_limit, -self.torque_limit
        step, measure, apply = self._stepSimulation, self._measure, self._apply
        torques, velocities = [], []
        for _ in range(substeps):  # lists of 12 are faster than arrays, and this than min and max
            torque = [
                low if (x := kp * (goal - q) - kd * dq) < low else high if x > high else x
                for goal, q, dq in zip(target, self.position, self.velocity, strict=True)
            ]
            apply(torque)
            step()
            measure()
            self.samples.append(Sample(self.position, self.velocity, target, torque))
            torques.append(torque)
            velocities.append(self.velocity)
        return float(np.abs(np.multiply(torques, velocities)).sum() / substeps)

    def push(self, velocity: Sequence[float]) -> None:
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
        touching = {contact[3] for contact in self._getContactPoints(self.body, self._plane)}
        return [link in touching for link in self.joints[2::3]]  # a foot is part of its lower leg

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
        return SimpleNamespace(
            number=self._saveState(), samples=[*self.samples], dynamics=self.dynamics
        )

    def restore(self, saved: SimpleNamespace) -> None:
        self.set_dynamics(**saved.dynamics)
        self._restoreState(saved.number)
        self._measure()
        self.samples.extend(saved.samples)

    def forget_saved(self, saved: SimpleNamespace) -> None:
        self._removeState(saved.number)

    def close(self) -> None:
        """End the simulation; a second time, nothing is done."""
        atexit.unregister(self.close)
        client, self.client = self.client, None
        if client is not None:
            # PyBullet reports on the threads of its window, which the user may have closed before.
            with _silenced(1), suppress(self._p.error):
                self._p.disconnect(client)


_CAMERA = (1.1, 50, -20)  # distance in m, yaw and pitch in degrees

_FUNCTIONS = (
    *("loadURDF", "setGravity", "setPhysicsEngineParameter", "getJointInfo", "getNumJoints"),
    *("getDynamicsInfo", "changeDynamics", "stepSimulation", "performCollisionDetection"),
    *("getJointStates", "setJointMotorControlArray", "resetJointStatesMultiDof"),
    *("getBasePositionAndOrientation", "resetBasePositionAndOrientation"),
    *("getBaseVelocity", "resetBaseVelocity", "saveState", "restoreState", "removeState"),
    *("getContactPoints", "getCameraImage", "resetDebugVisualizerCamera"),
)


def has_display() -> bool:
    """Whether PyBullet can open a window: if it cannot, it ends the process."""
    if sys.platform != "linux":
        return True
    try:
        x11 = ctypes.CDLL("libX11.so.6")
    except OSError:
        return False
    x11.XOpenDisplay.restype = ctypes.c_void_p
    display = x11.XOpenDisplay(None)
    if display:
        x11.XCloseDisplay(ctypes.c_void_p(display))
    return bool(display)


@contextmanager
def _silenced(descriptor: int) -> Iterator[None]:
    """Nothing that is written to a file descriptor is seen, also if C code writes it.

    All threads of the process are concerned, so keep it short.
    """
    flush = ctypes.CDLL(None).fflush  # what C has buffered would appear before, or after
    flush(None)
    kept = os.dup(descriptor)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
    try:
        yield
    finally:
        flush(None)
        os.dup2(kept, descriptor)
        os.close(kept)
