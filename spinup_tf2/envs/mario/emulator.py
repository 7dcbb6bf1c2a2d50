"""The NES: the interface of an emulator, and the compiled emulator of nes-py behind it.

nes-py and gym-super-mario-bros are located on disk and never imported: their Python classes belong
to gym, the predecessor of gymnasium, and fail with NumPy 2. The emulator itself is a shared library
of a dozen functions. It runs without holding the GIL, so that emulators in several threads run in
parallel.
"""

import ctypes
import functools
import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from spinup_tf2.errors import UserError

INSTALL = 'pip install "spinup_tf2[mario]"'

FRAMES_PER_SECOND = 60

HEIGHT, WIDTH = 240, 256

# The original game; with coarse graphics; with one color for each kind of object; with rectangles.
ROMS = ("vanilla", "downsample", "pixel", "rectangle")

_RAM_SIZE = 0x800


class NesPy:
    """The emulator of nes-py 8, running the game.

    Args:
        rom: Version of the game, one of ROMS.

    Raises:
        UserError: nes-py or gym-super-mario-bros is missing.

    Attributes:
        ram: View of the console's 2,048 bytes of memory, which can be written as well.
        screen: View of the screen, uint8 `[HEIGHT, WIDTH, 4]`: blue, green, red, unused.
    """

    def __init__(self, rom: str = "vanilla"):
        path = rom_path(rom)
        self._library = _library()
        self._console = self._library.Initialize(os.fspath(path))
        self.ram = self._bytes(self._library.Memory(self._console), _RAM_SIZE)
        # Each of the two pads has three bytes: whether it latches buttons, the buttons that are
        # held (which Controller points to), and the buttons that the game has yet to read.
        self._pads = self._bytes(self._library.Controller(self._console, 0) - 1, 2 * 3)
        self._pads_of_backup = bytes(self._pads)
        picture = self._bytes(self._library.Screen(self._console), HEIGHT * WIDTH * 4)
        self.screen = np.frombuffer(picture, np.uint8).reshape(HEIGHT, WIDTH, 4)
        self._step = functools.partial(self._library.Step, self._console)

    @staticmethod
    def _bytes(address, size):
        return memoryview((ctypes.c_ubyte * size).from_address(address)).cast("B")

    def reset(self) -> None:
        """Press the reset button of the console."""
        self._library.Reset(self._console)

    def frame(self, buttons: int) -> None:
        """Run one frame (1/60 s) with these buttons held, one bit for each."""
        self._pads[1] = buttons
        self._step()

    def backup(self) -> None:
        """Save the state of the console, replacing the previously saved one."""
        # The library leaves out the pads, which matter if the frame ended while they were read.
        self._library.Backup(self._console)
        self._pads_of_backup = bytes(self._pads)

    def restore(self) -> None:
        """Return to the saved state."""
        self._library.Restore(self._console)
        self._pads[:] = self._pads_of_backup

    def close(self) -> None:
        """Free the emulator, which must not be used afterwards."""
        if self._console is not None:
            # These would point to freed memory.
            self.ram = self._pads = self.screen = self._step = None
            self._library.Close(self._console)
            self._console = None


def rom_path(rom: str) -> Path:
    """Return the path of the game `rom`, one of ROMS, in gym-super-mario-bros."""
    if rom not in ROMS:
        raise UserError(f"rom is {rom!r}; it must be one of {', '.join(ROMS)}.")
    ending = "" if rom == "vanilla" else f"-{rom}"
    path = _package("gym_super_mario_bros") / "_roms" / f"super-mario-bros{ending}.nes"
    if not path.is_file():
        raise UserError(f"gym-super-mario-bros has no game {path.name}; install it with: {INSTALL}")
    return path


def check_packages(rom: str) -> None:
    """Raise UserError if something that NesPy needs is not installed."""
    _library()
    rom_path(rom)


def is_missing(distribution: str) -> UserError:
    """Return a UserError that says what to install."""
    return UserError(
        f"Super Mario Bros needs {distribution}, which is not installed; install it with: {INSTALL}"
    )


def _package(name: str) -> Path:
    """Return the directory of a package, without importing it."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise is_missing(name.replace("_", "-"))
    return Path(spec.origin).parent


# Result and argument types of the library's functions. Except for Initialize, which makes it, their
# first argument is the console.
_FUNCTIONS: dict[str, tuple[type | None, list[type]]] = {
    "Initialize": (ctypes.c_void_p, [ctypes.c_wchar_p]),
    "Memory": (ctypes.c_void_p, [ctypes.c_void_p]),
    "Screen": (ctypes.c_void_p, [ctypes.c_void_p]),
    "Controller": (ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_uint]),
    **{name: (None, [ctypes.c_void_p]) for name in ("Reset", "Step", "Backup", "Restore", "Close")},
}


@functools.cache
def _library() -> ctypes.CDLL:
    [*paths] = _package("nes_py").glob("lib_nes_env*")
    if len(paths) != 1:
        raise is_missing("nes-py 8")
    library = ctypes.CDLL(os.fspath(paths[0]))
    for name, (result, arguments) in _FUNCTIONS.items():
        function: Callable = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
