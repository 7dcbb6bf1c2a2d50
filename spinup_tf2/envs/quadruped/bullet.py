"""Access to PyBullet: loads it when it is needed, opens simulations, and silences it."""

import ctypes
import functools
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from spinup_tf2.errors import UserError

INSTALL = 'pip install "spinup_tf2[quadruped]"'


@functools.cache
def load_pybullet() -> tuple[Any, str]:
    """Import PyBullet; return its class of clients and the directory of its robots."""
    try:
        with silenced(2):  # it prints its build date
            import pybullet_data
            from pybullet_utils.bullet_client import BulletClient
    except ImportError as error:
        raise UserError(
            f"The quadruped needs PyBullet, which cannot be loaded ({error}); install it with: "
            f"{INSTALL}"
        ) from error
    return BulletClient, pybullet_data.getDataPath()


def open_simulation(gui: bool) -> tuple[Any, str]:
    """Return PyBullet with all calls going to a new simulation, and the directory of its robots."""
    client_class, data = load_pybullet()
    if gui and not has_display():
        raise UserError(
            "There is no display to show the quadruped on; make it with render_mode='rgb_array', "
            "or None, or set DISPLAY."
        )
    import pybullet

    with silenced(1):
        client = client_class(pybullet.GUI if gui else pybullet.DIRECT)
    return client, data


def has_display() -> bool:
    """Return whether PyBullet can open a window; if it cannot, trying to would end the process."""
    if sys.platform != "linux":
        return True
    try:
        x11 = ctypes.CDLL("libX11.so.6")
    except OSError:
        return False
    x11.XOpenDisplay.restype = ctypes.c_void_p
    display = x11.XOpenDisplay(None)
    if display:
        x11.XCloseDisplay(ctypes.c_void_p(display))
    return bool(display)


@contextmanager
def silenced(descriptor: int) -> Iterator[None]:
    """Context manager that discards anything written to a file descriptor, even by C code.

    It affects all threads of the process, so it should be held only briefly.
    """
    flush = ctypes.CDLL(None).fflush  # C buffers its output; earlier output must still appear
    flush(None)
    kept = os.dup(descriptor)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
    try:
        yield
    finally:
        flush(None)
        os.dup2(kept, descriptor)
        os.close(kept)
