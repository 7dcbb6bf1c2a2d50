"""Videos as short animations, for trackers that show images."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

MOST_FRAMES = 200
LONGEST_SIDE = 240  # pixels


def animation(path: Path) -> tuple[list[Image.Image], float]:
    """Read at most MOST_FRAMES frames of a video, at equal intervals, scaled to LONGEST_SIDE.

    Returns:
        The frames, and the time in seconds from one to the next.
    """
    from imageio_ffmpeg import read_frames

    reader = read_frames(str(path))
    meta = next(reader)
    frames = [Image.frombytes("RGB", meta["size"], frame) for frame in reader]
    stride = -(-len(frames) // MOST_FRAMES)
    frames = frames[::stride]
    for frame in frames:
        frame.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    return frames, stride / meta["fps"]
