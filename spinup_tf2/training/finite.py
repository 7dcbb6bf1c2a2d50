"""Checks that find numbers that are not finite in the epoch in which they appear, and name them.

Every function raises NonFiniteError on the rank that has the number, which ends the whole job; no
communication is needed. Numbers too large for float32 count as infinite, because networks are
trained in it.
"""

import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.parallel.mpi import proc_id

_LARGEST = float(np.finfo(np.float32).max)

_END = "Training has stopped; the saved policy and the checkpoints are of epochs before."
_REPAIR = (
    "Repair the environment, or put a wrapper around it that keeps its {}s finite in float32, "
    f"which ends at {_LARGEST:.2g}."
)
_DIVERGED = (
    "Look for rewards or observations that are huge, take smaller learning rates, or let "
    "max_grad_norm (where there is one) shorten gradients."
)


class NonFiniteError(RuntimeError):
    """A number that the training depends on is infinite or NaN; the message says which one."""


def check_step(
    envs: VectorEnv,
    epoch: int,
    step: int,
    obs: np.ndarray,
    rew: np.ndarray | None = None,
    final_obs: Mapping[int, np.ndarray | None] | None = None,
    acting: Iterable[keras.Variable] = (),
) -> None:
    """Check the results of one step of all environments, or of a reset (no rew and final_obs).

    Args:
        envs: The environments.
        epoch: Number of the epoch, as it is logged.
        step: Number of the step in the epoch, for each environment, from 1; after a reset, the
            number of steps taken so far in the epoch.
        obs, rew, final_obs: As VectorEnv.step returns them.
        acting: As in `check_experience`.
    """
    if _all_finite(obs) and (rew is None or _all_finite(rew)) and not final_obs:
        return
    steps = 0 if rew is None else 1
    before = np.empty((steps, *obs.shape), np.uint8)  # earlier observations have been checked
    rew = np.zeros((0, len(obs))) if rew is None else rew[None]
    last = [(0, i, each) for i, each in (final_obs or {}).items() if each is not None]
    check_experience(envs, epoch, step - steps, before, rew, last, obs, acting)


def check_experience(
    envs: VectorEnv,
    epoch: int,
    first_step: int,
    obs: np.ndarray,
    rew: np.ndarray,
    final_obs: Sequence[tuple[int, int, np.ndarray]],
    last_obs: np.ndarray,
    acting: Iterable[keras.Variable] = (),
) -> None:
    """Check the results of `T` steps of all environments, as TrajectoryBuffer holds them.

    The error names the earliest number that is not finite.

    Args:
        envs: The environments.
        epoch: Number of the epoch, as it is logged.
        first_step: How many steps of the epoch each environment has taken before these.
        obs: Observations before each step, `[T, n, ...]`.
        rew: Rewards `[T, n]`, not scaled.
        final_obs: (t, environment, last observation) for each episode that ended in step t.
        last_obs: Observations after the last step, `[n, ...]`.
        acting: The variables of the policy that acted. They are checked only if something is found:
            an environment is not to blame for the result of actions that are not finite.
    """
    if all(map(_all_finite, (obs, rew, last_obs, *(last for *_, last in final_obs)))):
        return
    check_variables(acting, epoch)
    # (steps before it, what, numbers `[T, n, ...]`), each of which is looked through once.
    parts = [(0, "observation", obs), (1, "reward", rew), (len(rew), "observation", last_obs[None])]
    found = []
    for before, what, numbers in parts:
        if not _all_finite(numbers):
            t, i, *component = place = _first(numbers)
            found.append((before + t, i, what, component, numbers[place]))
    for t, i, last in final_obs:
        if not _all_finite(last):
            component = _first(last)
            found.append((t + 1, i, "observation", component, last[component]))
    t, i, what, component, value = min(found, key=lambda each: each[:3])
    part = f", component {', '.join(map(str, component))}," if component else ""
    said = f"{value:g}, which float32 cannot hold," if np.isfinite(value) else value
    raise NonFiniteError(
        f"The {what} of {envs.labels[i]}{part} is {said} after step {first_step + t} of epoch "
        f"{epoch}. {_END} {_REPAIR.format(what)}"
    )


def check_info(info: Mapping[str, Any], epoch: int) -> None:
    """Check the scalars and arrays that an update has returned to be logged.

    The error names the number that comes first among the steps of the update, and a loss rather
    than the numbers from which it was computed.

    Args:
        info: Numbers and arrays by name; None and strings are ignored.
        epoch: Number of the epoch, as it is logged.
    """
    found = []  # (fraction of the update before it, whether it is no loss, message)
    for name, value in info.items():
        numbers = () if value is None or isinstance(value, str) else value
        values = np.asarray(numbers, np.float64).ravel()
        if not np.isfinite(values).all():
            place, size = int(np.argmin(np.isfinite(values))), len(values)
            number = f" (number {place + 1} of {size})" if size > 1 else ""
            said = f"{name}{number} is {values[place]}"
            found.append((place / size, not name.startswith("Loss"), said))
    if found:
        *_, said = min(found)
        raise NonFiniteError(
            f"{said} in the update of epoch {epoch} ({_rank()}). {_END} {_DIVERGED}"
        )


def check_variables(variables: Iterable[keras.Variable], epoch: int) -> None:
    """Check variables that updates have changed, such as those of networks and optimizers.

    Args:
        variables: The variables.
        epoch: Number of the epoch, as it is logged.
    """
    for variable in variables:
        value = variable.numpy()
        if not _all_finite(value):
            bad = int((~_finite(value)).sum())
            raise NonFiniteError(
                f"{bad} of the {value.size} numbers in {variable.path} are not finite in epoch "
                f"{epoch} ({_rank()}): a gradient was not, or a step was too long. "
                f"{_END} {_DIVERGED}"
            )


def _finite(x):
    # Both are False for nan.
    return np.isfinite(x) if x.dtype == np.float32 else np.abs(x) <= _LARGEST


def _all_finite(x):
    return x.dtype.kind != "f" or bool(_finite(x).all())


def _first(x):
    """Return the index of the first element that is not finite."""
    return tuple(np.argwhere(~_finite(x))[0].tolist())


def _rank():
    return f"rank {proc_id()} on {socket.gethostname()}"
