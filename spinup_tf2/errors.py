"""The exceptions that mean something to a caller."""

import difflib
import signal
from collections.abc import Iterable


class UserError(ValueError):
    """Something was asked for that cannot be done: the message says what was given, what was
    expected and what to do.

    Raised before any work starts and before anything is written. The command line prints the
    message as one line and exits with status 2; in library calls it is an ordinary ValueError.
    Messages quote files that anybody may have written, so they are made `printable`.
    """

    # Keras wraps the message of an exception from within a layer's call, unless it has this.
    _keras_call_info_injected = True

    def __init__(self, message: object):
        super().__init__(printable(message))


def printable(text: object) -> str:
    """A text with everything escaped that could do more to a terminal than show a character.

    Line breaks and tabs stay.
    """
    return "".join(
        letter
        if letter.isprintable() or letter in "\n\t"
        else letter.encode("unicode_escape").decode()
        for letter in str(text)
    )


def shortened(text: str, length: int = 200) -> str:
    """A text, or its beginning and dots if it is longer than `length`."""
    return text if len(text) <= length else f"{text[:length]}..."


def one_line(text: object) -> str:
    """A text, or what an exception says, without its line breaks, to be quoted in a message."""
    return " ".join(str(text).split())


def did_you_mean(word: str, known: Iterable[str], prefix: str = "") -> str:
    """A question about the nearest of the known words, with a space before it; or ""."""
    close = difflib.get_close_matches(str(word), known, n=1)
    return f" did you mean {prefix}{close[0]}?" if close else ""


def kind_and_line(error: BaseException) -> str:
    """An exception's class and what it says, in one line."""
    return f"{type(error).__name__}: {one_line(error)}"


class ExperimentsFailed(Exception):
    """Experiments of a grid have failed while they ran; the others were not kept from running.

    Commands exit with `status`: that of the only experiment of a grid, or else 1.
    """

    def __init__(self, message: object, status: int = 1):
        super().__init__(message)
        self.status = status


class Interrupted(KeyboardInterrupt):
    """A training was asked to stop by the signal `signum`, has saved, and has stopped.

    A KeyboardInterrupt, so that `except Exception` does not take it for a failure. Commands exit
    with `status`, 128 + signum.
    """

    def __init__(self, signum: int):
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.signum = int(signum)

    @property
    def status(self) -> int:
        return 128 + self.signum
