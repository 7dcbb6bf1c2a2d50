"""The exercises: solutions are right, wrong answers are refused with the sentence that helps."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from spinup_tf2.exercises.__main__ import main
from spinup_tf2.exercises.catalogue import EXERCISES, SOLUTIONS, TASKS, checks_of, load, state
from spinup_tf2.exercises.checking import NotDoneYet, Wrong, compare, run
from tests.exercises.answers import RIGHT_ANSWERS, WRONG_ANSWERS

DOCS = Path(__file__).parents[2] / "docs"


def check(name, path):
    student = load(path)
    for each in checks_of(name):
        run(each, student)


def text_of(folder, name):
    return (folder / f"{name}.py").read_text(encoding="utf-8")


# ---------------------------------------------------------------- right and wrong


@pytest.mark.parametrize("name", EXERCISES)
def test_a_solution_is_right(name):
    check(name, SOLUTIONS / f"{name}.py")


@pytest.mark.parametrize("name", EXERCISES)
def test_an_unedited_file_is_not_done_yet(name):
    with pytest.raises(NotDoneYet, match="in line"):
        check(name, TASKS / f"{name}.py")


def cases(table):
    return [
        pytest.param(name, *answer, id=f"{name}-{number}")
        for name, answers in table.items()
        for number, answer in enumerate(answers)
    ]


@pytest.fixture
def check_answer(tmp_path):
    """Checks a solution in which a piece has been replaced."""

    def check_edited(name, piece, instead):
        solution = text_of(SOLUTIONS, name)
        assert piece in solution
        path = tmp_path / f"{name}.py"
        path.write_text(solution.replace(piece, instead), encoding="utf-8")
        check(name, path)

    return check_edited


@pytest.mark.parametrize(("name", "piece", "instead", "words"), cases(WRONG_ANSWERS))
def test_a_wrong_answer_is_told_its_mistake(check_answer, name, piece, instead, words):
    with pytest.raises(Wrong) as wrong:
        check_answer(name, piece, instead)
    assert words in str(wrong.value)


@pytest.mark.parametrize(("name", "piece", "instead"), cases(RIGHT_ANSWERS))
def test_other_ways_to_write_it_are_right(check_answer, name, piece, instead):
    check_answer(name, piece, instead)


def test_every_exercise_has_its_files_and_at_least_three_wrong_answers():
    for folder in (TASKS, SOLUTIONS, TASKS.parent / "checks"):
        assert {path.stem for path in folder.glob("[!_]*.py")} == {*EXERCISES}
    assert {*WRONG_ANSWERS} == {*EXERCISES}
    assert min(map(len, WRONG_ANSWERS.values())) >= 3


@pytest.mark.parametrize("name", EXERCISES)
def test_task_and_solution_ask_for_the_same(name):
    """The same functions and methods, with the same arguments."""

    def signatures(folder):
        tree = ast.parse(text_of(folder, name))
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        return [(each.name, ast.unparse(each.args)) for each in functions]

    assert signatures(TASKS) == signatures(SOLUTIONS)


# ---------------------------------------------------------------- the frame


def test_a_mistake_is_named_only_if_it_explains_all_cases():
    cases = {"one": (1.0,), "two": (2.0,)}

    def verdict(answer):
        mistakes = {"You add 1.": lambda x: x + 1, "You double twice.": lambda x: 4 * x}
        with pytest.raises(Wrong) as wrong:
            compare(answer, cases, lambda x: 2 * x, mistakes)
        return str(wrong.value)

    # 1 + 1 is right, and 2 + 1 is not.
    assert verdict(lambda x: x + 1) == (
        "You add 1.\nIn the case 'two' the result is 3; it should be 4."
    )
    assert verdict(lambda x: 4 * x).startswith("You double twice.")
    assert verdict(lambda x: 2 * x * x) == "In the case 'two' the result is 8; it should be 4."
    assert verdict(lambda x: [2 * x]) == "In the case 'one' the shape is [1]; it should be []."
    assert verdict(lambda x: "much").startswith("Numbers are expected; str is returned.")
    compare(lambda x: x + x, cases, lambda x: 2 * x, {})


def test_students_may_write_into_their_arguments():
    def answer(x):
        x += 1
        return x

    array = np.zeros(2)
    compare(answer, {"zeros": (array,), "the same": (array,)}, lambda x: x + 1, {})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no `gae`"),
        ("def gae(:", "Line 1 is not Python yet"),
        ("import nothing_of_this_name", "cannot be imported: ModuleNotFoundError"),
        ("def gae(*args):\n    return args[0] + missing", "Line 2, `return args[0] + missing`"),
        ("def gae(rew):\n    return rew", "cannot be used: TypeError"),
        ("def gae(*args):\n    pass", "Is a `return` missing?"),
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
    half = text_of(TASKS, "backup").replace("raise NotImplementedError", "return rew", 1)
    backup.write_text(half, encoding="utf-8")
    assert state(backup) == "begun"

    solution = text_of(SOLUTIONS, "backup")
    backup.write_text(solution.replace("final_obs, obs)", "obs, obs)"), encoding="utf-8")
    assert main(["backup", "--file", str(backup)]) == 1
    out = capsys.readouterr().out
    assert "not right yet. the next observation:\nThese are the observations after the reset" in out
    assert "Right so far: bellman backup." in out
    assert state(backup) == "begun"

    backup.write_text(solution, encoding="utf-8")
    assert main(["backup", "--file", str(folder)]) == 0
    assert capsys.readouterr().out == (
        "backup: right (bellman backup, next observation).\n"
        "Next: gaussian. The log-likelihood of a diagonal Gaussian\n"
    )
    assert state(backup) == "right"
    backup.write_text(solution + "# and on\n", encoding="utf-8")
    assert state(backup) == "begun"

    # Several at a time are right if all of them are.
    assert main(["backup", "cg", "--file", str(folder)]) == 1


def test_a_student_in_the_folder_of_the_copies_need_not_name_it(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["gae"]) == 1  # the file of the package
    assert "copy them: python -m spinup_tf2.exercises --copy exercises" in capsys.readouterr().out
    assert main(["gae", "--copy", "exercises"]) == 0
    assert capsys.readouterr().out.endswith("python -m spinup_tf2.exercises gae\n")
    Path("exercises", "gae.py").write_text(text_of(SOLUTIONS, "gae"), encoding="utf-8")
    assert main(["gae"]) == 0
    assert main(["cg"]) == 1  # which has not been copied
    assert str(TASKS) in capsys.readouterr().out
    assert main([]) == 0
    assert "gae          right" in capsys.readouterr().out


def test_the_list_says_what_is_done(tmp_path, capsys):
    main(["gae", "cg", "--copy", str(tmp_path)])
    (tmp_path / "cg.py").write_text(text_of(SOLUTIONS, "cg"), encoding="utf-8")
    main(["cg", "--file", str(tmp_path)])
    capsys.readouterr()
    assert main(["--file", str(tmp_path)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[: len(EXERCISES)]]
    states = {line[1]: line[2] for line in lines}
    assert (states["gae"], states["cg"], states["clip"]) == ("to", "right", "no")
    assert [line[1] for line in lines] == [*EXERCISES]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gea"], "did you mean gae?"),
        (["gae", "--file", "nowhere"], "--copy nowhere"),
        (["--file", "here.py"], "say which exercise it is"),
        (["clip", "--file", "."], "there is no file clip.py"),
        (["gae", "--file", "text.txt"], "should end in .py"),
        (["here", "--copy", "."], "not an exercise"),
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
        "main(['gae', '--solution']); print('tensorflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines()[-2:] == ["gae: right (advantages).", "False"], done.stderr

    def status(*arguments):
        command = [sys.executable, "-m", "spinup_tf2.exercises", *arguments]
        return subprocess.run(command, capture_output=True).returncode

    assert status("cg", "--solution") == 0
    assert status("cg", "--file", str(TASKS)) == 1
    assert status("no_such_exercise") == 2


def test_the_docs_list_the_exercises_in_their_order_and_explain_the_options():
    page = (DOCS / "exercises.rst").read_text(encoding="utf-8")
    table = page.partition("What the first weights do")[0]
    assert re.findall(r"^   \* - ``(\w+)``$", table, re.MULTILINE) == [*EXERCISES]
    assert {*re.findall(r"^``(--\w+)", page, re.MULTILINE)} == {"--file", "--solution", "--copy"}


def test_they_come_in_the_order_of_the_chapters_that_set_them():
    index = (DOCS / "course" / "index.rst").read_text(encoding="utf-8")
    chapters = re.findall(r"^   \* - :doc:`(\w+)`$", index, re.MULTILINE)
    assert len(chapters) == 7
    set_in = {name: [] for name in EXERCISES}
    for number, chapter in enumerate(chapters, 1):
        page = (DOCS / "course" / f"{chapter}.rst").read_text(encoding="utf-8")
        names = re.findall(r"^   python -m spinup_tf2\.exercises (\w+)$", page, re.MULTILINE)
        for name in names:
            set_in[name].append(number)
    assert [*EXERCISES] == sorted(EXERCISES, key=lambda name: set_in[name][0])

    page = (DOCS / "exercises.rst").read_text(encoding="utf-8")
    table = re.findall(r"^   \* - ``(\w+)``\n     - ([\d, ]+)$", page, re.MULTILINE)
    assert dict(table) == {name: ", ".join(map(str, set_in[name])) for name in EXERCISES}
