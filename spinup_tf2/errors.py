"""Exceptions for callers of this package, and helpers for messages."""

import difflib
import signal
from collections.abc import Iterable


class UserError(ValueError):
    """Raised if something cannot be done as requested.

    The message says what was given, what was expected, and what to do. It is raised before any work
    starts and before anything is written. The command line prints the message as one line and exits
    with status 2; in library calls it is an ordinary ValueError. Messages may quote files that
    anybody may have written, so they are made `printable`.
    """

    # Without this attribute, Keras would wrap the message of an exception in a layer's call.
    _keras_call_info_injected = True

    def __init__(self, message: object):
        super().__init__(printable(message))


def printable(text: object) -> str:
    """Escape characters of a text that could control a terminal, except line breaks and tabs."""
    return "".join(
        letter
        if letter.isprintable() or letter in "\n\t"
        else letter.encode("unicode_escape").decode()
        for letter in str(text)
    )


def shortened(text: str, length: int = 200) -> str:
    """Return a text, or its beginning and dots if it is longer than `length` characters."""
    return text if len(text) <= length else f"{text[:length]}..."


def one_line(text: object) -> str:
    """Return a text, or the message of an exception, in one line, to be quoted in a message."""
    return " ".join(str(text).split())


def did_you_mean(word: str, known: Iterable[str], prefix: str = "") -> str:
    """Return " did you mean ...?" with the closest of the known words; "" if none is close."""
    close = difflib.get_close_matches(str(word), known, n=1)
    return f" did you mean {prefix}{close[0]}?" if close else ""


def kind_and_line(error: BaseException) -> str:
    """Return an exception's class and message in one line."""
    return f"{type(error).__name__}: {one_line(error)}"


class ExperimentsFailed(Exception):
    """Raised if experiments of a grid have failed, after all others have run.

    Commands exit with `status`: that of the experiment if it is the only one, or else 1.
    """

    def __init__(self, message: object, status: int = 1):
        super().__init__(message)
        self.status = status


class Interrupted(KeyboardInterrupt):
    """Raised when training was asked to stop by the signal `signum`, after it has saved.

    It is a KeyboardInterrupt, so that `except Exception` does not take it for a failure. Commands
    exit with `status`, 128 + signum.
    """

    def __init__(self, signum: int):
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.signum = int(signum)

    @property
    def status(self) -> int:
        return 128 + self.signum
