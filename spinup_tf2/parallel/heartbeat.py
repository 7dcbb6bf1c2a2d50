"""Heartbeat by which training loops and MPI calls show the watchdog that there is progress."""

_alive = False


def beat() -> None:
    """Tell the watchdog of this process that there is progress."""
    global _alive
    _alive = True


def has_beaten() -> bool:
    """Return whether there has been a `beat` since the last call of this function."""
    global _alive
    alive, _alive = _alive, False
    return alive
