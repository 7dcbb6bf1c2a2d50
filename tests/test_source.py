"""Rules about the source as a whole."""

import ast
import re
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import spinup_tf2

PACKAGE = Path(spinup_tf2.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))

# The one place that loads what may run code: see there who may call it, and below who does.
AUDITED = "files/unpickling.py"
CALLERS = {
    "load_trusted": ["cli/agents.py"],
    # The second reads back what it has just written.
    "load_saved_model": ["training/saved_policy.py", "exporting.py"],
    "load_private": ["experiments/run_entrypoint.py"],
    # Of this package, of what the user has typed, and of what a file names, where it may.
    "import_module": [
        "__init__.py",
        "algos/__init__.py",
        "run.py",
        "envs/modules.py",
        "exercises/checking.py",
    ],
}

RUNS_CODE = {
    *("eval", "exec", "compile", "__import__", "builtins.eval", "builtins.exec"),
    *("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"),
    *("pickle.load", "pickle.loads", "pickle.Unpickler", "joblib.load", "pandas.read_pickle"),
    *("cloudpickle.load", "cloudpickle.loads", "dill.load", "dill.loads", "shelve.open"),
    *("marshal.load", "marshal.loads", "yaml.load", "runpy.run_path", "runpy.run_module"),
    *("tensorflow.saved_model.load", "tensorflow.keras.models.load_model"),
    *("keras.models.load_model", "keras.saving.load_model", "keras.layers.TFSMLayer"),
    *("keras.saving.deserialize_keras_object", "keras.config.enable_unsafe_deserialization"),
}


def dotted_names(tree):
    """What is named anywhere in a source, called or not, by the name it has in its own library."""
    imported = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [(each.asname, each.name) for each in node.names if each.asname]
            imported.update(names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                imported[each.asname or each.name] = f"{node.module}.{each.name}"
                yield node, f"{node.module}.{each.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            first, dot, rest = ast.unparse(node).partition(".")
            yield node, imported.get(first, first) + dot + rest


def what_runs_code(source):
    tree = ast.parse(source)
    names = [*dotted_names(tree)]
    found = {name for _, name in names if name in RUNS_CODE}
    numpy_load = {id(node) for node, name in names if name == "numpy.load"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            keywords = {word.arg: ast.unparse(word.value) for word in node.keywords}
            if keywords.get("shell", "False") != "False":
                found.add("shell=True")
            if keywords.get("allow_pickle") == "False":
                numpy_load.discard(id(node.func))
    return found | ({"numpy.load"} if numpy_load else set())


def test_nothing_is_evaluated_or_unpickled():
    audited = {"pickle.load", "joblib.load", "tensorflow.saved_model.load"}
    for path in SOURCES:
        source, name = path.read_text(encoding="utf-8"), path.relative_to(PACKAGE).as_posix()
        assert what_runs_code(source) == (audited if name == AUDITED else set()), name
        for function, callers in CALLERS.items():
            assert name in (AUDITED, *callers) or function not in source, name


@pytest.mark.parametrize(
    "source",
    [
        "eval(text)",
        "f = exec",
        "import pickle as p\np.loads(b'')",
        "from pickle import load as read",
        "import joblib\nread = joblib.load",
        "import numpy as np\nnp.load(path)",
        "import numpy as np\nnp.load(path, allow_pickle=True)",
        "import numpy as np\nnp.load(path, allow_pickle=flag)",
        "import numpy as np\nread = np.load",
        "import subprocess\nsubprocess.run(line, shell=True)",
        "import os\nos.system(line)",
        "from os import system",
        "import tensorflow as tf\ntf.saved_model.load(path)",
        "import keras\nkeras.models.load_model(path)",
        "def f():\n    import yaml\n    yaml.load(text)",
    ],
)
def test_that_rule_finds(source):
    assert what_runs_code(source)


def test_mpi_is_never_started_by_an_import():
    """Starting MPI in a process that forks environment workers crashes some MPI libraries."""
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        assert not any("mpi4py" in ast.unparse(node) for node in imports), path


def test_tensorflow_and_tf_keras_are_limited_together():
    """Each minor release of tf-keras needs the one of tensorflow with the same number."""
    tree = ast.parse((PACKAGE.parent / "setup.py").read_text(encoding="utf-8"))
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    names = ("tensorflow", "tf-keras")
    tensorflow, tf_keras = (
        Requirement(text).specifier
        for name in names
        for text in texts
        if re.match(rf"{name}[<>=]", str(text))
    )
    assert tensorflow == tf_keras
    # The limit is the one of the tf-keras that is tested here: with a later one, raise both.
    (needed,) = (Requirement(text).specifier for text in requires("tf-keras"))
    assert {str(each) for each in needed if each.operator == "<"} == {
        str(each) for each in tensorflow if each.operator == "<"
    }


# Phrases of earlier texts, and the English that has replaced them.
REPLACED = {
    r"[Ff]irst weights": "initial weights",
    r"\b[Aa] training\b(?! (run|step|env))": "a training run",
    r"\btrainings\b": "training runs",
    r"(goes|go) on with (it|the run|a run)\b": "continue it",
    r"(training|run) goes on\b": "continues",
    r"\b(made|train|start it) anew": "created, train, start it again",
    r"say that you trust": "confirm that you trust",
    r"[Pp]laying yourself": "play a game yourself",
    r"programs? of yours": "your program",
}


def test_words():
    root = PACKAGE.parent
    for path in [*SOURCES, *(root / "docs").rglob("*.md"), root / "README.md"]:
        text = path.read_text(encoding="utf-8")
        for phrase, better in REPLACED.items():
            found = re.search(phrase, text)
            assert found is None, f"{path}: {found[0]!r}; better: {better}"
