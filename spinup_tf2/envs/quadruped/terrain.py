"""Rough ground: bumps on a plane."""

import numpy as np

CELL, POINTS = 0.2, 257  # m between two points, and points along a side: 51 m, and 20 s of walking
FOOTPRINT = 0.4  # m, within which a robot that is put somewhere may touch the ground


class Terrain:
    """Bumps that are the same every time, on a square around the origin; beyond it is the plane.

    Points on a grid have random heights between 0 and `height`, with triangles in between. Sinking
    all of them makes lower bumps, and more of the plane appears.

    heights: `[POINTS, POINTS]` in m, by y and by x, as they are before sinking.
    """

    def __init__(self, height: float):
        heights = np.random.default_rng(0).random((POINTS, POINTS))
        heights -= heights.min()
        self.heights = (height / heights.max() * heights).astype(np.float32)
        self.height = height
        self.place(height, (0.0, 0.0))

    def place(self, roughness: float, shift: tuple[float, float]) -> None:
        """Let the highest bump be `roughness`, and the middle of the square be at `shift`."""
        self.sunk, self.shift = self.height - roughness, shift

    @property
    def center(self) -> list[float]:
        """Where PyBullet has a height field: in the middle of its heights."""
        return [*self.shift, self.height / 2 - self.sunk]

    def at(self, x: float, y: float) -> float:
        """Height of the ground."""
        place = (np.array((y, x)) - self.shift[::-1]) / CELL + (POINTS - 1) / 2
        if not (place.min() >= 0 and place.max() < POINTS - 1):
            return 0.0
        (i, j), (v, u) = place.astype(int), place % 1
        (h, h_x), (h_y, h_xy) = self.heights[i : i + 2, j : j + 2].tolist()
        if u + v > 1:  # squares are cut in two, and this is the triangle at the last corner
            h, h_x, h_y, u, v = h_xy, h_y, h_x, 1 - u, 1 - v
        return max(h + u * (h_x - h) + v * (h_y - h) - self.sunk, 0.0)

    def highest(self, x: float, y: float) -> float:
        """The highest point near (x, y), of those that the robot can touch there."""
        around = np.arange(-FOOTPRINT, FOOTPRINT + CELL / 2, CELL / 2)
        return max(self.at(x + dx, y + dy) for dx in around for dy in around)
