"""Imports of modules that are named by a file of a run, or by the user.

Importing a module runs its code, and run directories are passed around. So of the modules named in
a file, only those are imported that `import_for_file` permits. Modules named by the user, with
`--import my_envs` on the command line or `modules=["my_envs"]` in Python, are always imported.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import shlex
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.metadata import Distribution, distributions
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlparse
from urllib.request import url2pathname

from spinup_tf2.errors import UserError, kind_and_line

_OWN = ("gymnasium", "spinup_tf2")

# Packages that register environments without an entry point, or with too general a one: the module
# that does so, with a function if importing it is not enough, and what the ids begin with.
_KNOWN = {
    "PyFlyt.gym_envs": "PyFlyt/",
    "ale_py": "ALE/",
    "buffalo_gym": r"\w*(Bandit|Buffalo|BuffaloTrail)-v",
    "craftium": "Craftium/",
    "flappy_bird_gymnasium": "FlappyBird-",
    "gym_aloha": "gym_aloha/",
    "gym_anytrading": "(forex|stocks)-",
    "gym_classics2:register": r"\d+Walk-|ClassicGridworld-|LMaze-|CliffWalk-|DynaMaze-|FourRooms-",
    "gym_electric_motor": "(Cont|Finite)-[CST]C-",
    "gym_hil": "gym_hil/",
    "gym_pusht": "gym_pusht/",
    "gym_pybullet_drones": "(multi)?hover-aviary-|velocity-aviary-|ctrl-aviary-",
    "gym_sailing": "Motorboat-|Sailboat",
    "gym_simplegrid": "SimpleGrid-",
    "gym_trading_env": "(MultiDataset)?TradingEnv",
    "gym_xarm": "gym_xarm/",
    "gymnasium_2048": "gymnasium_2048/",
    "gymnasium_robotics": "Adroit|AntMaze|Fetch|FrankaKitchen|Hand|PointMaze",
    "gymnasium_search_race": "gymnasium_search_race/",
    "gymnasium_snake_game": "Snake-v",
    "highway_env": "(exit|highway|intersection|lane-keeping|merge|parking|racetrack|roundabout"
    "|two-way|u-turn)-",
    "lbforaging": "Foraging-",
    "memory_gym": "MortarMayhem|MysteryPath|SearingSpotlights|Endless(Mort|Myst|Sear)",
    "metaworld": "Meta-World/",
    "minatar.gym:register_envs": "MinAtar/",
    "minigrid": "(MiniGrid|BabyAI)-",
    "minihack": "MiniHack-",
    "miniworld": "MiniWorld-",
    "miniwob": "miniwob/",
    "mo_gymnasium": "mo-|breakable-bottles|deep-sea-treasure|fishwood|four-room|fruit-tree"
    "|minecart|resource-gathering|water-reservoir",
    "myosuite": "myo",
    "nle": "NetHack",
    "or_gymnasium": "BinPacking|InvM|Knapsack|NetworkM|Newsvendor|Portfolio|TSP|VMPacking|Vehicle",
    "panda_gym": "Panda",
    "pgtg": "pgtg-",
    "popgym": "popgym-",
    "pybullet_envs_gymnasium": r"\w+Bullet(Env)?-v",
    "rware": "rware-",
    "shimmy": "dm_control/|bsuite/|GymV2[16]Environment-|OpenSpiel",
    "sumo_rl": "sumo-rl-",
    "sustaingym": "sustaingym/",
    "tetris_gymnasium.envs": "tetris_gymnasium/",
    "vizdoom.gymnasium_wrapper": "Vizdoom",
    # Its environments are not gymnasium's, so that importing it registers nothing.
    "envpool": "$",
}

_GROUP = "gymnasium.envs"  # group of entry points of packages that register environments

_INSTALLED_IN = ("site-packages", "dist-packages")


class ModuleRefused(UserError):
    """Raised if a file of a run names a module that may not be imported on its behalf."""


# ---------------------------------------------------------------- modules named by the user


def add_import_argument(parser: argparse.ArgumentParser) -> None:
    """Add `--import MODULE` to the parser of a command that makes environments."""
    parser.add_argument(
        "--import",
        dest="modules",
        metavar="MODULE",
        action="append",
        default=[],
        help="import a module of yours first, such as one that registers the run's environment; "
        "may be given several times",
    )


def import_for_command(modules: Iterable[str]) -> None:
    """Import the modules given by `--import`, before a command reads a run.

    They may also be in the current directory, as with `python -m`. Without `--import`, nothing more
    is imported from there.
    """
    if modules:
        look_here()
        import_named(modules)
    else:
        forget_current_directory()


def import_named(modules: str | Iterable[str]) -> None:
    """Import one or several modules named by the user.

    Raises:
        UserError: One of them cannot be imported.
    """
    for name in [modules] if isinstance(modules, str) else modules:
        try:
            import_module(name)
        except (Exception, SystemExit) as error:  # a module may raise anything
            raise UserError(
                f"the module {name!r}, which you name, cannot be imported ({kind_and_line(error)})."
            ) from error


def look_here() -> None:
    """Make modules in the current directory importable, as `python -m` does."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def forget_current_directory() -> None:
    """Import nothing more from the current directory, which may hold somebody else's files.

    `python -m` looks there first for any module.
    """
    # Unless this package is there, or an editable installation of one with environments.
    homes = [Path(__file__).resolve().parents[2], *map(_folder, _registering().values())]
    if Path(".").resolve() not in homes:
        sys.path[:] = _other_places()


