"""The signature and the docstring of an algorithm, completed from the table of shared arguments.

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
        **defaults: Options of which it has defaults of its own.
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
    """The types of the options that `**options: Unpack[...]` stands for, by name, in order."""
    # A subclass has its own after those of the class that it derives from.
    return (OnPolicyOptions if "OnPolicyOptions" in annotation else Options).__annotations__


def option_defaults(names: Iterable[str], own: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults of options by name: an algorithm's own, or those of the table."""
    return {name: own.get(name, OPTIONS[name].default) for name in names}


def complete_docstring(doc: str, names: Iterable[str]) -> str:
    """A docstring in which every argument has its entry.

    Args:
        doc: The docstring, cleaned; what it has under "Args:" goes before the shared descriptions.
        names: The arguments, in order. One that is described nowhere, as in an experiment with a
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
    """A paragraph with lines of the right length, all but the first indented; tables stay."""
    if "===" in paragraph:
        return textwrap.indent(paragraph, "    ")
    first = "    " if indented else ""
    return textwrap.fill(
        paragraph, 96, initial_indent=first, subsequent_indent="    ", break_on_hyphens=False
    )


def _entries(text):
    """{name: entry} of the text of an "Args:" section."""
    found = [*_ENTRY.finditer(text)]
    ends = [*(match.start() for match in found), len(text)][1:]
    pairs = zip(found, ends, strict=True)
    return {match[1]: text[match.start() : end].strip() for match, end in pairs}
