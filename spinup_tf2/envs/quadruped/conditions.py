"""Conditions that may differ between episodes: ground, robot, sensors, and pushes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from spinup_tf2.errors import UserError

GRAVITY = 9.81  # m/s^2
PUSH_EVERY = 5.0  # s
SHIFT = 2.0  # m, by which bumps are moved at most along x and y, so that starts differ

# Meaning of `domain_randomization=True`.
USUAL = {"friction": (0.5, 1.25), "mass": (0.8, 1.2), "gains": (0.9, 1.1), "push_speed": 0.5}

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


@dataclass(frozen=True)
class Conditions:
    """Conditions of an episode."""

    friction: float = 1.0  # coefficient of the feet
    mass: float = 1.0  # factor of the trunk's mass
    gains: tuple[float, float] = (1.0, 1.0)  # factors of kp and kd
    torque_limit: float | None = None  # of the joints, in Nm; None for that of the robot
    latency: float = 0.0  # s, before the joints' targets take effect
    sensor_noise: float = 0.0  # factor of the noise in observations
    push: float = 0.0  # N, a force that acts for a moment, every PUSH_EVERY seconds
    push_speed: float = 0.0  # m/s, by which a push changes the trunk's velocity at once
    slope: float = 0.0  # of the ground, in degrees
    downhill: float = 0.0  # direction in which the ground falls, in rad
    roughness: float = 0.0  # height of the bumps in m
    shift: tuple[float, float] = (0.0, 0.0)  # displacement of the bumps, in m

    @property
    def down(self) -> np.ndarray:
        """Direction of gravity, `[3]`. A slope tilts it, and the ground remains the plane z = 0."""
        slope = math.radians(self.slope)
        along = math.sin(slope)
        return np.array(
            (along * math.cos(self.downhill), along * math.sin(self.downhill), -math.cos(slope))
        )


def ranges_of(name: str, given: Any, limits: Mapping[str, tuple[float, float]]) -> Ranges:
    """Convert a mapping of numbers and pairs (low, high) to one of pairs only.

    Args:
        name: Name of the mapping in messages.
        given: The mapping.
        limits: Its possible keys, each with its smallest and its largest value.
    """
    ranges = {}
    for key, value in given.items():
        low, high = value if isinstance(value, list | tuple) else (value, value)
        least, largest = limits[key]
        if not least <= low <= high <= largest:
            raise UserError(
                f"{key} of {name} is {value!r}; it must be a number, or a pair (low, high), from "
                f"{least:g} to {largest:g}."
            )
        ranges[key] = (float(low), float(high))
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


def draw_conditions(ranges: Ranges, rng: np.random.Generator) -> Conditions:
    """Draw the conditions of an episode."""
    drawn: dict[str, Any] = {}
    for name in (name for name in LIMITS if name in ranges):
        drawn[name] = draw_from(ranges[name], rng)
        if name == "gains":
            drawn[name] = (drawn[name], draw_from(ranges[name], rng))
        elif name == "slope":
            drawn["downhill"] = rng.uniform(-math.pi, math.pi)
        elif name == "roughness":
            drawn["shift"] = tuple(rng.uniform(-SHIFT, SHIFT, 2))
    return Conditions(**drawn)


# ---------------------------------------------------------------------------------- rough ground

# Distance of two points in m, and number of points along a side. The 51 m are enough for 20 s.
CELL, POINTS = 0.2, 257
FOOTPRINT = 0.4  # m, distance within which a robot may touch the ground when it is placed


class Terrain:
    """Bumps that are always the same, on a square around the origin, surrounded by a plane.

    Points on a grid have random heights between 0 and `height`, with triangles in between. Sinking
    all of them makes the bumps lower, and exposes more of the plane.

    Args:
        height: Height of the highest bump, in m.

    Attributes:
        heights: `[POINTS, POINTS]`, indexed by y and x: the heights before sinking, in m.
    """

    def __init__(self, height: float):
        heights = np.random.default_rng(0).random((POINTS, POINTS))
        heights -= heights.min()
        self.heights = (height / heights.max() * heights).astype(np.float32)
        self.height = height
        self.place(height, (0.0, 0.0))

    def place(self, roughness: float, shift: tuple[float, float]) -> None:
        """Sink the highest bump to `roughness`, and move the square's center to `shift`, in m."""
        self.sunk, self.shift = self.height - roughness, shift

    @property
    def center(self) -> list[float]:
        """Position of the height field for PyBullet, `[3]`: the middle of its heights."""
        return [*self.shift, self.height / 2 - self.sunk]

    def at(self, x: float, y: float) -> float:
        """Return the height of the ground at (x, y), in m."""
        place = (np.array((y, x)) - self.shift[::-1]) / CELL + (POINTS - 1) / 2
        if not (place.min() >= 0 and place.max() < POINTS - 1):
            return 0.0
        (i, j), (v, u) = place.astype(int), place % 1
        (h, h_x), (h_y, h_xy) = self.heights[i : i + 2, j : j + 2].tolist()
        if u + v > 1:  # each square consists of two triangles, and this is the second
            h, h_x, h_y, u, v = h_xy, h_y, h_x, 1 - u, 1 - v
        return max(h + u * (h_x - h) + v * (h_y - h) - self.sunk, 0.0)

    def highest(self, x: float, y: float) -> float:
        """Return the height of the highest point that a robot at (x, y) can touch, in m."""
        around = np.arange(-FOOTPRINT, FOOTPRINT + CELL / 2, CELL / 2)
        return max(self.at(x + dx, y + dy) for dx in around for dy in around)


# ------------------------------------------------------------------------------------ robustness

_CHANGED: dict[str, dict[str, float]] = {
    "undisturbed": {},
    "friction 0.4": {"friction": 0.4},
    "friction 1.25": {"friction": 1.25},
    "trunk +64 %": {"mass": 1.64},  # 3 kg
    "latency 20 ms": {"latency": 0.02},
    "latency 40 ms": {"latency": 0.04},
    "gains -20 %": {"gains": 0.8},
    "gains +20 %": {"gains": 1.2},
    "torque 20 Nm": {"torque_limit": 20.0},
    "sensor noise": {"sensor_noise": 1.0},
    "push 60 N": {"push": 60.0},
    "push 100 N": {"push": 100.0},
    "slope 5 degrees": {"slope": 5.0},
    "slope 10 degrees": {"slope": 10.0},
    "rough ground 3 cm": {"roughness": 0.03},
}
_COMMANDS = (
    *((0.0, 0.0, 0.0), (0.4, 0.0, 0.0), (0.8, 0.0, 0.0), (-0.3, 0.0, 0.0)),
    *((0.0, 0.3, 0.0), (0.0, 0.0, 0.8), (0.4, 0.0, -0.8)),
)


def robustness(commanded: bool) -> dict[str, dict[str, Any]]:
    """Return the arguments of the environment for each condition of `evaluate --robustness`.

    All other conditions are fixed, whatever the agent was trained with. If the task has commands,
    some of them are conditions as well.
    """
    rows: dict[str, dict[str, Any]] = {
        name: {"domain_randomization": changed} for name, changed in _CHANGED.items()
    }
    rows["velocity limit 21"] = {"domain_randomization": {}, "velocity_limit": 21.0}
    for command in _COMMANDS if commanded else ():
        ranges = dict(zip(("forward", "sideways", "turning"), command, strict=True))
        rows["command " + " ".join(f"{x:g}" for x in command)] = {
            "domain_randomization": {},
            "command_ranges": {**ranges, "standing": 0.0},
        }
    return rows