def _other_places():
    """Return the module search path without the current directory."""
    here = os.path.realpath(".")
    return [path for path in sys.path if os.path.realpath(path or ".") != here]


def import_flag(env_name: object, modules: Iterable[str] = ()) -> str:
    """Return the flags that a command needs to load a run: ` --import my_envs`, or "".

    Args:
        env_name: Name of the run's environment.
        modules: Further modules to import.
    """
    module, _, env_id = str(env_name).rpartition(":")
    module = module or _namespace(env_id)
    if module and not is_own(module) and module not in _registering():
        modules = [*modules, module]
    return "".join(f" --import {shlex.quote(each)}" for each in dict.fromkeys(modules))


def modules_of(given: Any) -> list[str]:
    """Return the modules of what is given as `module:name` or `module:Name(...)`, except our own.

    These are callbacks, wrappers or functions; anything else in the list is passed over.
    """
    listed = given if isinstance(given, list | tuple) else []
    names = [each.partition("(")[0] for each in listed if isinstance(each, str)]
    return [name.rpartition(":")[0] for name in names if ":" in name and not is_own(name)]


# ---------------------------------------------------------------- modules named by a file


def import_for_file(name: str) -> ModuleType:
    """Import a module that a file of a run names, if that is permitted.

    Permitted are modules of gymnasium and of this package; modules with which an installed package
    registers environments, provided that they are found where the package is installed; and modules
    that have already been imported, as no code is run then.

    Raises:
        ModuleRefused: It is any other module.
        UserError: It is not the name of a module.
    """
    parts = name.split(".")
    if not all(part.isidentifier() and not re.fullmatch("__.*__", part) for part in parts):
        raise UserError(f"it asks for {name!r}, which is no name of a module to be imported")
    if sys.modules.get(name) is not None:
        return sys.modules[name]
    if is_own(name) or _is_installed(name):
        return import_module(name)
    raise ModuleRefused(
        f"it asks to import {name}, which is not an installed package of environments; "
        "if this module is yours, or you trust whoever wrote it, allow it with "
        f'--import {name} (modules=["{name}"])'
    )


def import_installed(name: str) -> ModuleType:
    """Import a package with environments; raise ImportError if it is not installed."""
    if sys.modules.get(name) is None and not _is_installed(name):
        raise ModuleNotFoundError(f"{name} is not installed")
    return import_module(name)


def import_registering(env_id: str) -> str:
    """Import those installed packages that may register an environment, and let them do so.

    Returns:
        Why the well-known package of this environment cannot be imported; "" if nothing is wrong.
    """
    import gymnasium as gym

    reason = ""
    for dist in dict.fromkeys(_registering().values()):
        for module, function, ids in _registrations(dist):
            if env_id in gym.registry:
                return ""
            # An error in one of them does not matter, unless its environment is the one that is
            # wanted, and that is then reported as unknown.
            try:
                if re.match(ids, env_id) and _is_installed(module):
                    registers = import_module(module)
                    if function and env_id not in gym.registry:
                        attrgetter(function)(registers)()
            except Exception as error:
                if ids in _KNOWN.values():
                    reason = f" {module} cannot be imported ({kind_and_line(error)})."
    return reason


