"""PyBullet itself: loading it when it is needed, what is called of it, and keeping it silent."""

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
    """PyBullet, and the directory of its robots. It is imported where it is first needed."""
    try:
        with silenced(2):  # it tells the date of its build
            import pybullet
            import pybullet_data
    except ImportError as error:
        raise UserError(
            f"The quadruped needs PyBullet, which cannot be loaded ({error}); install it with: "
            f"{INSTALL}"
        ) from error
    return pybullet, pybullet_data.getDataPath()


def has_display() -> bool:
    """Whether PyBullet can open a window: if it cannot, it ends the process."""
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
    """Nothing that is written to a file descriptor is seen, also if C code writes it.

    All threads of the process are concerned, so keep it short.
    """
    flush = ctypes.CDLL(None).fflush  # what C has buffered would appear before, or after
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
