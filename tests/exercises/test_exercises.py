"""The exercises: solutions are right, wrong answers are refused with the sentence that helps."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from spinup_tf2.exercises.__main__ import EXERCISES, main, state
from spinup_tf2.exercises.checking import (
    ANSWERS,
    NotDoneYet,
    Wrong,
    checks_of,
    compare,
    load,
    run,
    solution,
    task,
)
from tests.exercises.answers import RIGHT_ANSWERS, WRONG_ANSWERS

DOCS = Path(__file__).parents[2] / "docs"


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


@pytest.fixture(autouse=True)
def _few_seeds(monkeypatch):
    monkeypatch.setattr("spinup_tf2.exercises.answers.ranks._NUM_ENVS", 200)  # is faster


# ---------------------------------------------------------------- right and wrong


@pytest.mark.parametrize("name", EXERCISES)
def test_solutions_and_other_ways_to_write_them_are_right(verdict, name):
    assert {edits: verdict(name, edits) for edits in ["", *RIGHT_ANSWERS[name]]} == dict.fromkeys(
        ["", *RIGHT_ANSWERS[name]]
    )


@pytest.mark.parametrize("name", EXERCISES)
def test_an_unedited_file_is_not_done_yet(tmp_path, name):
    path = tmp_path / f"{name}.py"
    path.write_text(task(name), encoding="utf-8")
    with pytest.raises(NotDoneYet, match="in line"):
        [run(check, load(name, path)) for check in checks_of(name).values()]


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

    with monkeypatch.context() as patch:
        patch.setattr(import_module(f"spinup_tf2.exercises.answers.{name}"), "compare", noted)
        assert verdict(name) is None
    assert len(known) > 4
    told = {sentence: (verdict(name, edits) or "") for sentence, edits in known.items()}
    assert {key: text for key, text in told.items() if text.partition("\n")[0] != key} == {}


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


def test_a_student_at_work(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["--copy", "exercises"]) == 0
    assert capsys.readouterr().out.endswith("python -m spinup_tf2.exercises backup\n")
    backup = Path("exercises", "backup.py")
    assert {path.stem for path in backup.parent.iterdir()} == {*EXERCISES}
    assert state("backup", backup) == "to do"
    assert main(["backup"]) == 1
    assert "backup: not done yet" in capsys.readouterr().out

    backup.write_text(solution("backup", "final_obs, obs) => obs, obs)"), encoding="utf-8")
    assert main(["backup", "--file", str(backup)]) == 1
    out = capsys.readouterr().out
    assert "not right yet. the next observation:\nThese are the observations after the reset" in out
    assert "Right so far: bellman backup." in out
    assert state("backup", backup) == "begun"

    backup.write_text(solution("backup"), encoding="utf-8")
    assert main(["backup", "--file", "exercises"]) == 0
    assert capsys.readouterr().out == (
        "backup: right (bellman backup, next observation).\n"
        "Next: gaussian. The log-likelihood of a diagonal Gaussian\n"
    )
    Path("exercises", "repeat.py").unlink()
    assert main([]) == 0
    lines = [re.split("  +", line.strip()) for line in capsys.readouterr().out.splitlines()]
    lines = lines[: len(EXERCISES)]
    assert [line[0].split()[1] for line in lines] == [*EXERCISES]
    assert [line[1] for line in lines] == ["right", *["to do"] * (len(lines) - 2), "no file"]
    backup.write_text(solution("backup") + "# and on\n", encoding="utf-8")
    assert state("backup", backup) == "begun"
    # Several at a time are right if all of them are.
    assert main(["backup", "cg"]) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gea"], "did you mean gae?"),
        (["gae", "--file", "nowhere"], "there is no file nowhere/gae.py; `--copy"),
        (["gae", "--copy", "."], "holds gae.py already"),
    ],
)
def test_arguments_that_cannot_be_understood(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    Path("gae.py").touch()
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert words in err


def test_what_is_needed_only_is_imported():
    """The list and --help need no TensorFlow, nor does an exercise in NumPy."""
    program = (
        "import sys; from spinup_tf2.exercises.__main__ import main; main([]); "
        "main(['gae', '--solution']); print('tensorflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "gae: right (advantages).\nFalse\n" in done.stdout, done.stderr
