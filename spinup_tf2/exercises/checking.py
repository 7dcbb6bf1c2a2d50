"""Compares a student's answer with the right one, and with common mistakes."""

from __future__ import annotations

import copy
import inspect
import re
import traceback
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.abc import ExecutionLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from spinup_tf2.errors import UserError, kind_and_line

ANSWERS = Path(__file__).parent / "answers"


class Wrong(Exception):
    """Raised if an answer is wrong; the message says how."""


class NotDoneYet(Exception):
    """Raised if a function, which the message names, has not been completed."""


def load(name: str, path: Path) -> ModuleType:
    """Run the student's file of an exercise as a module with the exercise's name.

    Raises:
        UserError: There is no such file.
        Wrong: It cannot be imported.
    """
    if not path.is_file():
        raise UserError(
            f"there is no file {path}; `--copy DIR` makes files to be edited, of all exercises."
        )
    try:
        return _module(name, path.read_text(encoding="utf-8"), str(path.resolve()))
    except SyntaxError as error:
        raise Wrong(f"Line {error.lineno} is not Python yet: {error.msg}") from error
    except Exception as error:
        raise Wrong(f"It cannot be imported: {kind_and_line(error)}") from error


class _Text(ExecutionLoader):
    """Loads a module from a text, and writes no bytecode beside its file."""

    def __init__(self, text, file):
        self._text, self._file = text, file

    def get_source(self, fullname):
        return self._text

    def get_filename(self, fullname):
        return self._file


def _module(name, text, file):
    spec = spec_from_loader(name, _Text(text, file))
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def solution(name: str, edits: str = "") -> str:
    """Return the text of a solution, the upper part of its file, with edits.

    Args:
        name: The exercise.
        edits: Lines "piece => instead"; each piece is replaced wherever it occurs.
    """
    text, _, _ = (ANSWERS / f"{name}.py").read_text(encoding="utf-8").partition("\n\n\n# ---")
    text = re.sub(r"\n\n(from spinup_tf2\.[^(\n]*(\([^)]*\))?\n)+", "\n", text)
    for edit in edits.splitlines():
        piece, instead = edit.split(" => ")
        if piece not in text:
            raise LookupError(f"the solution of {name} has no {piece!r}")
        text = text.replace(piece, instead)
    return text + "\n"


def task(name: str) -> str:
    """Return what the student completes: the solution with gaps, from "# answer" to a blank line.

    In the exercise `bug` the other functions have the bug.
    """
    text = solution(name, "[:, 0] => " if name == "bug" else "")
    return re.sub(r"# answer\n(?: .*\n)*", "raise NotImplementedError\n", text)


def checks_of(name: str) -> dict[str, Callable[[ModuleType], None]]:
    """Return an exercise's checks, which raise Wrong, in their order and by what they look at.

    They are the functions called check_... below the solution.
    """
    found = vars(import_module(f"spinup_tf2.exercises.answers.{name}")).items()
    return {
        key.removeprefix("check_").replace("_", " "): function
        for key, function in found
        if key.startswith("check_")
    }


def run(check: Callable[[ModuleType], None], student: ModuleType) -> None:
    """Run one check on the student's module.

    Raises:
        NotDoneYet: A function of the student still raises NotImplementedError.
        Wrong: The check finds a mistake, or the student's code raises an exception.
    """
    try:
        check(student)
    except Wrong:
        raise
    except Exception as error:
        raise _explained(error, student) from error


def _explained(error, student):
    """Convert an exception in a check to one that explains it to the student."""
    if isinstance(error, AttributeError) and getattr(error, "obj", None) is student:
        return Wrong(f"The file has no `{error.name}`, which is what is checked.")
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == student.__file__]
    if isinstance(error, NotImplementedError) and frames[-1] in own:
        return NotDoneYet(f"`{frames[-1].name}` in line {frames[-1].lineno}")
    said = type(error).__name__ + "".join(f": {line}" for line in str(error).splitlines()[:1])
    if not own:
        return Wrong(f"What the file gives cannot be used: {said}")
    return Wrong(f"Line {own[-1].lineno}, `{own[-1].line}`, raises {said}")


# ---------------------------------------------------------------- what checks are made of


