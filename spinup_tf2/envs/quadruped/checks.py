"""Checks of the arguments of QuadrupedEnv, and of the options of its `reset`."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from spinup_tf2.arguments.rules import (
    NON_NEGATIVE,
    NON_NEGATIVE_INTEGER,
    POSITIVE,
    POSITIVE_INTEGER,
    SWITCH,
    Rule,
    check,
    optional,
)
from spinup_tf2.envs.quadruped.commands import LIMITS
from spinup_tf2.envs.quadruped.tasks import TASKS
from spinup_tf2.errors import UserError

CONNECTIONS = {"GUI": "human", "DIRECT": None}  # PyBullet's names of the render modes
RENDER_MODES = ("human", "rgb_array", *CONNECTIONS)

_SWITCHES = (
    *("absolute_actions", "residual_gait", "history", "base_velocity", "reset_noise", "straight"),
    "terminate_on_success",
)


def _is_scale(value):
    is_positive, _ = POSITIVE
    numbers = value.tolist() if isinstance(value, np.ndarray) else value
    return (
        isinstance(numbers, list | tuple) and len(numbers) == 3 and all(map(is_positive, numbers))
    )


_SCALE: Rule = (_is_scale, "three numbers above 0, in rad, for hip, upper and lower joints")
_RULES: dict[str, Rule] = {
    **dict.fromkeys(("sim_hz", "action_repeat"), POSITIVE_INTEGER),
    **dict.fromkeys(("kp", "kd", "torque_limit", "target_speed"), POSITIVE),
    **dict.fromkeys(("velocity_limit", "action_filter"), optional(POSITIVE)),
    **dict.fromkeys(_SWITCHES, SWITCH),
    "action_scale": optional(_SCALE),
    "phase_hz": optional(NON_NEGATIVE),
    "prev_epochs": NON_NEGATIVE_INTEGER,
}


def check_arguments(task: str, render_mode: str | None, reward: str | None, **others: Any) -> None:
    """Raise UserError for invalid arguments of QuadrupedEnv.

    Weights and ranges are checked where they are used.
    """
    _check_choice("task", task, TASKS)
    _check_choice("render_mode", render_mode, [None, *RENDER_MODES])
    _check_choice("reward", reward, [None, *TASKS[task].rewards])
    for name, rule in _RULES.items():
        check(rule, **{name: others[name]})
    if others["absolute_actions"] and others["residual_gait"]:
        raise UserError("absolute_actions and residual_gait exclude each other.")
    if others["straight"] and task != "walk":
        raise UserError("straight is for the task 'walk' only.")
    if others["command_ranges"] is not None and task != "command":
        raise UserError("command_ranges is for the task 'command' only.")
    if others["terminate_on_success"] and task != "recover":
        raise UserError("terminate_on_success is for the task 'recover' only.")


def _check_choice(name, value, choices):
    if not isinstance(value, str | None) or value not in choices:
        raise UserError(f"{name} is {value!r}; it must be one of {', '.join(map(str, choices))}.")


def finite_numbers(given: Any, size: int) -> np.ndarray | None:
    """Return a copy of `given` as floats `[size]`; None if it is not that many finite numbers."""
    try:
        numbers = np.array(given, float)
    except (TypeError, ValueError, OverflowError):
        return None
    return numbers if numbers.shape == (size,) and np.isfinite(numbers).all() else None


def reset_options(
    options: Mapping[str, Any], commanded: bool
) -> tuple[bool, Any, np.ndarray | None]:
    """Return the options from_backup, take_over and command of `reset`, after checking them.

    Options that are not given are False, None and None.

    Args:
        options: The options.
        commanded: Whether the task takes commands.

    Raises:
        UserError: An option is unknown or invalid, or they contradict each other.
    """
    known = ["from_backup", "take_over"] + ["command"] * commanded
    unknown = [name for name in options if name not in known]
    if unknown:
        raise UserError(f"reset has the options {', '.join(known)}, not {unknown}.")
    other, command = options.get("take_over"), options.get("command")
    from_backup = options.get("from_backup", False)
    if from_backup and (other is not None or command is not None):
        raise UserError("from_backup goes on with what was there; it has no other option.")
    return from_backup, other, None if command is None else _checked_command(command)


def _checked_command(command):
    """Return a command given by the user as floats `[3]`, after checking it."""
    numbers = finite_numbers(command, 3)
    limits = [LIMITS[name] for name in ("forward", "sideways", "turning")]
    if numbers is None or any(
        not low <= x <= high for x, (low, high) in zip(numbers, limits, strict=True)
    ):
        forward, sideways, turning = (f"from {low:g} to {high:g}" for low, high in limits)
        raise UserError(
            f"The command is {command!r}; it must be three numbers: m/s forward, {forward}, m/s to "
            f"the left, {sideways}, and rad/s to the left, {turning}."
        )
    return numbers


def check_same_robot(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    """Raise UserError if robots made with these two sets of arguments differ."""
    important = ("sim_hz", "kp", "kd", "torque_limit", "velocity_limit", "roughness", "window")
    different = [name for name in important if mine[name] != theirs[name]]
    if different:
        raise UserError(
            f"take_over needs environments whose robots are alike, and these have another "
            f"{', '.join(different)}: {[mine[name] for name in different]} and "
            f"{[theirs[name] for name in different]}. Make them with the same."
        )
