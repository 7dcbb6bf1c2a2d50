"""An episode: its commands, what the robot has done in a step, and what the agent observes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import numpy as np

from spinup_tf2.envs.quadruped.conditions import Ranges, draw_from, ranges_of
from spinup_tf2.envs.quadruped.gait import STANCE
from spinup_tf2.envs.quadruped.robot import Base, Robot
from spinup_tf2.errors import UserError

# -------------------------------------------------------------------------------------- commands

COMMAND_EVERY, GRACE = 4.0, 1.0  # s, between two commands, and until errors of a new one count
HEADING_GAIN = 2.0  # rad/s of turning for an error of the heading of 1 rad
FASTEST_TURN = 1.2  # rad/s, the most that the robot is told to turn, unless more is commanded

# m/s forward and to the left, rad/s to the left, and the share of commands to stand.
USUAL_COMMANDS = {
    "forward": (-0.3, 0.8),
    "sideways": (-0.3, 0.3),
    "turning": (-0.8, 0.8),
    "standing": 0.1,
}
COMMAND_LIMITS = {
    "forward": (-3.0, 3.0),
    "sideways": (-3.0, 3.0),
    "turning": (-5.0, 5.0),
    "standing": (0.0, 1.0),
}

Errors = tuple[float, ...]  # of planar velocity in m/s, of turning in rad/s, of heading in rad


@dataclass(frozen=True)
class Tracking:
    """A command, and how well the commands of the episode have been followed."""

    command: np.ndarray  # [3], m/s forward, m/s to the left, rad/s to the left
    heading: float  # rad, to which the commands so far have turned
    last: Errors  # in the last step
    fixed: bool = False  # whether it is the only command of the episode
    steps: int = 0  # since it was given
    sums: Errors = (0.0, 0.0, 0.0)  # of the errors that count
    counted: int = 0  # number of steps whose errors count

    def off(self, yaw: float) -> float:
        """Return how far the heading is to the left of `yaw`, from -pi to pi."""
        return math.remainder(self.heading - yaw, 2 * math.pi)

    def turning(self, yaw: float) -> float:
        """Return how fast to turn, in rad/s: as commanded, and towards the heading from `yaw`."""
        limit = max(FASTEST_TURN, abs(self.command[2]))
        return float(np.clip(self.command[2] + HEADING_GAIN * self.off(yaw), -limit, limit))

    def after(self, errors: Errors, dt: float) -> "Tracking":
        """Return the state after a step of `dt` seconds with these errors.

        Errors in the first second after a new command do not count.
        """
        heading = self.heading + self.command[2] * dt
        after = replace(self, heading=heading, steps=self.steps + 1, last=errors)
        if after.steps * dt <= GRACE:
            return after
        sums = tuple(np.add(self.sums, errors).tolist())
        return replace(after, sums=sums, counted=self.counted + 1)

    @property
    def errors(self) -> Errors:
        """Mean errors over the steps that count; the errors of the last step if none counts yet."""
        return tuple(x / self.counted for x in self.sums) if self.counted else self.last


def at_rest(command: np.ndarray, yaw: float, fixed: bool) -> Tracking:
    """Return the state at the beginning of an episode, when the robot does not move yet."""
    return Tracking(command, yaw, (math.hypot(*command[:2]), abs(command[2]), 0.0), fixed)


def command_ranges(given: Mapping[str, Any] | None) -> Ranges:
    """Return the ranges of commands: the given ones, and the usual ones for the rest."""
    changed = {} if given is None else ranges_of("command_ranges", given, COMMAND_LIMITS)
    return ranges_of("command_ranges", USUAL_COMMANDS, COMMAND_LIMITS) | changed


def draw_command(ranges: Ranges, rng: np.random.Generator) -> np.ndarray:
    """Draw a command `[3]`."""
    stands = rng.random() < draw_from(ranges["standing"], rng)
    command = [draw_from(ranges[name], rng) for name in ("forward", "sideways", "turning")]
    return np.zeros(3) if stands else np.array(command)


def checked_command(command: Any) -> np.ndarray:
    """Return a command that was given by the user as floats `[3]`, after checking it."""
    numbers = finite_numbers(command, 3)
    low, high = np.transpose([COMMAND_LIMITS[name] for name in ("forward", "sideways", "turning")])
    if numbers is None or not ((low <= numbers) & (numbers <= high)).all():
        raise UserError(
            f"The command is {command!r}; it must be three numbers (m/s forward, m/s to the left, "
            f"rad/s to the left) from {low.tolist()} to {high.tolist()}."
        )
    return numbers


def finite_numbers(given: Any, size: int) -> np.ndarray | None:
    """Return a copy of `given` as floats `[size]`; None if it is not that many finite numbers."""
    numbers = np.array(given, float)
    return numbers if numbers.shape == (size,) and np.isfinite(numbers).all() else None


# ----------------------------------------------------------------------------- states and motions


@dataclass
class Episode:
    """The state of an episode."""

    began: Base  # the trunk at the beginning of the episode,
    before: Base  # before the last step,
    base: Base  # and now
    act: np.ndarray  # [12], the last action,
    last_act: np.ndarray  # and the one before
    target: np.ndarray  # [12], rad, the joint angles that the last action stood for
    power: float = 0.0  # W, mean power of the joints over the last step
    obs: np.ndarray | None = None  # the last observation
    tracking: Tracking | None = None  # the command, if there is one
    steps: int = 0  # so far
    last: int = 0  # number of the step at which the time limit is reached
    broken: bool = False  # whether the simulation has failed


# -------------------------------------------------------------------------------------- observing

ANGULAR_SCALE, SPEED_SCALE = 0.25, 0.05  # factors for angular velocities and joint speeds
TAPS = (0.01, 0.02)  # s, delays of the joints' history

# Standard deviations of the noise for `sensor_noise=1`: direction of gravity, velocity in m/s and
# angular velocity in rad/s of the trunk, angle in rad and speed in rad/s of a joint.
DOWN_NOISE, VELOCITY_NOISE, ANGULAR_NOISE, ANGLE_NOISE, SPEED_NOISE = 0.05, 0.1, 0.2, 0.01, 1.5


@dataclass(frozen=True)
class Observer:
    """Composes observations. Its fields are arguments of QuadrupedEnv, or follow from them."""

    sim_hz: int
    dt: float  # seconds per step
    phase_hz: float
    history: bool
    base_velocity: bool
    straight: bool
    target_speed: float
    commanded: bool  # whether there are commands

    @property
    def taps(self) -> list[int]:
        """How many substeps ago the joints are observed, besides now."""
        return [round(ago * self.sim_hz) for ago in TAPS] if self.history else []

    def space(self, low: np.ndarray, high: np.ndarray) -> gym.spaces.Box:
        """Return the space of observations, for actions `[12]` between low and high."""
        before = [1.0] * 3 + [10.0] * (6 if self.base_velocity else 3) + [10.0] * 24
        ones = 2 * bool(self.phase_hz) + 2 * self.straight
        after = [10.0] * 24 * len(self.taps) + [1.0] * ones + [10.0] * 3 * self.commanded
        return gym.spaces.Box(
            np.array([*np.negative(before), *low, *np.negative(after)], np.float32),
            np.array([*before, *high, *after], np.float32),
        )

    def __call__(self, robot: Robot, now: Episode, rng: np.random.Generator) -> np.ndarray:
        """Return the observation `[n]`, before it is clipped to the space.

        There is a table of it in docs/environments/quadruped.md. `rng` draws sensor noise.
        """
        base, conditions = now.base, robot.conditions
        to_body = base.rotation.T
        down = to_body @ conditions.down if conditions.slope else -to_body[:, 2]
        measured = [(down, DOWN_NOISE)]
        if self.base_velocity:
            measured.append((to_body @ base.velocity, VELOCITY_NOISE))
        measured += [
            (ANGULAR_SCALE * (to_body @ base.angular_velocity), ANGULAR_SCALE * ANGULAR_NOISE),
            (robot.position - STANCE, ANGLE_NOISE),
            (np.multiply(SPEED_SCALE, robot.velocity), SPEED_SCALE * SPEED_NOISE),
            (now.act, 0.0),
        ]
        past = [robot.samples[-1 - tap] for tap in self.taps]
        measured += [(np.subtract(each.position, each.target), ANGLE_NOISE) for each in past]
        measured += [
            (np.multiply(SPEED_SCALE, each.velocity), SPEED_SCALE * SPEED_NOISE) for each in past
        ]
        parts: list[np.ndarray | Sequence[float]] = [values for values, _ in measured]
        if conditions.sensor_noise:
            parts = [
                values + conditions.sensor_noise * std * rng.normal(size=len(values))
                for values, std in measured
            ]
        if self.phase_hz:
            phase = 2 * math.pi * self.phase_hz * (now.steps * self.dt)
            parts.append((math.sin(phase), math.cos(phase)))
        if self.straight:
            cos, sin, _ = now.began.heading @ base.heading[0]
            parts.append((sin, cos))
        if now.tracking is not None:
            parts.append((*now.tracking.command[:2], now.tracking.turning(base.yaw)))
        return np.concatenate(parts)


class Motion:
    """The motion of the robot in the last step, from which rewards and ends are computed."""

    def __init__(self, robot: Robot, now: Episode, observer: Observer, curriculum: float):
        base, before, began = now.base, now.before, now.began
        dt, t = observer.dt, now.steps * observer.dt
        self.position = base.position  # [3], m, of the trunk
        self.height = base.position[2] - robot.ground_height(*base.position[:2])  # m
        self.up = base.rotation[2, 2]  # 1 if the trunk is level, -1 if it is upside down
        # Means over the step, in m/s, in the direction in which the robot faced at the beginning of
        # the step or of the episode, and to the left of it.
        facing = began if observer.straight else before
        self.forward, self.sideways = (facing.heading @ (base.position - before.position))[:2] / dt
        # Mean since the beginning of the episode, in the direction in which the robot faced then.
        self.mean_forward = (began.heading @ (base.position - began.position))[0] / (t or 1.0)
        self.rates = base.rotation.T @ base.angular_velocity  # [3], rad/s, in the trunk's frame
        self.joints = np.array(robot.position)  # [12], rad
        self.feet = robot.feet_on_ground  # function, as it is a bit slow: `[4]`, whether they touch
        self.power, self.act, self.last_act = now.power, now.act, now.last_act
        self.target_speed = observer.target_speed  # m/s
        self.curriculum = curriculum  # factor of penalties
        self.clock = observer.phase_hz * t  # cycles of the clock in the observation
        self.tracking = now.tracking  # with the command during the step
        if now.tracking is not None:
            forward, sideways, _ = now.tracking.command
            turned = math.remainder(base.yaw - before.yaw, 2 * math.pi)
            # Deviations from the command: planar velocity, turning, and heading before the step.
            self.errors: Errors = (
                math.hypot(self.forward - forward, self.sideways - sideways),
                abs(turned / dt - now.tracking.turning(before.yaw)),
                abs(now.tracking.off(before.yaw)),
            )
