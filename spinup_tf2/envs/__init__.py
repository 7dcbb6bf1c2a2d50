"""Environments of this package, registered with gymnasium by `import spinup_tf2`."""

import gymnasium as gym

_ENVIRONMENTS = {
    "ProbeReward-v0": dict(entry_point="spinup_tf2.envs.probe:ProbeReward", max_episode_steps=20),
    "ProbeGoal-v0": dict(entry_point="spinup_tf2.envs.probe:ProbeGoal", max_episode_steps=20),
}


def register_envs() -> None:
    """Register every environment of the package; calling it again does nothing."""
    for env_id, spec in _ENVIRONMENTS.items():
        if env_id not in gym.registry:
            gym.register(id=env_id, **spec)
