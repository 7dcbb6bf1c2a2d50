"""Runs the notebook, and writes its cells and what they show into the page about it.

python docs/notebooks/rendered.py
"""

import os
import re
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "notebook.md"
FIGURE = HERE.parent / "images" / "notebook.svg"
HEAD = "## What it shows\n"
SETTINGS = """%matplotlib inline
%config InlineBackend.figure_formats = ['svg']
import pandas
pandas.options.display.width = 100"""


def executed(directory):
    """The cells of the notebook behind the first one, which is about installing."""
    notebook = nbformat.read(HERE / "first_steps.ipynb", as_version=4)
    notebook.cells[0] = nbformat.v4.new_code_cell(SETTINGS)
    os.environ["SPINUP_TF2_DATA_DIR"] = f"{directory}/data"
    resources = dict(metadata=dict(path=directory))
    NotebookClient(notebook, timeout=600, resources=resources).execute()
    return notebook.cells[1:]


def shown(output):
    """An output as Markdown: text, or a figure; nothing of a video."""
    data = output.get("data", {"text/plain": output.get("text", "")})
    if "image/svg+xml" in data:
        FIGURE.write_text(data["image/svg+xml"], encoding="utf-8")
        return f"![Average return over steps](images/{FIGURE.name})\n\n*The learning curve.*"
    if "<video" in data.get("text/html", ""):
        return ""
    text = re.sub(r"\n\n+", "\n\n", data["text/plain"].strip("\n"))
    return f"```text\n{text}\n```"


def markdown(cells):
    for cell in cells:
        if cell.cell_type == "markdown":
            yield re.sub(r"^##", "###", cell.source, flags=re.MULTILINE)
        else:
            yield f"```py\n{cell.source}\n```"
            parts = "\n\n".join(filter(None, map(shown, cell.outputs)))
            yield parts.replace("\n```\n\n```text\n", "\n")  # printed piece by piece


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        parts = [part for part in markdown(executed(temporary)) if part]
    text = "\n\n".join(parts).replace(f"{temporary}/", "")
    before, _, after = PAGE.read_text(encoding="utf-8").partition(HEAD)
    after = after.partition("\n## ")[2]
    PAGE.write_text(f"{before}{HEAD}\n{text}\n\n## {after}", encoding="utf-8")
