"""The docs: they can be built, their examples run, and what they should explain is in them."""

import argparse
import ast
import inspect
import os
import re
import shlex
import subprocess
import sys
import textwrap
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import spinup_tf2
from spinup_tf2.algos import ALGORITHMS
from spinup_tf2.arguments.checks import PYTHON_ONLY
from spinup_tf2.arguments.rules import ACTIVATIONS
from spinup_tf2.arguments.signatures import read_signature
from spinup_tf2.cli import evaluate, export, play, test_policy
from spinup_tf2.cli.flags import RUN_KEYS, SUBSTITUTIONS, check_names, parse_flags
from spinup_tf2.results import ls, plot
from tests import off_policy_runs
from tests import on_policy_runs as runs
from tests.algos.test_contract import CASES

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
EXAMPLES = DOCS / "examples"

MARIO = find_spec("gym_super_mario_bros") is not None
QUADRUPED = find_spec("pybullet") is not None

PAGES = sorted(path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md"))

OFF_POLICY = [algorithm.__name__ for algorithm in off_policy_runs.OFF_POLICY]


def page(name):
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def literals(name):
    """What a page shows as code: `--env ID` is there as `--env` and as `ID`."""
    text = re.sub(r"^ *```.*?^ *```$", "", page(name), flags=re.MULTILINE | re.DOTALL)
    return {word for code in re.findall(r"`([^`]+)`", text) for word in code.split()}


def options(parser):
    return [
        option
        for action in parser._actions
        if not isinstance(action, argparse._HelpAction)
        for option in action.option_strings or [action.dest]
    ]


# ---------------------------------------------------------------- what must be explained


def test_every_flag_of_the_command_line_is_explained():
    flags = [*RUN_KEYS, *SUBSTITUTIONS, "exp_name", "env_name", "debug"]
    for algorithm in ALGORITHMS:
        parameters = inspect.signature(getattr(spinup_tf2, algorithm)).parameters
        flags += [name for name in parameters if name not in PYTHON_ONLY]
    assert {f"--{name}" for name in flags} <= literals("running")
    assert {*ACTIVATIONS} <= literals("running")


@pytest.mark.parametrize(
    ("name", "module"),
    [
        *[("plotting", plot), ("outputs", ls), ("outputs", test_policy), ("outputs", evaluate)],
        *[("exporting", export), ("playing", play)],
    ],
    ids=["plot", "ls", "test_policy", "evaluate", "export", "play"],
)
def test_every_flag_of_the_utilities_is_explained(name, module):
    parser = module._parser()
    expected = {option for option in options(parser) if option not in ("fpath", "directory")}
    assert expected <= {word.rstrip(",") for word in literals(name)}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_argument_has_its_meaning_on_the_page_of_the_algorithm(algorithm):
    doc = read_signature(f"spinup_tf2.algos.{algorithm}", algorithm).doc
    for name in inspect.signature(getattr(spinup_tf2, algorithm)).parameters:
        assert re.search(rf"^    {name}( \(.*\))?: ", doc, re.MULTILINE), name
    assert f".. autofunction:: spinup_tf2.{algorithm}\n" in page(f"algorithms/{algorithm}")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_column_is_explained(algorithm):
    """Of those that runs have, as tests/algos/test_contract.py shows."""
    module = off_policy_runs if algorithm in OFF_POLICY else runs
    columns = [*module.COLUMNS, *CASES[algorithm][-1].split(), "Time"]
    own = page(f"algorithms/{algorithm}").partition("Logged columns")[2]
    family = "off_policy" if algorithm in OFF_POLICY else "on_policy"
    common = page(f"algorithms/{family}").partition("Common columns")[2]
    tables = own.partition("What to look at")[0] + common.partition("Differences")[0]
    for column in columns:
        assert re.search(rf"^\| [^|]*`{column}`", tables, re.MULTILINE), column


@pytest.mark.saved_model
def test_every_file_of_a_run_is_explained(tmp_path):
    files = page("outputs").partition("The files of a run")[2].partition("\n## Watching")[0]
    runs.train(spinup_tf2.vpg, tmp_path, epochs=1)
    for path in tmp_path.rglob("*"):
        if path.parent.name != "variables":  # TensorFlow's own names for its pieces
            assert path.name + "/" * path.is_dir() in files, path.relative_to(tmp_path)


def test_every_paper_that_is_cited_is_in_the_list_of_literature():
    papers = {name: {*re.findall(r"arxiv\.org/abs/[\d.]+\d", page(name))} for name in PAGES}
    listed = papers.pop("papers")
    assert set().union(*papers.values()) <= listed


def test_every_page_is_in_the_map():
    shown = set(re.findall(r"\]\(([\w/]+)\.md\)", page("index")))
    assert {*PAGES} - {"index"} == shown


def plain(text):
    """A page without its code and comments, in which nothing is a link for a repository browser."""
    text = re.sub(r"^ *```.*?^ *```$|<!--.*?-->", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`]*`", lambda code: re.sub(r"[^\w\s.-]", "", code[0]), text)


def anchors(path):
    """What repository browsers call the headings of a page."""
    names = []
    for title in re.findall(r"^#+ (.*)$", plain(path.read_text(encoding="utf-8")), re.MULTILINE):
        slug = re.sub(r"[^\w -]", "", re.sub(r"\]\(.*?\)", "", title).lower()).replace(" ", "-")
        names.append(f"{slug}-{names.count(slug)}" if slug in names else slug)
    return names


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere_in_a_repository_browser(name):
    path, text = DOCS / f"{name}.md", plain(page(name))
    targets = re.findall(r"\]\((.+?)\)", text) + re.findall(r' src="(.+?)"', text)
    for target in targets:
        if not target.startswith("http"):
            file, _, anchor = target.partition("#")
            linked = path.parent / file if file else path
            assert linked.exists(), target
            assert not anchor or anchor in anchors(linked), target


@pytest.mark.parametrize("name", PAGES)
def test_no_page_shows_markup_to_a_repository_browser(name):
    """Roles, directives and admonitions would stand there as they are written."""
    text = re.sub(r"<!--.*?-->", "", page(name), flags=re.DOTALL)
    assert re.findall(r"\{\w+\}`|:\w+:`|^ *(?:```|:::)\{.*|``\w.*``", text, re.MULTILINE) == []
    assert r"\operatorname" not in text  # GitHub draws no formula with it; \mathrm is allowed
    for formula in re.findall(r"^\$\$\n(.*?)\$\$$", text, re.MULTILINE | re.DOTALL):
        assert re.findall(r"^ *[-+*>#] ", formula, re.MULTILINE) == []  # no list, no heading


# ---------------------------------------------------------------- the API


def own_names(path):
    """What a module offers: its `__all__`; in `utils`, what it defines and hands on."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    if any("__all__" in ast.unparse(node).partition("=")[0] for node in tree.body):
        return {(module, name) for name in import_module(module).__all__}
    defined = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    names = [node.name for node in defined if not node.name.startswith("_")]
    imported = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    names += [each.name for node in imported for each in node.names if each.name != "main"]
    return {(module, name) for name in names if path.parent.name == "utils"}


def shown_names():
    """What the README and these pages import from the package, or have an entry for."""
    of_docs = [each for ext in ("md", "ipynb") for each in DOCS.rglob(f"*.{ext}")]
    texts = {path: path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *of_docs]}
    scripts = [*EXAMPLES.glob("*.py"), *(DOCS / "course").glob("*.py")]
    texts |= {path: path.read_text(encoding="utf-8") for path in scripts}
    for path, text in texts.items():
        for module, names in re.findall(r"\bfrom (spinup_tf2[\w.]*) import (\w+(?:, \w+)*)", text):
            yield from ((module, name) for name in names.split(", "))
        if path.name != "internals.md":
            entry = r"^\.\. auto(?:function|class|exception|data):: ([\w.]+)\.(\w+)$"
            yield from re.findall(entry, text, re.MULTILINE)


def test_every_public_name_is_on_the_page_of_the_api():
    rows = re.findall(r"^\| \[`(\w+)`\]\(\S*\) \| `([\w.]+)` \|", page("api"), re.MULTILINE)
    assert len(rows) == len({*rows}) == page("api").count("\n| [")
    listed = {name: [] for name, _ in rows}
    for name, module in rows:
        listed[name].append(getattr(import_module(module), name))
    public = {*shown_names()}.union(*map(own_names, (ROOT / "spinup_tf2").rglob("*.py")))
    assert len(public) > 100
    for module, name in sorted(public):
        value = getattr(import_module(module), name)
        if inspect.ismodule(value):
            continue  # with which a script draws
        assert any(value is each for each in listed.get(name, [])), f"{module}.{name}"


# ---------------------------------------------------------------- examples and building


def test_every_example_is_shown():
    text = "".join(path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md"))
    for path in EXAMPLES.glob("*.py"):
        shown = rf"{{literalinclude}} (\.\./)?examples/{path.name}$"
        assert re.search(shown, text, re.MULTILINE), path


COMMANDED = ROOT / "data" / "quadruped-command" / "quadruped-command_s0"
RUN = "data/train/train_s0"
PPO_IN = "-m spinup_tf2.run ppo --epochs 1 --steps_per_epoch 400 --quiet --env"

# In the order of the docs, in which some use what others have trained.
EXAMPLE_COMMANDS = {
    "one run": [
        "train.py",
        f"evaluate.py {RUN}",
        f"act.py {RUN}/tf2_save",
        f"saved_model.py {RUN}/tf2_save",
    ],
    "resume": ["resume.py 1", "resume.py 2"],
    "callbacks": ["callbacks.py"],
    "tuning": ["tune.py"],
    "grids": ["experiment.py", "grid.py", "curves.py"],
    "networks": ["own_network.py"],
    "rebuilt": [
        "train_wide.py",
        "-m spinup_tf2.run test_policy data/wide/wide_s0 -nr -n 1 --import wide_networks",
    ],
    "presets": ["preset.py"],
    "quadruped": ["quadruped_trot.py", f"quadruped_paths.py {COMMANDED} paths.svg"],
    "q-functions": ["own_q_network.py", "saved_q.py data/own_q_network/own_q_network_s0/tf2_save"],
    "own algorithms": [
        "-m spinup_tf2.run random_agent:random_agent --env CartPole-v1 --episodes 1 2 --quiet",
        "-m spinup_tf2.run reinforce:reinforce --env CartPole-v1 --epochs 1 --quiet",
    ],
    "acting": ["own_function.py", "demonstrations.py"],
    "environments": [
        f"{PPO_IN} half_reward:HalfReward-v0 --exp_name half",
        f"{PPO_IN} corridor:Corridor-v0 --env_kwargs:length 12 --exp_name corridor",
        f"{PPO_IN} record_first:RecordedCartPole-v1 --exp_name recorded",
        f"{PPO_IN} hidden_velocities:HiddenCartPole-v1 --exp_name hidden --ac_kwargs:memory gru",
    ],
}


def test_every_example_is_run():
    commands = " ".join(line for lines in EXAMPLE_COMMANDS.values() for line in lines)
    for path in EXAMPLES.glob("*.py"):
        # What needs a changed copy of a module: tests/core/test_worked_example.py.
        assert path.stem in commands or path.stem == "baselines", path.name


@pytest.mark.commands
@pytest.mark.parametrize("name", EXAMPLE_COMMANDS)
def test_examples_run(tmp_path, name):
    if not dict(presets=MARIO, quadruped=QUADRUPED).get(name, True):
        pytest.skip("needs an extra that is not installed")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(EXAMPLES)]),
        "SPINUP_TF2_DATA_DIR": "data",
    }
    for line in EXAMPLE_COMMANDS[name]:
        name, *arguments = line.split()
        script = [name] if name == "-m" else [str(EXAMPLES / name)]
        done = subprocess.run(
            [sys.executable, *script, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


def blocks(name, language):
    """The texts of a page's code blocks in a language."""
    pattern = rf"^( *)```{language}\n(.*?)^\1```$"
    found = re.findall(pattern, page(name), re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(text) for _, text in found]


@pytest.mark.parametrize("name", PAGES)
def test_every_flag_of_a_training_that_is_shown_exists(name):
    for command in "".join(blocks(name, "bash")).replace("\\\n", " ").splitlines():
        words = shlex.split(command, comments=True)
        if "spinup_tf2.run" not in words:
            continue
        algorithm, *arguments = words[words.index("spinup_tf2.run") + 1 :]
        if algorithm in ALGORITHMS and "--help" not in arguments:
            arguments = [
                argument for argument in arguments if argument not in ("--debug", ";", "&")
            ]
            check_names(algorithm, parse_flags(arguments)[0])


@pytest.mark.mario
@pytest.mark.skipif(not MARIO, reason="needs the mario extra")
def test_the_programs_on_the_page_of_super_mario_run(capsys):
    printed = []
    for program in blocks("environments/mario", "python"):
        exec(program, {})
        printed.append(capsys.readouterr().out.strip())
    # The other blocks show what training and benchmarks have printed.
    shown = [text.strip() for text in blocks("environments/mario", "text")]
    assert {*shown} & {*printed}


@pytest.mark.slow
def test_docs_build_without_warnings(tmp_path):
    for name in ("sphinx", "furo", "myst_parser", "ziamath"):
        pytest.importorskip(name, reason='building the docs needs: pip install ".[docs]"')
    done = subprocess.run(
        [
            *(sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"),
            *(str(DOCS), str(tmp_path / "html"), "-d", str(tmp_path / "doctrees")),
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stderr == ""  # nothing of TensorFlow's, whose modules are imported
    assert (tmp_path / "html" / "index.html").exists()
    # Whoever reads them needs no network, not even for formulas.
    for path in (tmp_path / "html").rglob("*.html"):
        from_elsewhere = r'<(script|img|link rel="stylesheet")[^>]* (src|href)="(https?:)?//'
        assert not re.search(from_elsewhere, path.read_text(encoding="utf-8")), path
        assert 'fill="black"' not in path.read_text(encoding="utf-8"), path  # lost in dark mode
    first = (tmp_path / "html" / "index.html").read_text(encoding="utf-8")
    assert first.count('"toctree-l2"') > 10  # pages below other pages in the navigation
    formulas = (tmp_path / "html" / "algorithms" / "sac.html").read_text(encoding="utf-8")
    assert formulas.count('role="img"') > 30
