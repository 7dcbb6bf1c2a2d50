"""Signatures of functions, read from their source: importing them would load TensorFlow."""

import ast
import inspect
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from spinup_tf2.arguments.docs import complete_docstring, option_defaults, option_types


@dataclass(frozen=True)
class Name:
    """A default value that is not a literal, such as a class, and where it is imported from."""

    module: str
    name: str


@dataclass(frozen=True)
class Signature:
    """The docstring and the defaults of a function.

    Attributes:
        doc: The docstring.
        defaults: The defaults by name of parameter, in order; parameters without one are omitted.
    """

    doc: str
    defaults: dict


def read_class_attribute(module: str, name: str, attribute: str) -> str | None:
    """Return the source of the value that a class's body assigns to an attribute, or None."""
    _, definition = _definition(module, name)
    for node in definition.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == attribute:
            return ast.unparse(node.value)
    return None


def _definition(module, name):
    """Return a module's syntax tree, and the node of a function or class in it."""
    spec: Any = find_spec(module)
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    definition: Any
    [definition] = (node for node in tree.body if getattr(node, "name", None) == name)
    return tree, definition


def read_signature(module: str, name: str) -> Signature:
    """Return the Signature of a function, or of a class's `__init__`, in an importable module."""
    tree, definition = _definition(module, name)
    function = definition
    if isinstance(definition, ast.ClassDef):
        [function] = (n for n in definition.body if getattr(n, "name", None) == "__init__")
    imported = {
        alias.asname or alias.name: Name(str(node.module), alias.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    def value(node):
        return imported[node.id] if isinstance(node, ast.Name) else ast.literal_eval(node)

    arguments = function.args
    with_default = arguments.args[len(arguments.args) - len(arguments.defaults) :]
    pairs = [*zip(with_default, arguments.defaults, strict=True)]
    pairs += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    defaults = {argument.arg: value(default) for argument, default in pairs if default}
    doc = inspect.cleandoc(ast.get_docstring(definition) or "")
    for decorator in definition.decorator_list:
        if not isinstance(decorator, ast.Call) or ast.unparse(decorator.func) != "algorithm":
            continue
        every = [argument.arg for argument in [*arguments.args, *arguments.kwonlyargs]]
        if arguments.kwarg is not None:
            options = option_types(ast.unparse(arguments.kwarg.annotation))
            own = {str(keyword.arg): value(keyword.value) for keyword in decorator.keywords}
            defaults |= option_defaults(options, own)
            every += options
        doc = complete_docstring(doc, every)
    return Signature(doc, defaults)