def compare(
    student: ModuleType,
    answer: Callable[..., Any],
    cases: Mapping[str, tuple],
    right: Callable[..., Any],
    mistakes: Mapping[str, str] | None = None,
) -> None:
    """Raise Wrong if the numbers of the student's module are not right in all cases.

    Args:
        student: The module.
        answer: Computes numbers from a module and the arguments of a case.
        cases: Tuples of arguments, by a few words that describe what is special about them.
        right: Computes the right numbers from the same arguments by their definition: slow and
            obvious, in NumPy, without anything of the solution.
        mistakes: Edits of the solution, by the sentence that explains the mistake. The first that
            gives the student's numbers in every case is assumed to be what happened.
    """
    given = _answers(student, answer, cases)
    with np.errstate(all="ignore"):
        expected = {case: np.asarray(right(*args)) for case, args in cases.items()}
        differing = [case for case in cases if not _same(given[case], expected[case])]
        if not differing:
            return
        first = differing[0]
        seen = f"In the case '{first}' {_difference(given[first], expected[first])}"
        for sentence, edits in (mistakes or {}).items():
            mistaken = _answers(_edited(student.__name__, edits), answer, cases)
            if all(_same(given[case], mistaken[case]) for case in cases):
                raise Wrong(f"{sentence}\n{seen}")
    raise Wrong(seen)


def expect(condition: bool, sentence: str) -> None:
    """Raise Wrong with the sentence, unless the condition holds."""
    if not condition:
        raise Wrong(sentence)


def expect_gradient(function: Callable[..., Any], *inputs: Any) -> list:
    """Return the gradients of a function's sum; raise Wrong unless they reach all of its inputs."""
    found = gradients(function, *inputs)
    expect(
        all(each is not None for each in found),
        "The numbers are right, but no gradient reaches what is to be trained: keep to "
        "TensorFlow's functions, without .numpy() and float(), and use stop_gradient for targets.",
    )
    return found


def expect_constant(function: Callable[..., Any], *inputs: Any) -> None:
    """Raise Wrong if a gradient of a function reaches any of its inputs."""
    expect(
        all(each is None for each in gradients(function, *inputs)),
        "A gradient flows through what is a constant here: put tf.stop_gradient around it.",
    )


def calls(function: str, prepare: Callable[[tuple], Any] = tuple) -> Callable[..., Any]:
    """Return an `answer`: it calls a module's function of this name with prepared arguments."""
    return lambda module, *args: getattr(module, function)(*prepare(args))


def tensors(args: tuple) -> list:
    """Return arguments with tensors in place of their arrays."""
    import tensorflow as tf

    return [tf.constant(arg) if isinstance(arg, np.ndarray | np.generic) else arg for arg in args]


def gradients(function: Callable[..., Any], *inputs: Any) -> list:
    """Return the gradients of a function's sum, for each input; None where none flows."""
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(inputs)
        result = tf.reduce_sum(function(*inputs))
    return tape.gradient(result, [*inputs])


@cache
def _edited(name, edits):
    """Return the solution's module with edits."""
    return _module(name, solution(name, edits), "solution")


def _answers(module, answer, cases):
    return {
        case: _numbers(answer(module, *copy.deepcopy(args)))  # which students may write into
        for case, args in cases.items()
    }


def _numbers(result):
    if result is None:
        raise Wrong("None is returned. Is a `return` missing?")
    try:
        return np.asarray(result, np.float64)
    except (TypeError, ValueError):
        kind = "a function" if inspect.isroutine(result) else f"{type(result).__name__}"
        raise Wrong(f"Numbers are expected; {kind} is returned.") from None


def _close(given, expected):
    """Return where two arrays are equal up to the rounding of float32."""
    return np.isclose(given, expected, rtol=1e-4, atol=1e-5, equal_nan=True)


def _same(given, expected):
    return given.shape == expected.shape and bool(_close(given, expected).all())


def _difference(given, expected):
    given, expected = given + 0.0, expected + 0.0  # -0 is 0
    if given.shape != expected.shape:
        return f"the shape is {[*given.shape]}; it should be {[*expected.shape]}."
    if given.ndim == 0:
        return f"the result is {given:.6g}; it should be {expected:.6g}."
    index = tuple(map(int, np.argwhere(~_close(given, expected))[0]))
    return f"entry {[*index]} is {given[index]:.6g}; it should be {expected[index]:.6g}."
