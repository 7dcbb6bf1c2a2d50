"""The algorithms, with what must be known of them before TensorFlow is loaded.

Each algorithm is a function in a module of the same name in this folder. To add one, add its file
and an entry in `ALGORITHMS`. One in a module of somebody's own has the name `module:function`.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

# The function of `envs.spaces` that accepts or refuses action spaces for each algorithm.
ALGORITHMS = {
    "vpg": "action_spec",
    "trpo": "action_spec",
    "ppo": "action_spec",
    "a2c": "action_spec",
    "ppg": "action_spec",
    "ddpg": "bounded_action_spec",
    "td3": "bounded_action_spec",
    "sac": "bounded_or_discrete_action_spec",
    "dqn": "discrete_action_spec",
}


def module_of(name: str) -> str:
    """Return the name of the module of an algorithm."""
    return name.rpartition(":")[0] or f"{__name__}.{name}"


def load(name: str) -> Callable[..., Any]:
    """Return the function of an algorithm. Its module imports TensorFlow."""
    return getattr(import_module(module_of(name)), name.rpartition(":")[2])
