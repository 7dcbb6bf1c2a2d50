"""The state of an episode, and the motion of the robot in a step."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spinup_tf2.envs.quadruped.commands import Errors, Tracking
from spinup_tf2.envs.quadruped.robot import Base, Robot


@dataclass
class Episode:
    """The state of an episode.

    Attributes:
        began, base: State of the trunk at the beginning of the episode and now.
        act: The last action, `[12]`.
        target: The joint angles that it stood for, `[12]`, in rad.
        obs: The last observation.
        tracking: The command, if there is one.
        steps: Number of steps so far.
        broken: Whether the simulation has failed.
    """

    began: Base
    base: Base
    act: np.ndarray
    target: np.ndarray
    obs: np.ndarray | None = None
    tracking: Tracking | None = None
    steps: int = 0
    broken: bool = False


@dataclass(frozen=True)
class Motion:
    """The motion of the robot in a step, from which rewards and terminations are computed.

    Attributes:
        position: Position of the trunk, `[3]`, in m.
        height: Height of the trunk above the ground, in m.
        up: How upright the trunk is: 1 if it is level, -1 if it is upside down.
        forward, sideways: Mean speed over the step in m/s, in the direction in which the robot
            faced at the beginning of the step or of the episode, and to the left of it.
        mean_forward: Mean forward speed in m/s since the beginning of the episode, in the direction
            in which the robot faced then.
        rates: Angular velocity at the end of the step, `[3]`, in rad/s, in the trunk's frame.
        joints: Joint angles at the end of the step, `[12]`, in rad.
        power: Mean power of the joints over the step, in W.
        act, last_act: Actions of this step and of the previous one, `[12]`.
        target_speed: Target speed in m/s.
        curriculum: Factor of penalties.
        clock: Cycles of the clock in the observation since the beginning of the episode.
        feet: Function that returns whether each foot touches the ground, `[4]`. It is a bit slow.
        turning: Mean angular speed of the heading over the step, in rad/s.
        tracking: The command during the step, and how well commands have been followed.
    """

    position: np.ndarray
    height: float
    up: float
    forward: float
    sideways: float
    mean_forward: float
    rates: np.ndarray
    joints: np.ndarray
    power: float
    act: np.ndarray
    last_act: np.ndarray
    target_speed: float
    curriculum: float
    clock: float
    feet: Callable[[], list[bool]]
    turning: float = 0.0
    tracking: Tracking | None = None

    @property
    def errors(self) -> Errors:
        """Deviations of the step from the command: planar velocity in m/s, turning in rad/s."""
        forward, sideways, turning = self.tracking.command
        velocity_error = math.hypot(self.forward - forward, self.sideways - sideways)
        return velocity_error, abs(self.turning - turning)


def motion_since(
    before: Base,
    now: Episode,
    robot: Robot,
    *,
    last_act: np.ndarray,
    power: float,
    dt: float,
    straight: bool,
    target_speed: float,
    curriculum: float,
    phase_hz: float,
) -> Motion:
    """Compute the motion in a step of `dt` seconds, since the trunk was at `before`."""
    base, began, t = now.base, now.began, now.steps * dt
    way = (began if straight else before).heading @ (base.position - before.position)
    forward, sideways = way[:2] / dt
    mean_forward = (began.heading @ (base.position - began.position))[0] / (t or 1.0)
    turning = 0.0
    if now.tracking is not None:
        cos, sin, _ = before.heading @ base.heading[0]
        turning = math.atan2(sin, cos) / dt
    return Motion(
        position=base.position,
        height=base.position[2] - robot.ground_height(*base.position[:2]),
        up=base.rotation[2, 2],
        forward=forward,
        sideways=sideways,
        mean_forward=mean_forward,
        rates=base.rotation.T @ base.angular_velocity,
        joints=np.array(robot.position),
        power=power,
        act=now.act,
        last_act=last_act,
        target_speed=target_speed,
        curriculum=curriculum,
        clock=phase_hz * t,
        feet=robot.feet_on_ground,
        turning=turning,
        tracking=now.tracking,
    )
