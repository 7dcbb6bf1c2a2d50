"""Whether there is progress in this process: the loops and MPI calls say so to the watchdog."""

_alive = False


def beat() -> None:
    """Tell the watchdog of this process that there is progress."""
    global _alive
    _alive = True


def has_beaten() -> bool:
    """Whether there has been a `beat` since the last call of this function."""
    global _alive
    alive, _alive = _alive, False
    return alive
