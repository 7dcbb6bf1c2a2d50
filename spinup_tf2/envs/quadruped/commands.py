"""Commands of the task "command": how fast to walk and turn, and how well they are followed."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spinup_tf2.envs.quadruped.conditions import Ranges, draw_from, ranges_of

EVERY, GRACE = 4.0, 1.0  # s, between two commands, and until errors of a new one count

# m/s forward and to the left, rad/s to the left, and the share of commands to stand.
USUAL = {
    "forward": (-0.3, 0.8),
    "sideways": (-0.3, 0.3),
    "turning": (-0.8, 0.8),
    "standing": 0.1,
}
LIMITS = {
    "forward": (-3.0, 3.0),
    "sideways": (-3.0, 3.0),
    "turning": (-5.0, 5.0),
    "standing": (0.0, 1.0),
}


Errors = tuple[float, float]  # of the planar velocity in m/s, and of turning in rad/s


@dataclass(frozen=True)
class Tracking:
    """A command, and how well the commands of the episode have been followed.

    Attributes:
        command: `[3]`, speed forward and to the left in m/s, and turning to the left in rad/s.
        last: Errors in the last step.
        fixed: Whether it is the only command of the episode.
        steps: Number of steps since it was given.
        sums: Sums of the errors that count.
        counted: Number of steps whose errors count.
    """

    command: np.ndarray
    last: Errors
    fixed: bool = False
    steps: int = 0
    sums: Errors = (0.0, 0.0)
    counted: int = 0

    def after(self, errors: Errors, dt: float) -> "Tracking":
        """Return the state after a step of `dt` seconds with these errors.

        Errors in the first second after a new command do not count.
        """
        after = replace(self, steps=self.steps + 1, last=errors)
        if after.steps * dt <= GRACE:
            return after
        velocity, turning = np.add(self.sums, errors).tolist()
        return replace(after, sums=(velocity, turning), counted=self.counted + 1)

    def given(self, command: np.ndarray) -> "Tracking":
        """Return the state after a new command is given."""
        return replace(self, command=command, steps=0)

    @property
    def errors(self) -> Errors:
        """Mean errors over the steps that count; the errors of the last step if none counts yet."""
        if not self.counted:
            return self.last
        return self.sums[0] / self.counted, self.sums[1] / self.counted


def at_rest(command: np.ndarray, fixed: bool) -> Tracking:
    """Return the state at the beginning of an episode, when the robot does not move yet."""
    return Tracking(command, (math.hypot(*command[:2]), abs(command[2])), fixed)


def command_ranges(given: Mapping[str, Any] | None) -> Ranges:
    """Return the ranges of commands: the given ones, and the usual ones for the rest."""
    changed = {} if given is None else ranges_of("command_ranges", given, LIMITS)
    return ranges_of("command_ranges", USUAL, LIMITS) | changed


def draw(ranges: Ranges, rng: np.random.Generator) -> np.ndarray:
    """Draw a command `[3]`."""
    stands = rng.random() < draw_from(ranges["standing"], rng)
    command = [draw_from(ranges[name], rng) for name in ("forward", "sideways", "turning")]
    return np.zeros(3) if stands else np.array(command)
