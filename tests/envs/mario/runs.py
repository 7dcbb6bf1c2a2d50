"""A run through a level, of which every frame is known."""

# Frames for which "right B" is held, then "right A B", and so on, from the start of level 1-1 to
# the flag, in the versions of the game that run at full speed (all but rectangle).
_CLEAR_1_1 = """
    26 19 28 3 18 3 31 14 17 24 34 19 15 30 36 9 22 22 16 33 14 25 10 6 16 7 9 31 6 20 24 7 8 25
    12 5 29 33 19 26 14 28 15 33 22 26 35 5 4 16 14 31 14 10 33 16 5 17 29 26 24 28 34 16 26 11
    26 22 5 15 35 14 12 8 11 23 4 9 17 21 39 16 9 23 20 14 32 11 17 14 16 21 27 2
"""


def clear_1_1() -> list[str]:
    """What is pressed in each frame of a run through 1-1; the last one touches the flagpole."""
    return [
        ("right B", "right A B")[i % 2]
        for i, frames in enumerate(map(int, _CLEAR_1_1.split()))
        for _ in range(frames)
    ]
