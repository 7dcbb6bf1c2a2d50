"""Conditions that may differ between episodes: ground, robot, sensors, and pushes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from spinup_tf2.arguments.rules import NUMBER
from spinup_tf2.errors import UserError

GRAVITY = 9.81  # m/s^2

PUSH_EVERY, PUSH_SECONDS = 5.0, 0.2  # s
SHIFT = 2.0  # m, by which bumps are moved at most along x and y, so that starts differ

# Meaning of `domain_randomization=True`.
USUAL = {"friction": (0.5, 1.25), "mass": (0.8, 1.2), "gains": (0.9, 1.1), "push_speed": 0.5}


@dataclass(frozen=True)
class Conditions:
    """Conditions of an episode.

    Attributes:
        friction: Friction coefficient of the feet.
        mass: Factor of the trunk's mass.
        gains: Factors of kp and kd.
        torque_limit: Torque limit of the joints in Nm; None for that of the robot.
        latency: Time in seconds before the joints' targets take effect.
        sensor_noise: Factor of the noise in observations.
        push: Force in N that acts for PUSH_SECONDS, every PUSH_EVERY seconds.
        push_speed: Speed in m/s by which a push changes the trunk's velocity at once.
        slope: Slope of the ground in degrees.
        downhill: Direction in which the ground falls, in rad.
        roughness: Height of the bumps in m.
        shift: Displacement of the bumps, `[2]`, in m.
    """

    friction: float = 1.0
    mass: float = 1.0
    gains: tuple[float, float] = (1.0, 1.0)
    torque_limit: float | None = None
    latency: float = 0.0
    sensor_noise: float = 0.0
    push: float = 0.0
    push_speed: float = 0.0
    slope: float = 0.0
    downhill: float = 0.0
    roughness: float = 0.0
    shift: tuple[float, float] = (0.0, 0.0)

    @property
    def pushed(self) -> bool:
        """Whether the robot is pushed from time to time."""
        return bool(self.push or self.push_speed)

    @property
    def down(self) -> np.ndarray:
        """Direction of gravity, `[3]`. A slope tilts it, and the ground remains the plane z = 0."""
        slope = math.radians(self.slope)
        along = math.sin(slope)
        return np.array(
            (along * math.cos(self.downhill), along * math.sin(self.downhill), -math.cos(slope))
        )


# The smallest and the largest value of each, in the order in which they are drawn.
LIMITS = {
    "friction": (0.0, 10.0),
    "mass": (0.1, 10.0),
    "gains": (0.1, 10.0),
    "torque_limit": (1.0, 1000.0),
    "latency": (0.0, 0.5),
    "sensor_noise": (0.0, 10.0),
    "push": (0.0, 10_000.0),
    "push_speed": (0.0, 10.0),
    "slope": (0.0, 45.0),
    "roughness": (0.0, 0.2),
}

Ranges = dict[str, tuple[float, float]]


def ranges_of(name: str, given: Any, limits: Mapping[str, tuple[float, float]]) -> Ranges:
    """Convert a mapping of numbers and pairs (low, high) to one of pairs only.

    Args:
        name: Name of the mapping in messages.
        given: The mapping.
        limits: Its possible keys, each with its smallest and its largest value.

    Raises:
        UserError: It has other keys, or invalid ranges.
    """
    if not isinstance(given, Mapping):
        raise UserError(
            f"{name} is {given!r}; it must be a dict with some of the keys {', '.join(limits)}."
        )
    is_number, _ = NUMBER
    ranges = {}
    for key, value in given.items():
        if key not in limits:
            raise UserError(f"{name} has {key!r}; its keys are {', '.join(limits)}.")
        least, largest = limits[key]
        pair = value if isinstance(value, list | tuple) else (value, value)
        if (
            len(pair) != 2
            or not all(map(is_number, pair))
            or not least <= pair[0] <= pair[1] <= largest
        ):
            raise UserError(
                f"{key} of {name} is {value!r}; it must be a number, or a pair (low, high), from "
                f"{least:g} to {largest:g}."
            )
        ranges[key] = (float(pair[0]), float(pair[1]))
    return ranges


def randomization(given: bool | Mapping[str, Any]) -> Ranges:
    """Return the ranges for the argument `domain_randomization`; `{}` if nothing is randomized."""
    if isinstance(given, bool):
        given = USUAL if given else {}
    return ranges_of("domain_randomization", given, LIMITS)


def draw_from(pair: tuple[float, float], rng: np.random.Generator) -> float:
    """Draw a number from a range. If low equals high, no random number is used."""
    low, high = pair
    return low if low == high else rng.uniform(low, high)


def draw(ranges: Ranges, rng: np.random.Generator) -> Conditions:
    """Draw the conditions of an episode."""
    drawn: dict[str, Any] = {}
    for name in LIMITS:
        if name not in ranges:
            continue
        drawn[name] = draw_from(ranges[name], rng)
        if name == "gains":
            drawn[name] = (drawn[name], draw_from(ranges[name], rng))
        elif name == "slope":
            drawn["downhill"] = rng.uniform(-math.pi, math.pi)
        elif name == "roughness":
            drawn["shift"] = tuple(rng.uniform(-SHIFT, SHIFT, 2))
    return Conditions(**drawn)
