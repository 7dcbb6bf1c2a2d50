"""Runs the notebook, and writes its cells and what they show into the page about it.

python docs/notebooks/rendered.py
"""

import base64
import os
import re
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "notebook.md"
FIGURE = HERE.parent / "images" / "notebook.png"
HEAD = "## What it shows\n"
CAPTION = "*The learning curve of the run.*"


def executed():
    notebook = nbformat.read(HERE / "first_steps.ipynb", as_version=4)
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SPINUP_TF2_DATA_DIR"] = "data"
        NotebookClient(notebook, resources=dict(metadata=dict(path=directory))).execute()
        for cell in notebook.cells:
            yield cell, [shown(output, directory) for output in cell.get("outputs", [])]


def shown(output, directory):
    """An output as Markdown: text, a table or a figure; nothing of a video."""
    data = output.get("data", {"text/plain": output.get("text", "")})
    if "image/png" in data:
        FIGURE.write_bytes(base64.b64decode(data["image/png"]))
        return f"![{CAPTION.strip('*')}](images/{FIGURE.name})\n\n{CAPTION}"
    if "<video" in data.get("text/html", ""):
        return ""
    text = data["text/plain"].replace(f"{directory}/", "").rstrip()
    return f"```text\n{text}\n```"


def markdown():
    """The cells behind the first one, which says how to install the package."""
    for cell, outputs in [*executed()][1:]:
        text = re.sub(r"^#", "###", cell.source)
        yield text.replace("#####", "###") if cell.cell_type == "markdown" else ""
        if cell.cell_type == "code":
            yield f"```python\n{cell.source}\n```"
        yield from outputs


if __name__ == "__main__":
    before, _, after = PAGE.read_text(encoding="utf-8").partition(HEAD)
    _, _, after = after.partition("\n## ")
    text = "\n\n".join(part for part in markdown() if part)
    PAGE.write_text(f"{before}{HEAD}\n{text}\n\n## {after}", encoding="utf-8")
