"""Imports go one way: from the floors above to those below, and nowhere in a circle.

Read from the source, so that imports inside functions and those for type checkers count as well.
What Python does by itself does not: whoever imports `spinup_tf2.core` runs `spinup_tf2/__init__.py`
first, which registers the environments.
"""

from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

# The list of the floors, which the docs show, is there as well.
floors = SimpleNamespace(**run_path(str(Path(__file__).parent.parent / "docs" / "floors.py")))
FLOORS, SOURCES, IMPORTS = floors.FLOORS, floors.SOURCES, floors.IMPORTS
floor_of = floors.floor_of


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


def test_a_module_imports_from_below():
    upwards = {
        (module, other)
        for module in SOURCES
        for other in IMPORTS[module]
        if not may_import(module, other)
    }
    assert upwards == set()


def test_no_circle_of_files():
    assert circle_in(IMPORTS) == []


def test_no_circle_of_files_and_folders():
    assert [folder for folder in FOLDERS if circle_in(inside(folder))] == []


def test_the_picture_shows_boxes_above_what_they_import():
    graph = floors.imports_of_boxes()
    place = {box: number for number, box in enumerate(graph)}
    assert {floors.box_of(module) for module in SOURCES} - {*place} == {(floor_of("core"), "core")}
    assert all(place[box] < place[other] for box in graph for other in graph[box])


def test_one_module_imports_tensorflow_probability():
    importing = {
        module
        for module, path in SOURCES.items()
        for name in floors.imports_of(path.read_text(encoding="utf-8"))
        if name.partition(".")[0] == "tensorflow_probability"
    }
    alone = {"examples.ppo_pendulum"}  # which needs no other part of the package
    assert importing - alone == {"core.nets.distributions"}


def test_that_rules_find():
    source = (
        "def f():\n    from spinup_tf2.core import on_policy\nimport spinup_tf2.utils.logx as log"
    )
    assert {*floors.imported_modules(source)} == {"core.on_policy", "utils.logx"}
    assert {*floors.imported_modules("from spinup_tf2 import ppo")} == {"__init__"}
    assert not may_import("files.saves", "training.run")
    assert not may_import("core.on_policy", "training.run")
    assert not may_import("cli.play", "run")
    assert not may_import("experiments.presets", "__init__")
    assert not may_import("files.run_directory", "files.logger")
    assert may_import("files.logger", "files.run_directory")
    assert may_import("core.on_policy", "core.vector_env")
    assert circle_in({1: {2}, 2: {3, 4}, 3: {1}, 4: set()}) == [1, 2, 3]
