"""Sphinx: `sphinx-build -W --keep-going -b html docs docs/_build`."""

import itertools
import re
import sys
from pathlib import Path
from runpy import run_path
from textwrap import indent

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # document this checkout, whatever is installed

from spinup_tf2.utils.tensorflow_import import quiet_tensorflow  # noqa: E402

quiet_tensorflow()

project = "spinup_tf2"
author = "the spinup_tf2 authors"
copyright = author
release = version = run_path(str(ROOT / "spinup_tf2" / "version.py"))["__version__"]

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]
default_role = "code"  # `name`, as the docstrings write it
highlight_language = "text"
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!spinup_tf2).*")]  # other projects' pages are not linked

html_theme = "furo"
html_title = f"spinup_tf2 {release}"
html_static_path = ["static"]
html_css_files = ["docs.css"]

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "none"  # the docstrings say it
napoleon_use_param = False  # one parameter list, in which an entry may have several names
napoleon_use_rtype = False


# The docstrings are written to be read in the source. Two of their habits are not yet markup:
# lines `name: meaning` become parameter lists, and indented paragraphs literal.

_PARAMETER = re.compile(r"[a-z]\w*(, [a-z]\w*)*: ")
_SECTIONS = ("Args:", "Returns:", "Raises:")


def _add_markup(app, what, name, obj, options, lines):
    marked, after_text = [], False
    for paragraph in re.split(r"\n\n+", "\n".join(lines).strip("\n")):
        entries = re.split(r"\n(?! )", paragraph)  # a line and what is indented below it
        if paragraph.startswith(" "):
            marked.append(f"::\n\n{paragraph}" if after_text else paragraph)
            after_text = False
            continue
        parameters = [*itertools.takewhile(_PARAMETER.match, entries)]
        if parameters:
            marked.append("Args:\n" + indent("\n".join(parameters), "    "))
        marked.append("\n".join(entries[len(parameters) :]))
        after_text = not entries[-1].startswith(_SECTIONS)
    lines[:] = [*"\n\n".join(marked).split("\n"), ""]


def setup(app):
    app.connect("autodoc-process-docstring", _add_markup, priority=100)  # before napoleon
