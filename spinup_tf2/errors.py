"""Exceptions that callers may want to handle, and helpers for error messages."""

import difflib
import re
import signal
import traceback
from collections.abc import Iterable


class UserError(ValueError):
    """A request that cannot be fulfilled; the message says what was given, expected and what to do.

    Arguments that cannot be used raise it before any work starts and before anything is written.
    The command line prints the message as one line and exits with status 2; in library calls it is
    an ordinary ValueError. Messages may quote files from unknown authors, so they are made
    `printable`.
    """

    # Without this attribute, Keras changes the message of an exception raised in a layer's call.
    _keras_call_info_injected = True

    def __init__(self, message: object):
        super().__init__(printable(message))


def printable(text: object) -> str:
    """Return a text with control characters and the like escaped, so that it is safe to print.

    Line breaks and tabs are kept.
    """
    return "".join(
        letter
        if letter.isprintable() or letter in "\n\t"
        else letter.encode("unicode_escape").decode()
        for letter in str(text)
    )


def shortened(text: str, length: int = 200) -> str:
    """Return a text, or its beginning followed by dots if it is longer than `length`."""
    return text if len(text) <= length else f"{text[:length]}..."


def one_line(text: object) -> str:
    """Return a text or an exception's message without line breaks, to be quoted in a message."""
    return " ".join(str(text).split())


def did_you_mean(word: str, known: Iterable[str], prefix: str = "") -> str:
    """Return " did you mean ...?" with the closest of the known words; "" if none is close."""
    close = difflib.get_close_matches(str(word), known, n=1)
    return f" did you mean {prefix}{close[0]}?" if close else ""


def kind_and_line(error: BaseException) -> str:
    """Return an exception's class and message in one line."""
    return f"{type(error).__name__}: {one_line(error)}"


def place_of(error: BaseException) -> str:
    """Return file and line where an exception was raised, or the one that it was raised from."""
    trace = getattr(error.__cause__, "__traceback__", None) or error.__traceback__
    *_, place = traceback.extract_tb(trace)
    return f"{place.filename}, line {place.lineno}"


def reason_of(error: BaseException) -> str:
    """Return why a file cannot be read or written: what the system says, not TensorFlow's copy."""
    text = getattr(error, "strerror", None) or next(iter(str(error).splitlines()), "")
    return re.sub(r" \[Op:\w+\]$", "", text).rpartition("; ")[2]


class ExperimentsFailed(Exception):
    """Some experiments of a grid have failed; all others have still been run.

    Commands exit with `status`: that of the experiment if the grid has only one, otherwise 1.
    """

    def __init__(self, message: object, status: int = 1):
        super().__init__(message)
        self.status = status


class Interrupted(KeyboardInterrupt):
    """A training run has been stopped by the signal `signum`, after it has been saved.

    It is a KeyboardInterrupt, so that `except Exception` does not treat it as a failure. Commands
    exit with `status`, 128 + signum.
    """

    def __init__(self, signum: int):
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.signum = int(signum)

    @property
    def status(self) -> int:
        return 128 + self.signum
