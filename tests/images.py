"""An environment that shows images."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from tests.on_policy_runs import FromShow


class Lamp(FromShow):
    """A bright square in the left or the right half of a dark image: which one is the action.

    Reward 1 for the half that is lit, else 0; every step shows something new, an episode has ten.
    shape: of the images, `[height, width, channels]` or `[channels, height, width]`.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (gymnasium's convention)

    def __init__(self, shape=(40, 40, 1)):
        self.observation_space = spaces.Box(0, 255, shape, np.uint8)
        self.action_space = spaces.Discrete(2)
        self.channels_first = shape[0] < shape[2]

    def _show(self):
        self.lit = int(self.np_random.integers(2))
        image = np.zeros(self.observation_space.shape, np.uint8)
        pixels = np.moveaxis(image, 0, -1) if self.channels_first else image
        height, width = pixels.shape[:2]
        row, column = self.np_random.integers((height - 16, width // 2 - 16))
        column += self.lit * width // 2
        pixels[row : row + 16, column : column + 16] = 255
        return image

    def step(self, action):
        self.t += 1
        reward = float(action == self.lit)
        return self._show(), reward, self.t == 10, False, {}


gym.register("Lamp-v0", Lamp)
