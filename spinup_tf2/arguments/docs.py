"""Completes an algorithm's signature and docstring from the table of shared arguments.

An algorithm's docstring describes its own arguments; `documented` adds the shared ones, in the
order of the signature, for `help()`, IDEs, the docs and `--help` on the command line. Imports no
TensorFlow.
"""

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter
from typing import Any, TypeVar

from spinup_tf2.arguments.options import OPTIONS, OnPolicyOptions, Options
from spinup_tf2.arguments.table import ARGUMENTS
from spinup_tf2.errors import did_you_mean

OUTCOME = """
Returns:
    The trained actor-critic.

Raises:
    UserError: (a ValueError) Before anything is written, for an argument or an environment that
        cannot be used.
"""

NOT_DESCRIBED = "Not described."

Function = TypeVar("Function", bound=Callable)

_ENTRY = re.compile(r"^(\w+)(?: \(.*?\))?: ", re.MULTILINE)


def documented(function: Function, **defaults: Any) -> Function:
    """Complete the signature and the docstring of an algorithm.

    Args:
        function: The algorithm; its shared options are `**options: Unpack[...]`.
        **defaults: The algorithm's own defaults of shared options.
    """
    signature = inspect.signature(function)
    *parameters, last = signature.parameters.values()
    if unknown := [name for name in defaults if name not in OPTIONS]:
        hint = did_you_mean(unknown[0], OPTIONS) or f" they are {', '.join(OPTIONS)}."
        raise TypeError(f"@algorithm was given {unknown[0]}, which is no shared option;{hint}")
    if last.kind is Parameter.VAR_KEYWORD:
        types = option_types(str(last.annotation))
        parameters += [
            Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=types[name])
            for name, default in option_defaults(types, defaults).items()
        ]
        signature = signature.replace(parameters=parameters)
    function.__signature__ = signature  # type: ignore[attr-defined]  # functions may have it
    doc = inspect.cleandoc(function.__doc__ or "")
    function.__doc__ = complete_docstring(doc, signature.parameters)
    return function


def option_types(annotation: str) -> dict[str, str]:
    """Return the types of the options in `**options: Unpack[...]`, by name and in order."""
    # The annotations of a subclass follow those of its base class.
    return (OnPolicyOptions if "OnPolicyOptions" in annotation else Options).__annotations__


def option_defaults(names: Iterable[str], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of options by name: an algorithm's own, or those of the table."""
    return {name: own.get(name, OPTIONS[name].default) for name in names}


def complete_docstring(doc: str, names: Iterable[str]) -> str:
    """Return a docstring in which every argument has an entry.

    Args:
        doc: The docstring, cleaned; its entries under "Args:" replace the shared descriptions.
        names: The arguments, in order. An argument without any description, such as a new one in a
            copy of an algorithm, gets an entry that says so.
    """
    names = [*names]
    summary, _, own_text = doc.partition("\n\nArgs:\n")
    own = _entries(textwrap.dedent(own_text))
    entries = [own.get(name) or _shared_entry(name, "replay_size" in names) for name in names]
    arguments = textwrap.indent("\n\n".join(entries), "    ")
    return f"{summary}\n\nArgs:\n{arguments}\n\n{OUTCOME.strip()}"


def _shared_entry(name, off_policy):
    if name not in ARGUMENTS:
        return f"{name}: {NOT_DESCRIBED}"
    argument = ARGUMENTS[name]
    text = inspect.cleandoc((off_policy and argument.off_policy) or argument.text)
    kind = f" ({argument.type})" if argument.type else ""
    paragraphs = f"{name}{kind}: {text}".split("\n\n")
    return "\n\n".join(_filled(paragraph, i > 0) for i, paragraph in enumerate(paragraphs))


def _filled(paragraph, indented):
    """Wrap a paragraph and indent all lines but the first; tables are only indented."""
    if "===" in paragraph:
        return textwrap.indent(paragraph, "    ")
    first = "    " if indented else ""
    return textwrap.fill(
        paragraph, 96, initial_indent=first, subsequent_indent="    ", break_on_hyphens=False
    )


def _entries(text):
    """Return {name: entry} for the text of an "Args:" section."""
    found = [*_ENTRY.finditer(text)]
    ends = [*(match.start() for match in found), len(text)][1:]
    pairs = zip(found, ends, strict=True)
    return {match[1]: text[match.start() : end].strip() for match, end in pairs}
