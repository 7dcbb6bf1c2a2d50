"""Commands of the task "command": how fast to walk and to turn, and how well it is done."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spinup_tf2.envs.quadruped.conditions import Ranges, draw_from, ranges_of

EVERY, GRACE = 4.0, 1.0  # s: between two commands, and until errors of a new one count

# m/s forward and to the left, rad/s to the left; how often the command is to stand.
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


Errors = tuple[float, float]  # of the planar velocity in m/s, of turning in rad/s


@dataclass(frozen=True)
class Tracking:
    """A command, and how well the commands of the episode have been followed.

    command: [3], speed forward and to the left in m/s, and turning to the left in rad/s.
    last: errors in the last step.
    fixed: whether it is the episode's only command.
    steps: since it was given.
    sums, counted: of the errors that count, and how many these are.
    """

    command: np.ndarray
    last: Errors
    fixed: bool = False
    steps: int = 0
    sums: Errors = (0.0, 0.0)
    counted: int = 0

    def after(self, errors: Errors, dt: float) -> "Tracking":
        """One step of `dt` seconds later.

        What happens before a command has had a second to take effect does not count.
        """
        after = replace(self, steps=self.steps + 1, last=errors)
        if after.steps * dt <= GRACE:
            return after
        velocity, turning = np.add(self.sums, errors).tolist()
        return replace(after, sums=(velocity, turning), counted=self.counted + 1)

    def given(self, command: np.ndarray) -> "Tracking":
        """With a new command."""
        return replace(self, command=command, steps=0)

    @property
    def errors(self) -> Errors:
        """Means over the steps that count; until there is one, the errors of the last step."""
        if not self.counted:
            return self.last
        return self.sums[0] / self.counted, self.sums[1] / self.counted


def at_rest(command: np.ndarray, fixed: bool) -> Tracking:
    """The beginning of an episode, in which nothing moves yet."""
    return Tracking(command, (math.hypot(*command[:2]), abs(command[2])), fixed)


def command_ranges(given: Mapping[str, Any] | None) -> Ranges:
    """The ranges of commands: the usual ones, but for those that are given."""
    changed = {} if given is None else ranges_of("command_ranges", given, LIMITS)
    return ranges_of("command_ranges", USUAL, LIMITS) | changed


def draw(ranges: Ranges, rng: np.random.Generator) -> np.ndarray:
    """A command `[3]`."""
    stands = rng.random() < draw_from(ranges["standing"], rng)
    command = [draw_from(ranges[name], rng) for name in ("forward", "sideways", "turning")]
    return np.zeros(3) if stands else np.array(command)
