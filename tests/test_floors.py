"""Imports go one way: from the floors above to those below, and nowhere in a circle.

Read from the source, so that imports inside functions and those for type checkers count as well.
What Python does by itself does not: whoever imports `spinup_tf2.core` runs `spinup_tf2/__init__.py`
first, which registers the environments.
"""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import spinup_tf2

PACKAGE = Path(spinup_tf2.__file__).parent

# Lowest first. A module imports from lower floors and from its own folder only.
FLOORS = [
    ["errors", "user_config", "version", "tensorflow_import", "moved"],
    ["printing"],
    ["run_files"],
    ["arguments"],
    ["parallel"],
    ["utils", "utils.mpi_tools", "utils.mpi_tf", "utils.serialization_utils", "utils.logx"],
    ["envs"],
    ["persistence"],
    ["core"],
    ["algos"],
    ["experiments"],
    ["utils.run_utils", "utils.test_policy", "utils.plot"],
    ["__init__", "presets"],
    ["cli"],
    ["run"],
    ["examples"],
]


def module_name(path):
    """`core/nets/bodies.py` is core.nets.bodies, and `core/__init__.py` is core."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


SOURCES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports_of(source):
    """The modules, and the names in modules, that a source imports anywhere in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports are not understood here"
            yield from (f"{node.module}.{each.name}" for each in node.names)


def imported_modules(source):
    """The modules of this package among them."""
    for name in imports_of(source):
        package, _, rest = name.partition(".")
        if package == "spinup_tf2":
            # core.finite.check_variables: not a module, but a name in one.
            candidates = (rest, rest.rpartition(".")[0], "__init__")
            yield next(module for module in candidates if module in SOURCES)


IMPORTS = {
    name: {*imported_modules(path.read_text(encoding="utf-8"))} - {name}
    for name, path in SOURCES.items()
}


def floor_of(module):
    """The number of a module's floor: its own, or that of the folder it lies in."""
    while module:
        for number, floor in enumerate(FLOORS):
            if module in floor:
                return number
        module = module.rpartition(".")[0]
    return None


def may_import(module, other):
    below = floor_of(other) < floor_of(module)
    folder, other_folder = (name.rpartition(".")[0].partition(".")[0] for name in (module, other))
    return below or (folder == other_folder != "" and floor_of(other) == floor_of(module))


def circle_in(graph):
    """The nodes of a circle in a graph, {node: those it leads to}; [] if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return sorted(set(error.args[1]))
    return []


def inside(folder):
    """What lies in a folder, {file or folder: those of them that it imports}."""

    def child(module):
        return f"{folder}.{module.removeprefix(folder + '.').partition('.')[0]}"

    graph = {}
    for module, imported in IMPORTS.items():
        if module.startswith(folder + "."):
            others = {child(each) for each in imported if each.startswith(folder + ".")}
            graph.setdefault(child(module), set()).update(others - {child(module)})
    return graph


FOLDERS = sorted({module.rpartition(".")[0] for module in SOURCES} - {""})


def test_every_module_has_a_floor():
    assert [module for module in SOURCES if floor_of(module) is None] == []


@pytest.mark.parametrize("module", SOURCES)
def test_a_module_imports_from_below(module):
    assert {other for other in IMPORTS[module] if not may_import(module, other)} == set()


def test_no_circle_of_files():
    assert circle_in(IMPORTS) == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_circle_of_files_and_folders_in(folder):
    assert circle_in(inside(folder)) == []


def test_one_module_imports_tensorflow_probability():
    importing = {
        module
        for module, path in SOURCES.items()
        for name in imports_of(path.read_text(encoding="utf-8"))
        if name.partition(".")[0] == "tensorflow_probability"
    }
    alone = {"examples.ppo_pendulum"}  # which needs no other part of the package
    assert importing - alone == {"core.nets.distributions"}


def test_that_rules_find():
    source = "def f():\n    from spinup_tf2.core import finite\nimport spinup_tf2.utils.logx as log"
    assert {*imported_modules(source)} == {"core.finite", "utils.logx"}
    assert {*imported_modules("from spinup_tf2 import ppo")} == {"__init__"}
    assert not may_import("persistence.reading", "core.finite")
    assert not may_import("cli.play", "run")
    assert not may_import("presets", "__init__")
    assert not may_import("utils.logx", "utils.plot")
    assert may_import("utils.logx", "utils.mpi_tools")
    assert may_import("core.finite", "core.rollout.vector_env")
    assert circle_in({1: {2}, 2: {3, 4}, 3: {1}, 4: set()}) == [1, 2, 3]
