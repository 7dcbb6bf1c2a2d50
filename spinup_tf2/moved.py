"""Keeps old import paths working: `core.policies` is now `core.nets.actor_critic`, for example."""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

PACKAGE = "spinup_tf2."

# Old modules, and where their names are now: in the first of these modules that has the name.
MOVED = {
    "core.acting": "core.nets.acting",
    "core.advantages": "core.experience.advantages",
    "core.buffers": "core.experience.trajectory_buffer",
    "core.environment_faults": "core.rollout.faults",
    "core.evaluation": "core.runs.evaluation",
    "core.natural_gradient": "core.optimize.natural_gradient",
    "core.networks": "core.nets.bodies",
    "core.normalization": "core.nets.normalization",
    "core.optimize.objectives": "algos.ppo",
    "core.optimization": ("core.optimize.gradient_steps", "core.optimize.take_steps"),
    "core.policies": (
        "core.nets.actor_critic",
        "core.nets.making",
        "core.nets.heads",
        "core.nets.distributions",
    ),
    "core.ppo_buffer": "core.experience.ppo_buffer",
    "core.q_actor_critic": (
        "core.nets.q_actor_critic",
        "core.nets.making",
        "core.nets.heads",
        "core.nets.distributions",
    ),
    "core.replay_buffer": "core.experience.replay_buffer",
    "core.saved_policy": "core.runs.saved_policy",
    "core.spaces": ("envs.spaces", "persistence.space_json"),
    "core.update_block": "core.optimize.update_block",
    "core.values": "core.optimize.losses",
    "core.vector_env": "core.rollout.vector_env",
    "experiments.results": "results.datasets",
    "utils.env_spec": "persistence.env_spec",
    "utils.evaluate": "cli.evaluate",
    "utils.play": "cli.play",
    "utils.rendering": "envs.rendering",
    "utils.run_entrypoint": "experiments.run_entrypoint",
    "utils.tensorflow_import": "tensorflow_import",
}


class _Alias(Loader):
    """Loader of a module that looks up its names in other modules."""

    def __init__(self, homes: Sequence[str]):
        self.homes = homes

    def create_module(self, spec: ModuleSpec) -> None:
        """Return None, for the default module."""

    def exec_module(self, module: ModuleType) -> None:
        homes = [import_module(home) for home in self.homes]
        module.__doc__ = homes[0].__doc__
        module.__getattr__ = lambda name: getattr(
            next((home for home in homes if hasattr(home, name)), homes[0]), name
        )
        module.__dir__ = lambda: sorted({name for home in homes for name in dir(home)})


class _Finder(MetaPathFinder):
    def __init__(self, homes: Mapping[str, Sequence[str]]):
        self.homes = homes

    def find_spec(self, name, path=None, target=None):
        homes = self.homes.get(name)
        return homes and ModuleSpec(name, _Alias(homes), origin=f"moved to {' and '.join(homes)}")


def find_moved_modules() -> None:
    """Make modules importable by their old paths."""
    homes = {
        PACKAGE + old: [PACKAGE + each for each in ([new] if isinstance(new, str) else new)]
        for old, new in MOVED.items()
    }
    sys.meta_path.append(_Finder(homes))
