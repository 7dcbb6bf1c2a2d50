"""Movements that need no learning, as joint angles over time: trotting and getting up."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

LEGS = ("FR", "FL", "RR", "RL")  # front right, front left, rear right, rear left
JOINTS = tuple(f"{leg}_{part}_joint" for leg in LEGS for part in ("hip", "upper", "lower"))

STANCE = np.array((0.0, 0.8, -1.6) * 4)  # rad, standing
CROUCH = np.array((0.0, 1.3, -2.6) * 4)  # the legs folded below the trunk

TROT_HZ = 2.5
LAG = 0.2  # cycles of the clock by which feet lag behind their targets in the trot


# Phases of the legs, in cycles of the clock, such that the first step turns the robot least.
TROT_PHASES = tuple(0.375 if leg in ("FR", "RL") else 0.875 for leg in LEGS)


def trot(t: float, hz: float = TROT_HZ) -> np.ndarray:
    """Return the joint angles `[12]`, in rad, at time `t` of a trot.

    Diagonal legs swing together, `hz` times a second. The trot uses no feedback from the robot.
    """
    offsets = []
    for leg_phase in TROT_PHASES:
        phase = 2 * math.pi * (hz * t + leg_phase)
        swing = max(0.0, math.sin(phase))  # above 0, the leg is lifted and swings forward
        offsets += [0.0, 0.35 * math.cos(phase) - 0.05 * swing, -0.4 * swing]
    return STANCE + offsets


def trot_agreement(clock: float, feet_on_ground: Sequence[bool]) -> float:
    """Return how well the feet on the ground agree with the trot, from -1 to 1.

    If all feet are on the ground, or none, it is 0.

    Args:
        clock: Cycles of the trot so far, `hz * t`.
        feet_on_ground: `[4]`, whether each foot touches the ground, in the order of LEGS.
    """
    swings = [math.sin(2 * math.pi * (clock - LAG + phase)) > 0 for phase in TROT_PHASES]
    agreeing = sum(down != swing for down, swing in zip(feet_on_ground, swings, strict=True))
    return agreeing / 2 - 1


KEYFRAME_SECONDS = 0.5  # time from one keyframe to the next

# How to get up from a side and from the back, found by an evolution strategy: `[4, 6]` in
# rad, hip, upper and lower joint of the right and of the left legs. Of 20 other falls of each kind,
# the robot got up from 90% of those on a side and 100% of those on the back.
_KEYFRAMES = json.loads(Path(__file__).with_name("keyframes.json").read_text(encoding="utf-8"))
KEYFRAMES = {place: np.tile(legs, 2) for place, legs in _KEYFRAMES.items()}

MIRROR = np.array([3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8])  # exchanges right and left legs


def mirror(angles: np.ndarray) -> np.ndarray:
    """Return the same posture `[12]` with left and right exchanged."""
    mirrored = angles[MIRROR]
    mirrored[::3] *= -1  # hips, which turn about an axis that points forward on both sides
    return mirrored


def get_up(t: float, keyframes: Sequence[np.ndarray], mirrored: bool = False) -> np.ndarray:
    """Return the joint angles `[12]`, in rad, at time `t` of getting up.

    The robot goes through the keyframes, then a crouch, then stands.

    Args:
        t: Time in s.
        keyframes: `[k, 12]`, in rad, KEYFRAME_SECONDS apart, with linear interpolation. Without
            any, the robot is expected to lie on its belly.
        mirrored: Whether to exchange left and right.
    """
    postures = np.array([*keyframes, CROUCH, CROUCH, STANCE])
    place = min(t / KEYFRAME_SECONDS, len(postures) - 1)
    before = min(int(place), len(postures) - 2)
    share = place - before
    angles = (1 - share) * postures[before] + share * postures[before + 1]
    return mirror(angles) if mirrored else angles
