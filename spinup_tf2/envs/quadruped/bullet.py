"""Access to PyBullet: loads it when it is needed, lists the functions used, and silences it."""

import ctypes
import functools
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from spinup_tf2.errors import UserError

INSTALL = 'pip install "spinup_tf2[quadruped]"'

FUNCTIONS = (
    *("loadURDF", "setGravity", "setPhysicsEngineParameter", "getJointInfo", "getNumJoints"),
    *("getDynamicsInfo", "changeDynamics", "stepSimulation", "performCollisionDetection"),
    *("getJointStates", "setJointMotorControlArray", "resetJointStatesMultiDof"),
    *("getBasePositionAndOrientation", "resetBasePositionAndOrientation"),
    *("getBaseVelocity", "resetBaseVelocity", "saveState", "restoreState", "removeState"),
    *("getContactPoints", "getCameraImage", "resetDebugVisualizerCamera"),
    *("applyExternalForce", "createCollisionShape", "createMultiBody"),
)


@functools.cache
def load_pybullet() -> tuple[Any, str]:
    """Import PyBullet; return the module and the directory of its robots."""
    try:
        with silenced(2):  # it prints its build date
            import pybullet
            import pybullet_data
    except ImportError as error:
        raise UserError(
            f"The quadruped needs PyBullet, which cannot be loaded ({error}); install it with: "
            f"{INSTALL}"
        ) from error
    return pybullet, pybullet_data.getDataPath()


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
