"""The conditions under which `evaluate --robustness` evaluates the quadruped."""

from typing import Any

from spinup_tf2.envs.quadruped.tasks import Task

_CHANGED = {
    "undisturbed": {},
    "friction 0.4": {"friction": 0.4},
    "friction 1.25": {"friction": 1.25},
    "trunk +64 %": {"mass": 1.64},  # 3 kg
    "latency 20 ms": {"latency": 0.02},
    "latency 40 ms": {"latency": 0.04},
    "gains -20 %": {"gains": 0.8},
    "gains +20 %": {"gains": 1.2},
    "torque 20 Nm": {"torque_limit": 20.0},
    "sensor noise": {"sensor_noise": 1.0},
    "push 60 N": {"push": 60.0},
    "push 100 N": {"push": 100.0},
    "slope 5 degrees": {"slope": 5.0},
    "slope 10 degrees": {"slope": 10.0},
    "rough ground 3 cm": {"roughness": 0.03},
}
_COMMANDS = (
    *((0.0, 0.0, 0.0), (0.4, 0.0, 0.0), (0.8, 0.0, 0.0), (-0.3, 0.0, 0.0)),
    *((0.0, 0.3, 0.0), (0.0, 0.0, 0.8), (0.4, 0.0, -0.8)),
)


def conditions_of(task: Task) -> dict[str, dict[str, Any]]:
    """Return the arguments of the environment for each condition, by name.

    All other conditions are fixed, whatever the agent was trained with. If the task has commands,
    some of them are conditions as well.
    """
    rows = {name: {"domain_randomization": changed} for name, changed in _CHANGED.items()}
    rows["velocity limit 21"] = {"domain_randomization": {}, "velocity_limit": 21.0}
    if task.commanded:
        for command in _COMMANDS:
            ranges = dict(zip(("forward", "sideways", "turning"), command, strict=True))
            rows["command " + " ".join(f"{x:g}" for x in command)] = {
                "domain_randomization": {},
                "command_ranges": {**ranges, "standing": 0.0},
            }
    return rows
