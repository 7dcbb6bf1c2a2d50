"""What an agent has learned, and kept."""

from collections.abc import Callable
from pathlib import Path

from tests.runs import train


def last_return(algorithm: Callable, path: Path, env_fn: Callable, **kwargs) -> float:
    """The mean return of the last three epochs: in tests without noise, where there are any."""
    _, rows = train(algorithm, path, env_fn, **kwargs)
    column = "AverageTestEpRet" if "AverageTestEpRet" in rows[-1] else "AverageEpRet"
    return sum(float(row[column]) for row in rows[-3:]) / 3
