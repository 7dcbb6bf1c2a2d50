"""As much of a console as Super Mario Bros needs to begin, without nes-py and without the game."""

import numpy as np

from spinup_tf2.envs.mario.game import BUTTONS

_STATE, _PAGE, _X, _ON_SCREEN, _LIVES, _CLOCK = 0x0E, 0x6D, 0x86, 0xB5, 0x075A, 0x07F8


class TinyNes:
    """A Core in which Mario can go to the right. Each frame is brighter than the one before."""

    def __init__(self, rom: str):
        self.ram = memoryview(bytearray(2048))
        self.screen = np.zeros((240, 256, 4), np.uint8)
        self._frames = self._x = 0

    def reset(self):
        self._frames = self._x = 0
        self._show()

    def frame(self, buttons: int):
        self._frames += 1
        self._x += bool(buttons & BUTTONS["right"])
        self._show()

    def _show(self):
        self.ram[_STATE], self.ram[_ON_SCREEN], self.ram[_LIVES] = 8, 1, 2
        self.ram[_PAGE], self.ram[_X] = divmod(self._x, 256)
        self.ram[_CLOCK : _CLOCK + 3] = bytes(int(x) for x in f"{400 - self._frames // 20}")
        self.screen[:] = self._frames % 256

    def backup(self):
        self._saved = self._frames, self._x

    def restore(self):
        self._frames, self._x = self._saved
        self._show()

    def close(self):
        pass
