"""The one exception for mistakes in what the user asked for."""


class UserError(ValueError):
    """Something was asked for that cannot be done: the message says what was given, what was
    expected and what to do.

    Raised before any work starts and before anything is written. The command line prints the
    message as one line and exits with status 2; in library calls it is an ordinary ValueError.
    """
