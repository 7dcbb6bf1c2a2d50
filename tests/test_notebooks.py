"""The notebooks: they are kept without outputs, and all of their cells run."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = ROOT / "docs" / "notebooks"

nbformat = pytest.importorskip("nbformat", reason='needs: pip install ".[notebook]"')


def read(name):
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    return notebook


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebooks_are_kept_without_outputs(path):
    cells = code_cells(read(path.stem))
    assert cells
    assert all(cell.outputs == [] and cell.execution_count is None for cell in cells)


def test_the_page_shows_each_cell():
    """`python docs/notebooks/rendered.py` has been run since the notebook changed."""
    page = (NOTEBOOKS.parent / "notebook.md").read_text(encoding="utf-8")
    for cell in code_cells(read("first_steps")):
        assert f"```py\n{cell.source}\n```" in page


@pytest.mark.commands
def test_first_steps(tmp_path, monkeypatch):
    """Each cell prints or shows what the text beside it says."""
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("imageio_ffmpeg")
    monkeypatch.setenv("SPINUP_TF2_DATA_DIR", str(tmp_path / "data"))
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / "jupyter"))
    # ipykernel shows what other processes print, but in tests it does not.
    monkeypatch.delenv("PYTEST_CURRENT_TEST", raising=False)

    notebook = read("first_steps")
    watch = code_cells(notebook)[-1]
    notebook.cells.append(nbformat.v4.new_code_cell(watch.source))  # a cell that is run again
    resources = dict(metadata=dict(path=str(tmp_path)))
    nbclient.NotebookClient(notebook, timeout=300, resources=resources).execute()

    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == [*range(1, len(cells) + 1)]
    printed, shown = {}, {}
    for cell in cells:
        printed[cell.source] = "".join(each.get("text", "") for each in cell.outputs)
        shown[cell.source] = {}
        for each in cell.outputs:
            shown[cell.source] |= each.get("data", {})

    def of(source, outputs):
        (found,) = (output for cell, output in outputs.items() if source in cell)
        return found

    lines = of("ppo(\n", printed).splitlines()
    assert [line.split()[:2] for line in lines[:-1]] == [["epoch", str(i)] for i in range(12)]
    assert Path(lines[-1].split()[-1]) == tmp_path / "data" / "first_steps" / "first_steps_s0"
    assert "text/html" in of("progress[[", shown)
    assert "image/png" in of("plot_data(", shown)
    assert "Episode 4" in of("run_policy(", printed)
    assert "Wrote 1 video" in of("Video(", printed)
    assert "data:video/mp4;base64," in of("Video(", shown)["text/html"]
    assert [*tmp_path.rglob("*.mp4")]
