"""Sphinx: `sphinx-build -W --keep-going -b html docs docs/_build`."""

import inspect
import io
import itertools
import re
import sys
from contextlib import suppress
from pathlib import Path
from runpy import run_path
from textwrap import indent
from xml.etree import ElementTree

import ziamath
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from pygments.lexers.shell import BashLexer
from pygments.token import Name

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # document this checkout, whatever is installed

from spinup_tf2.algos import ALGORITHMS  # noqa: E402
from spinup_tf2.experiments.presets import as_flags, tables  # noqa: E402
from spinup_tf2.tensorflow_import import quiet_tensorflow  # noqa: E402

quiet_tensorflow()

project = "spinup_tf2"
author = "the spinup_tf2 authors"
copyright = author
release = version = run_path(str(ROOT / "spinup_tf2" / "version.py"))["__version__"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["dollarmath", "html_image"]
myst_heading_anchors = 4  # links to sections, by the names that repository browsers give them
default_role = "code"  # `name`, as the docstrings write it
highlight_language = "text"
smartquotes_action = "qe"  # not the dashes of flags
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!spinup_tf2).*")]  # other projects' pages are not linked

html_math_renderer = "svg"  # below
html_theme = "furo"
html_title = f"spinup_tf2 {release}"
html_static_path = ["static"]
html_css_files = ["docs.css"]

autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False  # of gymnasium and Keras, whose methods are overridden
autodoc_typehints = "none"  # the docstrings say it
napoleon_use_param = False  # one parameter list, in which an entry may have several names
napoleon_use_rtype = False
napoleon_attr_annotations = False
napoleon_use_ivar = True


# The docstrings are written to be read in the source. Two of their habits are not yet markup:
# lines `name: meaning` become parameter lists, and indented paragraphs literal.

_PARAMETER = re.compile(r"[a-z]\w*(, [a-z]\w*)*: ")
_SECTIONS = ("Args:", "Attributes:", "Returns:", "Raises:")


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


# Defaults are shown as values, since many of an algorithm's do not stand in its source; but classes
# and functions by their names.


class _Named:
    def __init__(self, value):
        self.name = value.__name__

    def __repr__(self):
        return self.name


def _name_defaults(app, obj, bound_method):
    with suppress(AttributeError, TypeError, ValueError):  # of what is not Python's own functions
        signature = inspect.signature(obj)
        parameters = [
            each.replace(default=_Named(each.default)) if _has_name(each.default) else each
            for each in signature.parameters.values()
        ]
        obj.__signature__ = signature.replace(parameters=parameters)


def _has_name(default):
    named = inspect.isroutine(default) or inspect.isclass(default)
    return named and default is not inspect.Parameter.empty


# Formulas become SVG while the pages are built: they need no script and no network.

ziamath.config.svg2 = False  # each glyph where it is drawn: ids would be those of other formulas


def _spaced(tex):
    """A formula with the spaces that ziamath does not make by itself, as browsers' scripts do."""
    tex = re.sub(r"\\nabla_(\\?\w+)( *\\sum)?", _nabla, tex)
    tex = re.sub(r"\\nabla(?=[ \\])", r"{\\nabla}", tex)
    return re.sub(r"\bP_(\\\w+)", r"P{}_\1", tex)


def _nabla(match):
    return rf"{{\nabla}}_{{\!{match[1]}}}" + (r" \, \sum" if match[2] else "")


def _draw_formula(translator, node):
    block = isinstance(node, nodes.math_block)
    tex = _spaced(node.astext())
    svg = ziamath.Latex(tex, size=16, inline=not block, color="currentColor").svgxml()
    for part in svg.iter():
        if part.get("fill") == "black":  # ziamath's lines above letters, whatever the colour
            part.set("fill", "currentColor")
    left, top, width, height = map(float, svg.get("viewBox").split())
    if tex.startswith(r"\hat"):  # ziamath leaves a blank before it
        left, width = left + 6.5, width - 6.5
        svg.set("viewBox", f"{left} {top} {width} {height}")
    # In em, so that it grows with the text, which has larger letters in the same size.
    top, width, height = top / 14, width / 14, height / 14
    style = f"width: {width:.3f}em; height: {height:.3f}em; vertical-align: {-top - height:.3f}em"
    if block:  # where a window is narrower, it shrinks a little before it has to be moved
        style = f"width: {width:.3f}em; min-width: {0.75 * width:.3f}em"
    svg.attrib |= {"style": style, "role": "img", "aria-label": node.astext()}
    markup = ElementTree.tostring(svg, encoding="unicode")
    # Behind a formula in a line no break is allowed, as a full stop may follow.
    translator.body.append(f'<div class="formula">{markup}</div>' if block else markup + "\u2060")
    raise nodes.SkipNode


# Flags are marked in commands, so that docs.css can keep their lines from breaking at the dashes.


class _Bash(BashLexer):
    _flag = (r"(?<=\s)--?[a-z][\w:]*", Name.Attribute)
    tokens = {**BashLexer.tokens, "root": [_flag, *BashLexer.tokens["root"]]}  # noqa: RUF012


