"""Environments of this package, which `import spinup_tf2` registers with gymnasium."""

import warnings

import gymnasium as gym

_ENVIRONMENTS = {
    "ProbeReward-v0": dict(entry_point="spinup_tf2.envs.probe:ProbeReward", max_episode_steps=20),
    "ProbeGoal-v0": dict(entry_point="spinup_tf2.envs.probe:ProbeGoal", max_episode_steps=20),
}

_QUADRUPED = "spinup_tf2.envs.quadruped.env:QuadrupedEnv"
_ENVIRONMENTS |= {
    "QuadrupedWalk-v0": dict(
        entry_point=_QUADRUPED, kwargs=dict(task="walk"), max_episode_steps=400
    ),
    "QuadrupedCommand-v0": dict(
        entry_point=_QUADRUPED, kwargs=dict(task="command"), max_episode_steps=400
    ),
    "QuadrupedRecover-v0": dict(
        entry_point=_QUADRUPED, kwargs=dict(task="recover"), max_episode_steps=100
    ),
}

_PROCGEN = (
    *("bigfish", "bossfight", "caveflyer", "chaser", "climber", "coinrun", "dodgeball", "fruitbot"),
    *("heist", "jumper", "leaper", "maze", "miner", "ninja", "plunder", "starpilot"),
)
_ENVIRONMENTS |= {
    f"procgen/{game}": dict(
        entry_point="spinup_tf2.envs.envpool.procgen:ProcgenEnv", kwargs=dict(game=game)
    )
    for game in _PROCGEN
}
_ENVIRONMENTS["EnvPool-v0"] = dict(entry_point="spinup_tf2.envs.envpool.env:EnvPoolEnv")

_MARIO = "spinup_tf2.envs.mario.env:MarioEnv"
_MARIO_ROMS = ("vanilla", "downsample", "pixel", "rectangle")  # v0 to v3
_MARIO_STAGES = [f"{world}-{stage}" for world in range(1, 9) for stage in range(1, 5)]
for _version, _rom in enumerate(_MARIO_ROMS):
    for _name, _stages in {
        "SuperMarioBros": None,
        "SuperMarioBrosRandomStages": _MARIO_STAGES,
        **{f"SuperMarioBros-{stage}": [stage] for stage in _MARIO_STAGES},
    }.items():
        _ENVIRONMENTS[f"{_name}-v{_version}"] = dict(
            entry_point=_MARIO, kwargs=dict(stages=_stages, rom=_rom)
        )


def register_envs() -> None:
    """Register every environment of the package; calling it again does nothing."""
    # v0 to v3 are different versions of the game, but gymnasium takes v3 for the newest.
    warnings.filterwarnings("ignore", r".*The environment SuperMarioBros.* is out of date")
    for env_id, spec in _ENVIRONMENTS.items():
        if env_id not in gym.registry:
            gym.register(id=env_id, **spec)
