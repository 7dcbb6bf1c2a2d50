"""The algorithms, with the properties that must be known before TensorFlow is loaded.

Each algorithm is a function in a module of the same name in this folder. To add one, add its file
and an entry in `ALGORITHMS`. One in a module of somebody's own has the name `module:function`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Algorithm:
    """The requirements of an algorithm on an environment's action space.

    Attributes:
        action_spec: Name of the function of `envs.spaces` that accepts or refuses action spaces.
    """

    action_spec: str = "action_spec"


ALGORITHMS = {
    "vpg": Algorithm(),
    "trpo": Algorithm(),
    "ppo": Algorithm(),
    "a2c": Algorithm(),
    "ppg": Algorithm(),
    "ddpg": Algorithm("bounded_action_spec"),
    "td3": Algorithm("bounded_action_spec"),
    "sac": Algorithm("bounded_or_discrete_action_spec"),
    "dqn": Algorithm("discrete_action_spec"),
}


def module_of(name: str) -> str:
    """Return the name of the module of an algorithm."""
    return name.rpartition(":")[0] or f"{__name__}.{name}"


def load(name: str) -> Callable[..., Any]:
    """Return the function of an algorithm. Its module imports TensorFlow."""
    return getattr(import_module(module_of(name)), name.rpartition(":")[2])
