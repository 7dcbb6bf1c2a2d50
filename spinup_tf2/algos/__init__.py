"""The algorithms, and what must be known of them before TensorFlow is loaded.

Each is a function of its name, in the module of its name in this folder. To add one, add its file
and a line here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Algorithm:
    """What an algorithm asks of an environment's actions.

    Attributes:
        discrete: Whether it takes those of a Discrete space.
        bounded: Whether those of a Box must have bounds.
    """

    discrete: bool = True
    bounded: bool = False


ALGORITHMS = {
    "vpg": Algorithm(),
    "trpo": Algorithm(),
    "ppo": Algorithm(),
    "a2c": Algorithm(),
    "ppg": Algorithm(),
    "ddpg": Algorithm(discrete=False, bounded=True),
    "td3": Algorithm(discrete=False, bounded=True),
    "sac": Algorithm(bounded=True),
}


def module_of(name: str) -> str:
    """The module that an algorithm is in."""
    return f"{__name__}.{name}"


def load(name: str) -> Callable[..., Any]:
    """The function of an algorithm. Its module imports TensorFlow."""
    return getattr(import_module(module_of(name)), name)
