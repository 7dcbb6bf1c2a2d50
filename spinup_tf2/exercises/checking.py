"""Compares a student's answer with the right one, and with common mistakes."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

Check = Callable[[ModuleType], None]


class Wrong(Exception):
    """Raised if an answer is wrong; the message says how."""


class NotDoneYet(Exception):
    """Raised if a function, which the message names, has not been completed."""


def run(check: Check, student: ModuleType) -> None:
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


def compare(
    answer: Callable[..., Any],
    cases: Mapping[str, tuple],
    right: Callable[..., Any],
    mistakes: Mapping[str, Callable[..., Any]],
) -> None:
    """Raise Wrong if the answer's numbers are not right in all cases.

    Args:
        answer: The student's function, or one that computes numbers with the student's code.
        cases: Tuples of arguments, by a few words that describe what is special about them.
        right: The right function, implemented by its definition: slow and obvious, in NumPy.
        mistakes: Wrong functions, by the sentence that explains the mistake. The first one that
            gives the student's numbers in every case is assumed to be what happened.
    """
    given = {case: _numbers(answer(*_copies(args))) for case, args in cases.items()}
    with np.errstate(all="ignore"):
        expected = {case: np.asarray(right(*args)) for case, args in cases.items()}
        differing = [case for case in cases if not _same(given[case], expected[case])]
        if not differing:
            return
        first = differing[0]
        seen = f"In the case '{first}' {_difference(given[first], expected[first])}"
        for sentence, mistaken in mistakes.items():
            if all(_same(given[case], mistaken(*args)) for case, args in cases.items()):
                raise Wrong(f"{sentence}\n{seen}")
    raise Wrong(seen)


def expect(condition: bool, sentence: str) -> None:
    """Raise Wrong with the sentence, unless the condition holds."""
    if not condition:
        raise Wrong(sentence)


def _copies(args):
    return [np.copy(arg) if isinstance(arg, np.ndarray) else arg for arg in args]


def _numbers(result):
    if result is None:
        raise Wrong("None is returned. Is a `return` missing?")
    try:
        return np.asarray(result, np.float64)
    except (TypeError, ValueError):
        kind = "a function" if inspect.isroutine(result) else f"{type(result).__name__}"
        raise Wrong(f"Numbers are expected; {kind} is returned.") from None


def _same(given, expected):
    """Return whether two results are equal up to the rounding of float32."""
    expected = np.asarray(expected, np.float64)
    return given.shape == expected.shape and np.allclose(given, expected, rtol=1e-4, atol=1e-5)


def _difference(given, expected):
    given, expected = given + 0.0, expected + 0.0  # -0 is 0
    if given.shape != expected.shape:
        return f"the shape is {[*given.shape]}; it should be {[*expected.shape]}."
    if given.ndim == 0:
        return f"the result is {given:.6g}; it should be {expected:.6g}."
    index = tuple(map(int, np.argwhere(~np.isclose(given, expected, rtol=1e-4, atol=1e-5))[0]))
    return f"entry {[*index]} is {given[index]:.6g}; it should be {expected[index]:.6g}."
