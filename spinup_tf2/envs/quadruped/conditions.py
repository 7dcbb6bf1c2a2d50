"""What may be different in every episode: the ground, the robot's body, its sensors, and pushes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from spinup_tf2.arguments.rules import NUMBER
from spinup_tf2.errors import UserError

GRAVITY = 9.81  # m/s^2

PUSH_EVERY, PUSH_SECONDS = 5.0, 0.2  # s
SHIFT = 2.0  # m, how far the bumps of a rough ground are moved at most, so that starts differ

# What `domain_randomization=True` stands for.
USUAL = {"friction": (0.5, 1.25), "mass": (0.8, 1.2), "gains": (0.9, 1.1), "push_speed": 0.5}


@dataclass(frozen=True)
class Conditions:
    """What holds in an episode.

    friction: of the feet. mass: factor of the trunk's. gains: factors of kp and kd.
    torque_limit: Nm; None for that of the robot.
    latency: seconds that pass before the joints' targets take effect.
    sensor_noise: factor of the noise in observations.
    push: N, for PUSH_SECONDS in every PUSH_EVERY seconds. push_speed: m/s, by which a push changes
        the trunk's velocity at once.
    slope: degrees. downhill: rad, the direction in which the ground falls.
    roughness: m, the height of bumps. shift: m, `[2]`, where they are.
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
        """Whether something pushes the robot now and then."""
        return bool(self.push or self.push_speed)

    @property
    def down(self) -> np.ndarray:
        """Where gravity points, `[3]`: the ground stays the plane z = 0, also if it is a slope."""
        slope = math.radians(self.slope)
        along = math.sin(slope)
        return np.array(
            (along * math.cos(self.downhill), along * math.sin(self.downhill), -math.cos(slope))
        )


# The least and the largest value of each, in the order in which they are drawn.
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
    """A mapping of numbers and pairs (low, high) as one of pairs.

    Args:
        name: What messages call it.
        given: The mapping.
        limits: Its possible keys, each with its least and its largest value.

    Raises:
        UserError: It has other keys, or values that are no such ranges.
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
    """The ranges that `domain_randomization` stands for; `{}` if nothing is changed."""
    if isinstance(given, bool):
        given = USUAL if given else {}
    return ranges_of("domain_randomization", given, LIMITS)


def draw_from(pair: tuple[float, float], rng: np.random.Generator) -> float:
    """A number of a range. For one that is always the same, no random number is used."""
    low, high = pair
    return low if low == high else rng.uniform(low, high)


def draw(ranges: Ranges, rng: np.random.Generator) -> Conditions:
    """The conditions of an episode."""
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
