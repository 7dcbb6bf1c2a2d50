"""Where an episode is, and what a step of it has led to."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spinup_tf2.envs.quadruped.commands import Errors, Tracking
from spinup_tf2.envs.quadruped.robot import Base, Robot


@dataclass
class Episode:
    """Where an episode is.

    began, base: the trunk at its beginning and now. act, target: [12], the last action, and the
    joint angles in rad that it stood for. obs: the last observation. tracking: the command, if
    there is one. steps: how many there have been. broken: whether the simulation has failed.
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
    """What a control step has led to, which rewards and terminations are made of.

    position: [3], of the trunk, in m. height: of the trunk above the ground, in m.
    up: how upright it is, 1 if parallel to the ground and -1 if upside down.
    forward, sideways: mean speed over the step in m/s, in the direction that the robot looked in at
        its beginning, or at the episode's, and to the left of that.
    mean_forward: since the episode's beginning, along the direction looked in there.
    rates: [3], angular velocity at the end of the step in rad/s, in the trunk's frame.
    joints: [12], angles at the end of the step in rad.
    power: the joints' mean power over the step, in W.
    act, last_act: [12], actions of this step and of the one before.
    target_speed: m/s. curriculum: factor of penalties.
    clock: rounds of the clock in the observation since the episode began.
    feet: asks which feet touch the ground at the end of the step, [4]. It takes some time.
    turning: mean angular speed of the heading over the step, in rad/s.
    tracking: the command that held in the step, and how well it has been followed.
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
        """How far the step was from the command: planar velocity in m/s, turning in rad/s."""
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
    """What has happened in a step of `dt` seconds, since the trunk was at `before`."""
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
