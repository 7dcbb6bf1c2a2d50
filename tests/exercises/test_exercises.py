"""The exercises: solutions are right, wrong answers are refused with the sentence that helps."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from spinup_tf2.exercises.__main__ import EXERCISES, TASKS, main, state
from spinup_tf2.exercises.checking import (
    ANSWERS,
    NotDoneYet,
    Wrong,
    checks_of,
    compare,
    load,
    run,
    solution,
)
from tests.exercises.answers import RIGHT_ANSWERS, WRONG_ANSWERS

DOCS = Path(__file__).parents[2] / "docs"


def task(name):
    return (TASKS / f"{name}.py").read_text(encoding="utf-8")


@pytest.fixture
def verdict(tmp_path):
    """verdict(name, edits): what the checks say of an edited solution; None if it is right."""

    def verdict(name, edits=""):
        path = tmp_path / f"{name}.py"
        path.write_text(solution(name, edits), encoding="utf-8")
        try:
            student = load(name, path)
            for check in checks_of(name).values():
                run(check, student)
        except Wrong as wrong:
            return str(wrong)
        return None

    return verdict


# ---------------------------------------------------------------- right and wrong


@pytest.mark.parametrize("name", EXERCISES)
def test_solutions_and_other_ways_to_write_them_are_right(verdict, name):
    assert {edits: verdict(name, edits) for edits in ["", *RIGHT_ANSWERS[name]]} == dict.fromkeys(
        ["", *RIGHT_ANSWERS[name]]
    )


@pytest.mark.parametrize("name", EXERCISES)
def test_an_unedited_file_is_not_done_yet(name):
    student = load(name, TASKS / f"{name}.py")
    with pytest.raises(NotDoneYet, match="in line"):
        [run(check, student) for check in checks_of(name).values()]


@pytest.mark.parametrize("name", EXERCISES)
def test_wrong_answers_are_told_their_mistake(verdict, name):
    found = {edits: verdict(name, edits) for edits in WRONG_ANSWERS[name]}
    assert {
        edits: found[edits]
        for edits, words in WRONG_ANSWERS[name].items()
        if words not in (found[edits] or "")
    } == {}


@pytest.mark.parametrize("name", [name for name in EXERCISES if name != "init"])
def test_every_mistake_of_the_tables_is_recognized(verdict, monkeypatch, name):
    """Also after the checks before, and the mistakes before it in its table."""
    known = {}

    def noted(student, answer, cases, right, mistakes=None):
        known.update(mistakes or {})

    monkeypatch.setattr(import_module(f"spinup_tf2.exercises.answers.{name}"), "compare", noted)
    assert verdict(name) is None
    monkeypatch.undo()
    assert len(known) > 8
    monkeypatch.setattr("spinup_tf2.exercises.answers.ranks._NUM_ENVS", 20)  # is faster
    told = {sentence: (verdict(name, edits) or "") for sentence, edits in known.items()}
    assert {key: text for key, text in told.items() if text.partition("\n")[0] != key} == {}


@pytest.mark.parametrize("name", EXERCISES)
def test_task_and_solution_ask_for_the_same(name):
    """The same functions and methods, with the same arguments."""

    def signatures(text):
        functions = [
            node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)
        ]
        return [(each.name, [arg.arg for arg in each.args.args]) for each in functions]

    assert signatures(task(name)) == signatures(solution(name))


# ---------------------------------------------------------------- the frame


def test_a_mistake_is_named_only_if_it_explains_all_cases():
    cases = {"one": (1.0,), "two": (2.0,)}
    student = load("cg", ANSWERS / "cg.py")

    def verdict(answer):
        def of_module(module, x):  # the mistake returns -1
            return (
                answer(x)
                if module is student
                else -module.conjugate_gradient(abs, np.eye(1)[0], 1)[0]
            )

        with pytest.raises(Wrong) as wrong:
            compare(
                student, of_module, cases, lambda x: 2 * x, {"It is -1.": "return x => return x"}
            )
        return str(wrong.value)

    assert verdict(lambda x: -1) == "It is -1.\nIn the case 'one' the result is -1; it should be 2."
    assert verdict(lambda x: -x) == "In the case 'one' the result is -1; it should be 2."
    assert verdict(lambda x: 2 * x * x) == "In the case 'two' the result is 8; it should be 4."
    assert verdict(lambda x: [2 * x]) == "In the case 'one' the shape is [1]; it should be []."
    assert verdict(lambda x: "much").startswith("Numbers are expected; str is returned.")


def test_students_may_write_into_their_arguments():
    def answer(_, x):
        x += 1
        return x

    array = np.zeros(2)
    compare(None, answer, {"zeros": (array,), "the same": (array,)}, lambda x: x + 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no `gae`"),
        ("def gae(:", "Line 1 is not Python yet"),
        ("import nothing_of_this_name", "cannot be imported: ModuleNotFoundError"),
        ("def gae(*args):\n    return args[0] + missing", "Line 2, `return args[0] + missing`"),
        ("def gae(rew):\n    return rew", "cannot be used: TypeError"),
    ],
)
def test_a_file_that_does_not_work_is_told_why(tmp_path, capsys, text, words):
    (tmp_path / "gae.py").write_text(text)
    assert main(["gae", "--file", str(tmp_path)]) == 1
    assert words in capsys.readouterr().out


# ---------------------------------------------------------------- the command line


def test_a_student_at_work(tmp_path, capsys):
    folder = tmp_path / "mine"
    assert main(["--copy", str(folder)]) == 0
    assert {path.name for path in folder.iterdir()} == {f"{name}.py" for name in EXERCISES}
    backup = folder / "backup.py"
    assert state(backup) == "to do"
    assert main(["backup", "--file", str(folder)]) == 1
    assert "backup: not done yet" in capsys.readouterr().out

    # One of its two functions is written.
    half = task("backup").replace("raise NotImplementedError", "return rew", 1)
    backup.write_text(half, encoding="utf-8")
    assert state(backup) == "begun"

    backup.write_text(solution("backup", "final_obs, obs) => obs, obs)"), encoding="utf-8")
    assert main(["backup", "--file", str(backup)]) == 1
    out = capsys.readouterr().out
    assert "not right yet. the next observation:\nThese are the observations after the reset" in out
    assert "Right so far: bellman backup." in out
    assert state(backup) == "begun"

    backup.write_text(solution("backup"), encoding="utf-8")
    assert main(["backup", "--file", str(folder)]) == 0
    assert capsys.readouterr().out == (
        "backup: right (bellman backup, next observation).\n"
        "Next: gaussian. The log-likelihood of a diagonal Gaussian\n"
    )
    assert state(backup) == "right"
    assert main(["--file", str(folder)]) == 0
    lines = [re.split("  +", line.strip()) for line in capsys.readouterr().out.splitlines()]
    assert [line[0].split()[1] for line in lines[: len(EXERCISES)]] == [*EXERCISES]
    assert [line[1] for line in lines[: len(EXERCISES)]] == [
        "right",
        *["to do"] * (len(EXERCISES) - 1),
    ]
    backup.write_text(solution("backup") + "# and on\n", encoding="utf-8")
    assert state(backup) == "begun"
    # Several at a time are right if all of them are.
    assert main(["backup", "cg", "--file", str(folder)]) == 1


def test_a_student_in_the_folder_of_the_copies_need_not_name_it(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["gae"]) == 1  # the file of the package
    assert "copy them: python -m spinup_tf2.exercises --copy exercises" in capsys.readouterr().out
    assert main(["gae", "--copy", "exercises"]) == 0
    assert capsys.readouterr().out.endswith("python -m spinup_tf2.exercises gae\n")
    Path("exercises", "gae.py").write_text(solution("gae"), encoding="utf-8")
    assert main(["gae"]) == 0
    assert main(["cg"]) == 1  # which has not been copied
    assert str(TASKS) in capsys.readouterr().out
    assert main([]) == 0
    out = capsys.readouterr().out
    assert "gae          right" in out
    assert "clip         no file" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gea"], "did you mean gae?"),
        (["gae", "--file", "nowhere"], "--copy nowhere"),
        (["--file", "here.py"], "say which exercise it is"),
        (["clip", "--file", "."], "there is no file clip.py"),
        (["gae", "--file", "text.txt"], "should end in .py"),
        (["gae", "--copy", "."], "holds gae.py already"),
        (["gae", "--copy", "here.py"], "cannot be copied to here.py (File exists)"),
    ],
)
def test_arguments_that_cannot_be_understood(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    for name in ("here.py", "gae.py", "text.txt"):
        (tmp_path / name).touch()
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert words in err


def test_what_is_needed_only_is_imported():
    """The list and --help need no TensorFlow, nor does an exercise in NumPy; exit statuses."""
    program = (
        "import sys; from spinup_tf2.exercises.__main__ import main; main([]); "
        "main(['gae', '--solution']); print('tensorflow' in sys.modules); "
        "sys.exit(main(['cg', '--file', sys.argv[1]]) + 3)"
    )
    command = [sys.executable, "-c", program, str(TASKS)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "gae: right (advantages).\nFalse\ncg: not done yet." in done.stdout, done.stderr
    assert done.returncode == 4


def test_the_docs_list_the_exercises_in_the_order_of_the_chapters_that_set_them():
    index = (DOCS / "course" / "index.md").read_text(encoding="utf-8")
    chapters = re.findall(r"^\| \[.*?\]\((\w+)\.md\) \|", index, re.MULTILINE)
    assert len(chapters) == 7
    set_in = {name: [] for name in EXERCISES}
    for number, chapter in enumerate(chapters, 1):
        page = (DOCS / "course" / f"{chapter}.md").read_text(encoding="utf-8")
        names = re.findall(r"^python -m spinup_tf2\.exercises (\w+)$", page, re.MULTILINE)
        for name in names:
            set_in[name].append(number)
    assert [*EXERCISES] == sorted(EXERCISES, key=lambda name: set_in[name][0])

    page = (DOCS / "exercises.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| `(\w+)` \| ([\d, ]+) \|", page, re.MULTILINE)
    assert table == [(name, ", ".join(map(str, set_in[name]))) for name in EXERCISES]
    assert {*re.findall(r"^- `(--\w+)", page, re.MULTILINE)} == {"--file", "--solution", "--copy"}
