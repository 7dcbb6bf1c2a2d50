"""A console without an emulator, and what is needed for tests with one."""

from importlib.util import find_spec

import numpy as np
import pytest

needs_cv2 = pytest.mark.skipif(find_spec("cv2") is None, reason='needs: pip install ".[mario]"')

_missing = [name for name in ("gym_super_mario_bros", "nes_py", "cv2") if find_spec(name) is None]
emulator_marks = [
    pytest.mark.mario,
    pytest.mark.skipif(bool(_missing), reason='needs: pip install ".[mario]"'),
]


def needs_emulator(test):
    for mark in emulator_marks:
        test = mark(test)
    return test


A, B, START, LEFT, RIGHT = 1, 2, 8, 64, 128

# What a frame may write into the memory.
STATE, X_PAGE, X, Y_PAGE, LIVES, STAGE, WORLD, MODE = (
    *(0x0E, 0x6D, 0x86, 0xB5, 0x75A),
    *(0x75C, 0x75F, 0x770),
)
DIES = {STATE: 0x0B}
FALLS = {Y_PAGE: 2}
AT_THE_FLAG = {0x16: 0x31, 0x1D: 3}
BEHIND_BOWSER = {MODE: 2}


def at(x):
    return {X_PAGE: x // 256, X: x % 256}


def score(points):
    return dict(zip(range(0x7DE, 0x7E4), map(int, f"{points:06}"), strict=True))


def clock(ticks):
    return dict(zip(range(0x7F8, 0x7FB), map(int, f"{ticks:03}"), strict=True))


class FakeConsole:
    """A Core whose frames do what a script says.

    A level begins at x = 40 with 400 on the clock. RIGHT goes two pixels to the right, LEFT to the
    left. Frame t, counted from the start of the level, then writes `script[t]` into the memory, a
    dict {address: byte}. The picture of each frame is uniformly `t % 256`.

    pressed: the buttons of all frames since the start of the level, or since a restore.
    """

    START_UP = 8  # frames of the start screen

    def __init__(self, script=None):
        self.script = script or {}
        self.ram = memoryview(bytearray(2048))
        self.screen = np.zeros((240, 256, 4), np.uint8)
        self.t, self.pressed, self.saved = 0, [], None
        self.resets = self.closed = 0
        self.frames = 0  # in all

    def write(self, values):
        for address, value in values.items():
            self.ram[address] = value

    def reset(self):
        self.resets += 1
        self.ram[:] = bytes(2048)
        self.write({STATE: 8, Y_PAGE: 1, LIVES: 2} | at(40))
        self.t = -self.START_UP
        self.pressed = []

    def frame(self, buttons):
        assert not self.closed
        self.frames += 1
        self.t += 1
        if self.t <= 0:
            self.write(clock(0 if self.t < -4 else 401 if self.t < 0 else 400))
            return
        self.pressed.append(buttons)
        x = self.ram[X_PAGE] * 256 + self.ram[X]
        self.write(at(x + 2 * bool(buttons & RIGHT) - 2 * bool(buttons & LEFT)))
        self.write(self.script.get(self.t, {}))
        self.screen[:] = self.t % 256

    def backup(self):
        self.saved = bytes(self.ram), self.screen.copy(), self.t

    def restore(self):
        self.ram[:], self.screen[:], self.t = self.saved
        self.pressed = []

    def close(self):
        self.closed += 1


def fake_mario(script=None, **kwargs):
    """MarioEnv on FakeConsoles with this script, which are in its list `consoles`."""
    from spinup_tf2.envs.mario.env import MarioEnv

    consoles = []

    def make_core(rom):
        consoles.append(FakeConsole(script))
        return consoles[-1]

    env = MarioEnv(make_core=make_core, **kwargs)
    env.consoles = consoles
    return env