# Long names may be broken behind a dot, a slash and an underscore; spaces are no matter of theirs.

_LONG_NAME = re.compile(r'<span class="pre">([^<>&]{17,})</span>')


def _break_names(app, pagename, templatename, context, doctree):
    def broken(match):
        parts = re.split(r"(?<=[./_])(?=\w)", match[1])
        return "<wbr/>".join(f'<span class="pre">{part}</span>' for part in parts)

    if "body" in context:
        body = _LONG_NAME.sub(broken, context["body"])
        # From the source back to the page; wrong where a name is that of another module's, too.
        body = re.sub(r'<a class="viewcode-back".*?</a>', "", body)
        context["body"] = re.sub(r"(</strong>(?: \(<em>.*?</em>\))?) -- ", r"\1: ", body)


# The picture of the floors is drawn from what the modules import when the pages are built.


class _Floors(Directive):
    def run(self):
        svg = io.StringIO()
        no_metadata = dict.fromkeys(["Creator", "Date", "Format", "Type"])
        figure = run_path(str(ROOT / "docs" / "floors.py"))["draw"]()
        figure.savefig(svg, format="svg", metadata=no_metadata)
        _, _, markup = svg.getvalue().partition("<svg ")  # without the head of a file of its own
        label = 'role="img" aria-label="Which folders import from which, floor by floor"'
        caption = "<figcaption><p>Which folders import from which, floor by floor.</p></figcaption>"
        figure = f'<figure class="floors"><div><svg {label} {markup}</div>{caption}</figure>'
        return [nodes.raw("", figure, format="html")]


# The tables of presets are made of the files that the program reads.


class _Presets(Directive):
    def run(self):
        text = StringList(_tables_of_presets().splitlines(), "presets")
        node = nodes.Element()
        self.state.nested_parse(text, 0, node)
        return node.children


def _tables_of_presets():
    blocks = []
    every = [(algorithm, *each) for algorithm in ALGORITHMS for each in tables(algorithm).items()]
    for owner, name, table in every:
        fits = ", ".join(f"``{pattern}``" for pattern in table.fits)
        default = f"By default ``{table.env}``; for {fits}."
        head = f".. rubric:: ``{owner} --preset {name}``\n\n{table.doc} {default}"
        rows = ".. list-table::\n   :header-rows: 1\n   :widths: 50 26 24\n\n"
        rows += "   * - Settings\n     - Origin\n     - Environments\n"
        for part in table.parts:
            flags = as_flags(part.arguments)
            settings = ", ".join(f"``{flag} {value!r}``" for flag, value in flags.items())
            only = ", ".join(f"``{pattern}``" for pattern in part.fits or ())
            rows += f"   * - {settings}\n     - {part.origin}\n     - {only or 'all'}\n"
        blocks += [head, rows]
    return "\n\n".join(blocks)


# What only the site can show is a comment on a page, which a repository browser hides: the comment
# `<!--{name} ... -->` becomes a directive. A link to a result of the learning benchmark, alone in
# its line, becomes the tables that `python benchmarks/learning.py report` has written.

_LINKED_TABLE = r"^\[Table: .*\]\((?:\.\./)+(benchmarks/results/learning/[\w-]+\.md)\)$"


def _for_the_site(app, docname, source):
    text = re.sub(r"^( *)<!--(\{.*?)-->$", r"\1```\2```", source[0], flags=re.M | re.S)
    text = text.replace("<!-- overview -->", '<div class="learning">')
    text = text.replace("<!-- end of overview -->", "</div>")
    source[0] = re.sub(_LINKED_TABLE, _learning, text, flags=re.MULTILINE)


def _learning(match):
    lines = (ROOT / match[1]).read_text(encoding="utf-8").splitlines()
    head = []
    for number, line in enumerate(lines):
        if not line.startswith("|"):
            head = []
            continue
        row = line[2:-2].split(" | ")
        head = head or row
        shown = [name.removeprefix("Spinning Up, ") for name in row]  # the page says whose they are
        lines[number] = "| " + " | ".join(_joined(shown, head)) + " |"
    return "\n".join(['<div class="learning">', "", *lines, "", "</div>"])


def _joined(row, head):
    """The cells of a row; one without a name above it becomes the second line of that before it."""
    cells = []
    for cell, name in zip(row, head, strict=True):
        if name.strip():
            cells.append("" if cell == "-" else cell)
        elif cell.strip(" -"):
            cells[-1] += f"<br>{cell}"
    return cells


def setup(app):
    app.add_directive("floors", _Floors)
    app.add_directive("presets", _Presets)
    app.add_lexer("bash", _Bash)
    app.add_html_math_renderer("svg", (_draw_formula, None), (_draw_formula, None))
    app.connect("autodoc-before-process-signature", _name_defaults)
    app.connect("html-page-context", _break_names)
    app.connect("source-read", _for_the_site)
    app.connect("autodoc-process-docstring", _add_markup, priority=100)  # before napoleon
