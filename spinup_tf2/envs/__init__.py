"""Environments of this package, registered with gymnasium.

`gymnasium` calls `register_envs` by itself, through the `gymnasium.envs` entry point, so that
`gymnasium.make("ProbeReward-v0")` works without importing spinup_tf2.
"""

from gymnasium.envs.registration import register


def register_envs():
    """Register every environment of the package."""
    register(
        id="ProbeReward-v0",
        entry_point="spinup_tf2.envs.probe:ProbeReward",
        max_episode_steps=20,
    )
    register(
        id="ProbeGoal-v0",
        entry_point="spinup_tf2.envs.probe:ProbeGoal",
        max_episode_steps=20,
    )
