"""Movements that need no learning, as joint angles over time: a trot, and how to get up."""

import math
from collections.abc import Sequence

import numpy as np

LEGS = ("FR", "FL", "RR", "RL")  # front right, front left, rear right, rear left
JOINTS = tuple(f"{leg}_{part}_joint" for leg in LEGS for part in ("hip", "upper", "lower"))

STANCE = np.array((0.0, 0.8, -1.6) * 4)  # rad, standing
CROUCH = np.array((0.0, 1.3, -2.6) * 4)  # the legs folded below the trunk

TROT_HZ = 2.5
LAG = 0.2  # rounds of the clock, by which feet come after their targets in the trot


# Of the legs, in rounds of the clock. The first step begins where it turns the robot least.
TROT_PHASES = tuple(0.375 if leg in ("FR", "RL") else 0.875 for leg in LEGS)


def trot(t: float, hz: float = TROT_HZ) -> np.ndarray:
    """Joint angles `[12]` at time `t` of a trot: diagonal legs swing together, `hz` times a second.

    It walks without being told anything of what the robot feels.
    """
    offsets = []
    for leg_phase in TROT_PHASES:
        phase = 2 * math.pi * (hz * t + leg_phase)
        swing = max(0.0, math.sin(phase))  # the leg is in the air, drawn up, and comes forward
        offsets += [0.0, 0.35 * math.cos(phase) - 0.05 * swing, -0.4 * swing]
    return STANCE + offsets


def trot_agreement(clock: float, feet_on_ground: Sequence[bool]) -> float:
    """How far feet touch the ground as in the trot, from -1 to 1; 0 for all of them, or none.

    clock: rounds, `hz * t` of the trot. feet_on_ground: `[4]`.
    """
    swings = [math.sin(2 * math.pi * (clock - LAG + phase)) > 0 for phase in TROT_PHASES]
    agreeing = sum(down != swing for down, swing in zip(feet_on_ground, swings, strict=True))
    return agreeing / 2 - 1


KEYFRAME_SECONDS = 0.5  # from one to the next

MIRROR = np.array([3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8])  # right legs for left ones


def mirror(angles: np.ndarray) -> np.ndarray:
    """The same posture `[12]` with left and right exchanged."""
    mirrored = angles[MIRROR]
    mirrored[::3] *= -1  # hips, which turn about an axis that points forward on both sides
    return mirrored


def get_up(t: float, keyframes: Sequence[np.ndarray], mirrored: bool = False) -> np.ndarray:
    """Joint angles `[12]` at time `t` of getting up: keyframes, then a crouch, then standing.

    keyframes: `[k, 12]`, rad, KEYFRAME_SECONDS apart and linear in between; with none of them, the
        robot is expected to lie on its belly.
    mirrored: exchange left and right.
    """
    postures = np.array([*keyframes, CROUCH, CROUCH, STANCE])
    place = min(t / KEYFRAME_SECONDS, len(postures) - 1)
    before = min(int(place), len(postures) - 2)
    share = place - before
    angles = (1 - share) * postures[before] + share * postures[before + 1]
    return mirror(angles) if mirrored else angles
