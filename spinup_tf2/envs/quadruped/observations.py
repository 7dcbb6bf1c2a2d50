"""Observations of the quadruped; there is a table of them in docs/environments/quadruped.rst."""

import math
from collections.abc import Sequence

import gymnasium as gym
import numpy as np

from spinup_tf2.envs.quadruped.commands import Tracking
from spinup_tf2.envs.quadruped.gait import STANCE
from spinup_tf2.envs.quadruped.robot import Base, Robot

ANGULAR_SCALE, SPEED_SCALE = 0.25, 0.05  # factors for angular velocities and joint speeds
TAPS = (0.01, 0.02)  # s, delays of the joints' history

# Standard deviations of the noise for `sensor_noise=1`: direction of gravity, velocity in m/s and
# angular velocity in rad/s of the trunk, angle in rad and speed in rad/s of a joint.
DOWN_NOISE, VELOCITY_NOISE, ANGULAR_NOISE, ANGLE_NOISE, SPEED_NOISE = 0.05, 0.1, 0.2, 0.01, 1.5


class Observer:
    """Composes observations.

    Args:
        sim_hz: Substeps per second.
        phase_hz: Frequency of the clock; 0 for no clock.
        history: Whether observations contain past errors and speeds of the joints.
        base_velocity: Whether they contain the trunk's linear velocity.
        straight: Whether they contain how far the robot has turned.
        commanded: Whether they contain the command.
    """

    def __init__(
        self,
        *,
        sim_hz: int,
        phase_hz: float,
        history: bool,
        base_velocity: bool,
        straight: bool,
        commanded: bool,
    ):
        self.taps = [round(ago * sim_hz) for ago in TAPS] if history else []
        self._phase_hz, self._base_velocity = phase_hz, base_velocity
        self._straight, self._commanded = straight, commanded

    def space(self, low: np.ndarray, high: np.ndarray) -> gym.spaces.Box:
        """Return the space of observations, for actions `[12]` between low and high."""
        before = [1.0] * 3 + [10.0] * (6 if self._base_velocity else 3) + [10.0] * 24
        ones = 2 * bool(self._phase_hz) + 2 * self._straight
        after = [10.0] * 24 * len(self.taps) + [1.0] * ones + [10.0] * 3 * self._commanded
        return gym.spaces.Box(
            np.array([*np.negative(before), *low, *np.negative(after)], np.float32),
            np.array([*before, *high, *after], np.float32),
        )

    def __call__(
        self,
        robot: Robot,
        base: Base,
        began: Base,
        act: np.ndarray,
        t: float,
        tracking: Tracking | None,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Return the observation `[n]`, before it is clipped to the space.

        Args:
            robot: The robot, with its joints and conditions.
            base, began: State of the trunk now and at the beginning of the episode.
            act: The last action.
            t: Seconds since the beginning of the episode.
            tracking: The command, if there is one.
            rng: Generator for sensor noise.
        """
        to_body, conditions = base.rotation.T, robot.conditions
        down = to_body @ conditions.down if conditions.slope else -to_body[:, 2]
        measured = [(down, DOWN_NOISE)]
        if self._base_velocity:
            measured.append((to_body @ base.velocity, VELOCITY_NOISE))
        measured += [
            (ANGULAR_SCALE * (to_body @ base.angular_velocity), ANGULAR_SCALE * ANGULAR_NOISE),
            (robot.position - STANCE, ANGLE_NOISE),
            (np.multiply(SPEED_SCALE, robot.velocity), SPEED_SCALE * SPEED_NOISE),
            (act, 0.0),
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
        if self._phase_hz:
            phase = 2 * math.pi * self._phase_hz * t
            parts.append((math.sin(phase), math.cos(phase)))
        if self._straight:
            cos, sin, _ = began.heading @ base.heading[0]
            parts.append((sin, cos))
        if tracking is not None:
            parts.append(tracking.command)
        return np.concatenate(parts)
