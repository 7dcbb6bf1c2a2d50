"""Rules about the source as a whole."""

import ast
from pathlib import Path

import pytest

import spinup_tf2

PACKAGE = Path(spinup_tf2.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))

# The places that unpickle: the file that the same user's parent process wrote a moment ago, and
# vars.pkl after the user has passed --allow_pickle.
UNPICKLING = {"utils/run_entrypoint.py": "pickle.loads", "utils/test_policy.py": "joblib.load"}
FORBIDDEN = {"eval", "exec", "os.system", "pickle.load", "pickle.loads", "joblib.load"}


def called_names(tree):
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_is_evaluated_or_unpickled(path):
    audited = UNPICKLING.get(path.relative_to(PACKAGE).as_posix())
    found = called_names(ast.parse(path.read_text(encoding="utf-8"))) & FORBIDDEN
    assert found == ({audited} if audited else set())


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_mpi_is_never_started_by_an_import(path):
    """Starting MPI in a process that forks environment workers crashes some MPI libraries."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not any("mpi4py" in ast.unparse(node) for node in imports)
