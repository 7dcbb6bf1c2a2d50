"""Rough ground: bumps on a plane."""

import numpy as np

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
