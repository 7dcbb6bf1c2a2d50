"""Which arguments of QuadrupedEnv, and which options of its `reset`, can be used."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from spinup_tf2.envs.quadruped.commands import checked
from spinup_tf2.envs.quadruped.tasks import TASKS
from spinup_tf2.envs.wrappers import check_at_least, check_not_negative, check_switches
from spinup_tf2.errors import UserError

CONNECTIONS = {"GUI": "human", "DIRECT": None}  # what PyBullet calls the render modes
RENDER_MODES = ("human", "rgb_array", *CONNECTIONS)

_SWITCHES = (
    *("absolute_actions", "residual_gait", "history", "base_velocity", "reset_noise", "straight"),
    "terminate_on_success",
)


def check_arguments(
    task: str,
    render_mode: str | None,
    action_scale: Sequence[float] | None,
    action_filter: float | None,
    reward: str | None,
    phase_hz: float | None,
    **others: Any,
) -> None:
    """Raise UserError for arguments of QuadrupedEnv that cannot be used."""
    _check_choice("task", task, TASKS)
    _check_choice("render_mode", render_mode, [None, *RENDER_MODES])
    _check_choice("reward", reward, [None, *TASKS[task].rewards])
    counts, positive = ("sim_hz", "action_repeat"), ("kp", "kd", "torque_limit", "target_speed")
    check_at_least(1, **{name: others[name] for name in counts})
    check_at_least(0, prev_epochs=others["prev_epochs"])
    check_switches(**{name: x for name, x in others.items() if name in _SWITCHES})
    check_not_negative(phase_hz=phase_hz or 0)
    numbers = {name: others[name] for name in positive}
    optional = dict(action_filter=action_filter, velocity_limit=others["velocity_limit"])
    numbers |= {name: x for name, x in optional.items() if x is not None}
    if action_scale is not None:
        if np.shape(action_scale) != (3,):
            raise UserError(
                f"action_scale is {action_scale!r}; it must be three numbers in rad, for hip, "
                "upper and lower joints."
            )
        numbers |= {f"action_scale[{i}]": x for i, x in enumerate(action_scale)}
    for name, number in numbers.items():
        if not (isinstance(number, int | float) and 0 < number < math.inf):
            raise UserError(f"{name} is {number!r}; it must be a number greater than 0.")
    if others["absolute_actions"] and others["residual_gait"]:
        raise UserError("absolute_actions and residual_gait exclude each other.")
    if others["straight"] and task != "walk":
        raise UserError("straight is for the task 'walk' only.")
    if others["command_ranges"] is not None and task != "command":
        raise UserError("command_ranges is for the task 'command' only.")
    if others["terminate_on_success"] and task != "recover":
        raise UserError("terminate_on_success is for the task 'recover' only.")


def _check_choice(name, value, choices):
    if value not in choices:
        raise UserError(f"{name} is {value!r}; it must be one of {', '.join(map(str, choices))}.")


def reset_options(
    options: Mapping[str, Any], commanded: bool
) -> tuple[bool, Any, np.ndarray | None]:
    """The options from_backup, take_over and command of `reset`; None where one is not given.

    commanded: whether the task takes commands.
    """
    known = ["from_backup", "take_over"] + ["command"] * commanded
    unknown = [name for name in options if name not in known]
    if unknown:
        raise UserError(f"reset has the options {', '.join(known)}, not {unknown}.")
    other, command = options.get("take_over"), options.get("command")
    from_backup = options.get("from_backup", False)
    if from_backup and (other is not None or command is not None):
        raise UserError("from_backup goes on with what was there; it has no other option.")
    return from_backup, other, None if command is None else checked(command)


def check_same_robot(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    """Raise UserError if the robots of two environments, made with these arguments, differ."""
    important = ("sim_hz", "kp", "kd", "torque_limit", "velocity_limit", "window")
    different = [name for name in important if mine[name] != theirs[name]]
    if different:
        raise UserError(
            f"take_over needs environments whose robots are alike, and these have another "
            f"{', '.join(different)}: {[mine[name] for name in different]} and "
            f"{[theirs[name] for name in different]}."
        )