def import_namespace(env_id: str) -> None:
    """Import the installed module that an id given by the user names: that of `module/Env-v0`."""
    import_named(_namespace(env_id) or [])


def _namespace(env_id):
    """Return the namespace of an id if it is an installed module that is not imported anyway."""
    name = env_id.partition("/")[0] if "/" in env_id else ""
    if not name.isidentifier() or PathFinder.find_spec(name, _other_places()) is None:
        return ""
    import gymnasium as gym

    spec = gym.registry.get(env_id)
    return "" if spec is not None and is_own(str(spec.entry_point)) else name


def check_environment_arguments(value: Any) -> None:
    """Raise UserError if a string among an environment's arguments may lead to running code.

    Some environments import anything that is given as `module:name`. So it must be an environment
    or a wrapper, in a module that may be imported.
    """
    if isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            check_environment_arguments(each)
    elif isinstance(value, str) and ":" in value:
        module, _, name = value.partition(":")
        _check_entry_point(module, name)


def _check_entry_point(module, name):
    import gymnasium as gym

    package = module.partition(".")[0]
    with suppress(ValueError):  # some modules that have been imported have no spec
        if not package or find_spec(package) is None:
            return  # just a string with a colon
    found = vars(import_for_file(module)).get(name)
    made = isinstance(found, type) and issubclass(found, gym.Env | gym.Wrapper)
    if not made and name not in gym.registry:
        raise UserError(
            f"its argument {module}:{name} is neither an environment nor a wrapper, and nothing "
            "else is loaded"
        )


def is_own(name: str) -> bool:
    """Return whether a module belongs to gymnasium or to this package."""
    return name.partition(".")[0] in _OWN


def _registering():
    return _registering_in(tuple(_other_places()))


@functools.cache
def _registering_in(path: tuple[str, ...]) -> dict[str, Distribution]:
    """Return the modules with which installed packages register environments, and their packages.

    Any folder can be made to look like an installed package, so only those in the usual places for
    installed packages count.

    Args:
        path: Directories to search, without the current directory.
    """
    modules = {}
    for dist in distributions(path=[*path]):
        if Path(dist.locate_file("")).name not in _INSTALLED_IN:
            continue
        for name, _, _ in _registrations(dist):
            parts = name.split(".")
            for i in range(len(parts)):
                modules.setdefault(".".join(parts[: i + 1]), dist)
    return modules


def _registrations(dist):
    """Yield (module, function, ids) of what registers environments in an installed package.

    The function is "" if importing the module is enough; `ids` is a pattern of what ids begin with.
    """
    package = re.sub("[-.]", "_", dist.name or "").lower()
    known = {key: ids for key, ids in _KNOWN.items() if re.split("[.:]", key.lower())[0] == package}
    for name, ids in known.items():
        module, _, function = name.partition(":")
        yield module, function, ids
    for entry in dist.entry_points:
        if entry.group == _GROUP:
            ids = "" if entry.name.startswith("__") else rf"{re.escape(entry.name)}/|[^/]+$"
            module = entry.module.removesuffix(".__init__")
            yield module, entry.attr, "|".join(known.values()) or ids


def _is_installed(name):
    """Return whether a module registers environments and lies where its package is installed."""
    dist = _registering().get(name)
    if dist is None:
        return False
    folder, files = _folder(dist), _files(name)
    return files[-1] is not None and all(
        Path(file).resolve().is_relative_to(folder) for file in files if file is not None
    )


def _folder(dist):
    """Return the directory of a package's modules; if it is editable, that of its project."""
    url = json.loads(dist.read_text("direct_url.json") or "{}")
    if url.get("dir_info", {}).get("editable"):
        return Path(url2pathname(urlparse(url["url"]).path)).resolve()
    return Path(dist.locate_file("")).resolve()


def _files(name):
    """Return the files that importing a module would run, its own last; None where there is none.

    They include those of its parent packages. Nothing is imported to find them.
    """
    parts = name.split(".")
    specs = [find_spec(parts[0])]
    for i in range(1, len(parts)):
        places = specs[-1] and specs[-1].submodule_search_locations
        specs.append(PathFinder.find_spec(".".join(parts[: i + 1]), places) if places else None)
    return [spec and spec.origin for spec in specs]
