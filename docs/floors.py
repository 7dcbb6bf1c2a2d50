"""Which module imports which, from the source: for the picture of the floors, and for the test.

The picture alone: `python docs/floors.py floors.png`
"""

import ast
import sys
from graphlib import TopologicalSorter
from pathlib import Path

from matplotlib.figure import Figure

PACKAGE = Path(__file__).resolve().parent.parent / "spinup_tf2"

# Lowest first. A module imports from lower floors and from its own folder only.
FLOORS = [
    ["errors", "version", "tensorflow_import"],
    ["user_config", "envs.modules"],
    ["files.printing", "files.disk", "files.run_directory"],
    ["files.serialization", "callbacks"],
    ["arguments"],
    ["parallel"],
    ["files.logger"],
    ["envs"],
    ["files"],
    ["tracking"],
    ["core"],
    ["training"],
    ["algos"],
    ["results"],
    ["experiments", "exporting"],
    ["utils"],
    ["__init__"],
    ["cli"],
    ["run", "utils.test_policy"],
    ["examples", "exercises"],
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


# -------------------------------------------------------------------------------- the picture

_OPEN = "core"  # of this folder, what lies in it has boxes of its own
_ROW, _STAIR = 0.42, 0.13  # inches from one box to the next, downwards and to the right


def box_of(module):
    """Where a module is in the picture: (floor, folder), or (floor, "") beside all folders."""
    path = module.split(".")
    if path[0] == _OPEN:
        return floor_of(module), ".".join(path[:2])
    return floor_of(module), path[0] if (PACKAGE / path[0]).is_dir() else ""


def imports_of_boxes():
    """The boxes from the highest to the lowest, {box: those that it imports from}."""
    graph = {}
    for module in SOURCES:
        boxes = {box_of(each) for each in IMPORTS[module]} - {box_of(module)}
        graph.setdefault(box_of(module), set()).update(boxes)
    ordered = TopologicalSorter({box: sorted(graph[box]) for box in sorted(graph)}).static_order()
    lowest_first = sorted(ordered, key=lambda box: box[0])  # on one floor the order stays
    return {box: graph[box] for box in reversed(lowest_first) if box[1] != _OPEN}


def text_of(box):
    """The name of the folder, and what is in it."""
    folder = box[1]
    own = [module for module in SOURCES if box_of(module) == box and module != folder]
    names = sorted({module.removeprefix(f"{folder}.").partition(".")[0] for module in own})
    names = [*names[:13], "..."] if len(names) > 14 else names
    title = folder.rpartition(".")[2]
    return "  ".join([rf"$\bf{{{title}}}$ " if title and names else title, *names]).strip()


def draw():
    """The picture: what a line passes in a dot is imported by the box from which it comes."""
    graph = imports_of_boxes()
    place = {box: (0.2 + _STAIR * i, 0.3 + _ROW * i) for i, box in enumerate(graph)}
    size = width, height = 13.8, _ROW * len(graph) + 0.2
    figure = Figure(size, facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    rows = [y for box, (_, y) in place.items() if box[1].startswith(_OPEN)]
    axes.axhspan(min(rows) - _ROW / 2, max(rows) + _ROW / 2, color="0.94")
    axes.text(width - 0.1, min(rows), _OPEN, ha="right", va="center", size=15, color="0.4")
    for number, (box, imported) in enumerate(graph.items()):
        x, y = place[box]
        colour = f"C{number % 10}"
        style = dict(boxstyle="round,pad=0.35", facecolor="white", edgecolor=colour)
        axes.text(x, y, text_of(box), va="center", size=10.5, bbox=style, zorder=4)
        for _, below in (place[each] for each in imported):
            axes.plot([x, x], [y, below], color=colour, linewidth=1.2)
            axes.plot(x, below, ".", color=colour, markersize=6, zorder=3)
        importing = [place[each][0] for each, others in graph.items() if box in others]
        if importing:
            arrow = dict(arrowstyle="-|>", color="0.55", linewidth=0.8, shrinkA=0, shrinkB=0)
            axes.annotate("", (x - 0.05, y), (min(importing), y), arrowprops=arrow, zorder=2)
    return figure


if __name__ == "__main__":
    draw().savefig(sys.argv[1])
