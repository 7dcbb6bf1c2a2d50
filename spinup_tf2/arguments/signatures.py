"""Signatures and docstrings of algorithms, completed from the table of shared arguments.

An algorithm's docstring describes its own arguments; the shared ones are added, in the order of the
signature, for `help()`, IDEs, the docs and `--help`. The command line reads signatures from the
source, because an import would load TensorFlow.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from inspect import Parameter
from pathlib import Path
from typing import Any, TypeVar

from spinup_tf2.arguments.table import ARGUMENTS, OPTIONS, OnPolicyOptions, Options

OUTCOME = """
Returns:
    The trained actor-critic.

Raises:
    UserError: (a ValueError) Before anything is written, for an argument or an environment that
        cannot be used.
"""

NOT_DESCRIBED = "Not described."

Function = TypeVar("Function", bound=Callable)


def documented(function: Function, **defaults: Any) -> Function:
    """Complete the signature and the docstring of an algorithm.

    Args:
        function: The algorithm; its shared options are `**options: Unpack[...]`.
        **defaults: The algorithm's own defaults of shared options.
    """
    if unknown := defaults.keys() - OPTIONS.keys():
        raise TypeError(f"@algorithm was given {', '.join(unknown)}, which is no shared option")
    signature = inspect.signature(function)
    *parameters, last = signature.parameters.values()
    if last.kind is Parameter.VAR_KEYWORD:
        types = _option_types(str(last.annotation))
        parameters += [
            Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=types[name])
            for name, default in _option_defaults(types, defaults).items()
        ]
        signature = signature.replace(parameters=parameters)
    function.__signature__ = signature  # type: ignore[attr-defined]  # functions may have it
    doc = inspect.cleandoc(function.__doc__ or "")
    function.__doc__ = _completed(doc, signature.parameters)
    return function


def _option_types(annotation):
    """Return the types of the options in `**options: Unpack[...]`, by name and in order."""
    # The annotations of a subclass follow those of its base class.
    return (OnPolicyOptions if "OnPolicyOptions" in annotation else Options).__annotations__


def _option_defaults(names: Iterable[str], own: Mapping[str, Any]) -> dict[str, Any]:
    return {name: own.get(name, OPTIONS[name].default) for name in names}


# ---------------------------------------------------------------- docstrings


def _completed(doc, names):
    """Return a docstring in which every argument has an entry.

    Args:
        doc: The docstring, cleaned; its entries under "Args:" replace the shared descriptions.
        names: The arguments, in order. An argument without any description, such as a new one in a
            copy of an algorithm, gets an entry that says so.
    """
    names = [*names]
    summary, _, own_text = doc.partition("\n\nArgs:\n")
    texts = re.split(r"\n(?=\w)", textwrap.dedent(own_text).strip())
    own = {text.partition(" ")[0].rstrip(":"): text.strip() for text in texts}
    entries = [own.get(name) or _shared_entry(name, "replay_size" in names) for name in names]
    arguments = textwrap.indent("\n\n".join(entries), "    ")
    return f"{summary}\n\nArgs:\n{arguments}\n\n{OUTCOME.strip()}"


def _shared_entry(name, off_policy):
    """Return the description of an argument: paragraphs are wrapped, tables only indented."""
    if name not in ARGUMENTS:
        return f"{name}: {NOT_DESCRIBED}"
    argument = ARGUMENTS[name]
    kind = f" ({argument.rule.kind})" if argument.rule.kind else ""
    text = inspect.cleandoc((off_policy and argument.off_policy) or argument.text)
    first, *rest = f"{name}{kind}: {text}".split("\n\n")
    wrapped = textwrap.fill(first, 96, subsequent_indent="    ", break_on_hyphens=False)
    return "\n\n".join([wrapped, *(textwrap.indent(paragraph, "    ") for paragraph in rest)])


# ---------------------------------------------------------------- read from the source


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
    return tree, _named(tree, name)


def _named(tree, name) -> Any:
    return next(node for node in tree.body if getattr(node, "name", None) == name)


def read_signature(module: str, name: str) -> Signature:
    """Return the Signature of a function, or of a class's `__init__`, in an importable module."""
    tree, definition = _definition(module, name)
    is_class = isinstance(definition, ast.ClassDef)
    arguments = (_named(definition, "__init__") if is_class else definition).args
    imported = {
        alias.asname or alias.name: Name(str(node.module), alias.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    def value(node):
        return imported[node.id] if isinstance(node, ast.Name) else ast.literal_eval(node)

    with_default = arguments.args[len(arguments.args) - len(arguments.defaults) :]
    pairs = [*zip(with_default, arguments.defaults, strict=True)]
    pairs += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    defaults = {argument.arg: value(default) for argument, default in pairs if default}
    doc = inspect.cleandoc(ast.get_docstring(definition) or "")
    for decorator in definition.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "algorithm":
            names = [argument.arg for argument in [*arguments.args, *arguments.kwonlyargs]]
            if arguments.kwarg is not None:
                options = _option_types(ast.unparse(arguments.kwarg.annotation))
                own = {str(keyword.arg): value(keyword.value) for keyword in decorator.keywords}
                defaults |= _option_defaults(options, own)
                names += options
            doc = _completed(doc, names)
    return Signature(doc, defaults)
